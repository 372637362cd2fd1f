package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/mcp"
	"github.com/callcell/callcell/internal/mcp/hub"
	"github.com/callcell/callcell/internal/testing/leak"
)

// runner runs calls until they are cancelled, or hang is closed.
type runner struct {
	running atomic.Int32
	hang    chan struct{}
}

// Run implements mcp.Runner.
func (r *runner) Run(ctx context.Context, _ broker.Caller, _ *envelope.Call) *envelope.Result {
	r.running.Add(1)
	defer r.running.Add(-1)
	select {
	case <-ctx.Done():
		return &envelope.Result{ID: "x", Outcome: envelope.OutcomeCancelled}
	case <-r.hang:
		return &envelope.Result{ID: "x", Outcome: envelope.OutcomeCompleted}
	}
}

// Explain implements mcp.Runner.
func (*runner) Explain(context.Context, broker.Caller, *envelope.Call) *broker.Explanation {
	return &broker.Explanation{}
}

// A stand is a hub whose keys are revoked by hand.
type stand struct {
	*hub.Hub
	t      *testing.T
	runner *runner

	mu      sync.Mutex // guards what follows
	revoked map[string]context.CancelCauseFunc
	keys    map[string]context.Context
	broken  bool // no server can be made
}

func newStand(t *testing.T, atOnce, ofKey int) *stand {
	t.Helper()
	s := &stand{t: t, runner: &runner{hang: make(chan struct{})}, revoked: map[string]context.CancelCauseFunc{}, keys: map[string]context.Context{}}
	s.Hub = hub.New(hub.Options{AtOnce: atOnce, OfKey: ofKey, Idle: time.Minute, While: s.while})
	return s
}

func (s *stand) key(key string) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key] == nil {
		s.keys[key], s.revoked[key] = context.WithCancelCause(context.Background())
	}
	return s.keys[key]
}

func (s *stand) while(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.key(key), cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *stand) revoke(key string) {
	s.key(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked[key](errors.New("revoked"))
}

var errBroken = errors.New("no server")

func (s *stand) owner(key string) hub.Owner {
	return hub.Owner{Key: key, Make: func(session string) (*mcp.Server, error) {
		s.mu.Lock()
		broken := s.broken
		s.mu.Unlock()
		if broken {
			return nil, errBroken
		}
		return mcp.New(mcp.Options{Runner: s.runner, Profiles: []mcp.Profile{{Name: "p", Envelope: envelope.Default()}}, Session: session, Calls: 100})
	}}
}

// send sends a message, and returns the answer.
func (s *stand) send(ctx context.Context, method, key, session, body string, headers ...string) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(mcp.SessionHeader, session)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	var msg *mcp.Message
	if method == http.MethodPost {
		m, err := mcp.ReadMessage([]byte(body))
		if err != nil {
			s.t.Fatal(err)
		}
		msg = &m
	}
	w := httptest.NewRecorder()
	return w, s.Serve(w, r, s.owner(key), msg)
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ping       = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	call       = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["x"]}}}`
)

func (s *stand) open(key string) string {
	s.t.Helper()
	w, err := s.send(s.t.Context(), "POST", key, "", initialize)
	id := w.Header().Get(mcp.SessionHeader)
	if err != nil || id == "" {
		s.t.Fatalf("%v %d %s", err, w.Code, w.Body)
	}
	return id
}

// TestIdle: a session ends when nothing of it is under way for long enough, and
// not before; a stream that is open is under way.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, 10, 10)
		defer s.Close()
		quiet, used, listening := s.open("k"), s.open("k"), s.open("k")
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan error, 1)
		go func() {
			_, err := s.send(ctx, "GET", "k", listening, "")
			heard <- err
		}()
		synctest.Wait()
		time.Sleep(59 * time.Second)
		if w, err := s.send(t.Context(), "POST", "k", used, ping); err != nil || w.Code != 200 {
			t.Errorf("%v %d", err, w.Code)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for name, c := range map[string]struct {
			id   string
			want error
		}{"quiet": {quiet, hub.ErrUnknown}, "used": {used, nil}, "listening": {listening, nil}} {
			if _, err := s.send(t.Context(), "POST", "k", c.id, ping); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel()
		if err := <-heard; err != nil {
			t.Error(err)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if n := s.Sessions(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// TestWhatIsNoBeginningOpensNothing: no place is taken by it.
func TestWhatIsNoBeginningOpensNothing(t *testing.T) {
	leak.Check(t)
	s := newStand(t, 2, 2)
	defer s.Close()
	for range 5 {
		w, err := s.send(t.Context(), "POST", "k", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`)
		if err != nil || strings.Contains(w.Body.String(), "serverInfo") {
			t.Fatalf("%v %d %s", err, w.Code, w.Body)
		}
	}
	s.mu.Lock()
	s.broken = true
	s.mu.Unlock()
	for range 5 {
		if _, err := s.send(t.Context(), "POST", "k", "", initialize); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestTheQuietestGivesWay: of the same key, and none that is at work.
func TestTheQuietestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, 3, 2)
		defer s.Close()
		busy := s.open("k")
		over := make(chan error, 1)
		go func() {
			_, err := s.send(t.Context(), "POST", "k", busy, call)
			over <- err
		}()
		synctest.Wait()
		other := s.open("other")
		var last string
		for range 3 {
			time.Sleep(time.Second)
			last = s.open("k")
		}
		for name, c := range map[string]struct{ key, id string }{"at work": {"k", busy}, "the last": {"k", last}, "another's": {"other", other}} {
			if _, err := s.send(t.Context(), "POST", c.key, c.id, ping); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := s.send(t.Context(), "POST", "third", "", initialize); !errors.Is(err, hub.ErrFull) {
			t.Errorf("one too many: %v", err)
		}
		if n := s.Sessions(); n != 3 {
			t.Errorf("%d sessions", n)
		}
		close(s.runner.hang)
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestEnds: whatever ends a session ends its calls, before Close returns.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*stand, string){
		"its client": func(s *stand, id string) {
			if w, err := s.send(s.t.Context(), "DELETE", "k", id, ""); err != nil || w.Code != 204 {
				s.t.Errorf("%v %d", err, w.Code)
			}
		},
		"its key": func(s *stand, _ string) { s.revoke("k") },
		"the hub": func(s *stand, _ string) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, 4, 4)
				id := s.open("k")
				over := make(chan struct{}, 2)
				for _, headers := range [][]string{nil, {mcp.RevisionHeader, mcp.Sessionless, "Mcp-Method", "tools/call", "Mcp-Name", "run_command"}} {
					session, body := id, call
					if headers != nil {
						session, body = "", strings.Replace(call, `"arguments"`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"arguments"`, 1)
					}
					go func() {
						w, err := s.send(t.Context(), "POST", "k", session, body, headers...)
						if err != nil || w.Code != 200 {
							t.Errorf("%v %d %s", err, w.Code, w.Body)
						}
						over <- struct{}{}
					}()
				}
				synctest.Wait()
				if n := s.runner.running.Load(); n != 2 {
					t.Fatalf("%d calls run", n)
				}
				end(s, id)
				if name == "its client" { // the other one is not its session's
					synctest.Wait()
					if n := s.runner.running.Load(); n != 1 {
						t.Errorf("%d calls run", n)
					}
				}
				s.Close()
				if n := s.runner.running.Load(); n != 0 {
					t.Errorf("%d calls run", n)
				}
				<-over
				<-over
				if _, err := s.send(t.Context(), "POST", "k", "", initialize); !errors.Is(err, hub.ErrClosed) {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// TestDrain: who only listens is sent away, and a call goes on.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, 4, 4)
		defer s.Close()
		id := s.open("k")
		listened, called := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.send(t.Context(), "GET", "k", id, "")
			listened <- err
		}()
		go func() {
			w, err := s.send(t.Context(), "POST", "k", id, call)
			if !strings.Contains(w.Body.String(), `"outcome":"completed"`) {
				err = errors.Join(err, fmt.Errorf("%s", w.Body))
			}
			called <- err
		}()
		synctest.Wait()
		s.Drain()
		if err := <-listened; err != nil {
			t.Error(err)
		}
		close(s.runner.hang)
		if err := <-called; err != nil {
			t.Error(err)
		}
	})
}

// TestHammer: sessions of some keys are opened, used, cancelled, ended and
// revoked by many at once; nothing is left, and no bound is passed.
func TestHammer(t *testing.T) {
	leak.Check(t)
	s := newStand(t, 6, 3)
	var all sync.WaitGroup
	for i := range 12 {
		key := fmt.Sprint("k", i%3)
		all.Go(func() {
			for range 15 {
				ctx, cancel := context.WithCancel(t.Context())
				w, err := s.send(ctx, "POST", key, "", initialize)
				if id := w.Header().Get(mcp.SessionHeader); err == nil && id != "" {
					go cancel()
					_, _ = s.send(ctx, "POST", key, id, call)
					_, _ = s.send(t.Context(), "DELETE", key, id, "")
				}
				cancel()
				if n := s.Sessions(); n > 6 {
					t.Errorf("%d sessions", n)
				}
			}
		})
	}
	all.Wait()
	s.revoke("k0")
	s.Close()
	if n, running := s.Sessions(), s.runner.running.Load(); n != 0 || running != 0 {
		t.Errorf("%d sessions and %d calls are left", n, running)
	}
}
