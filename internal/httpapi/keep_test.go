package httpapi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/testing/leak"
)

// again has another daemon serve the state of a stand, as if the first had died.
// What runs in the first goes on, and nobody hears of it.
func (s *stand) again() *stand {
	s.t.Helper()
	next := *s
	var err error
	if next.api, err = httpapi.New(s.config); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := next.api.Server()
	go server.Serve(l)
	next.url = "http://" + l.Addr().String()
	s.t.Cleanup(func() {
		next.api.Close()
		server.Close()
	})
	return &next
}

func (s *stand) rowsOf(task string) []audit.Row {
	s.t.Helper()
	rows, err := s.log.List(s.t.Context(), audit.Filter{Task: task})
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

// TestKeptOverARestart: the next daemon gives the answer of the one before it,
// by idempotency key and by id, outputs and all; the key holds for its body
// alone; another key's calls are nobody else's.
func TestKeptOverARestart(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	_, other := s.key("blue", gateway.RoleCall)
	body := `{"argv":["/bin/litter","hello"],"outputs":["litter-work"],"task":"once"}`
	first := s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k-1")
	r := read[envelope.Result](t, first, 200)
	async := read[httpapi.CallState](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/print","later"],"task":"later"}`, "Prefer", "respond-async"), 202)
	s.do("GET", "/v1/calls/"+async.ID+"/events", key, "") // until its end
	refused := read[httpapi.Problem](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/print"],"request":{"level":"microvm"}}`, "Idempotency-Key", "k-2"), 422)

	n := s.again()
	second := n.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k-1")
	if string(second.body) != string(first.body) || second.Header.Get("Idempotency-Replayed") != "true" || len(r.Outputs) != 1 || second.Header.Get("Callcell-Call") != r.ID {
		t.Errorf("%d %s\nwas %s", second.StatusCode, second.body, first.body)
	}
	if a := n.do("POST", "/v1/calls", key, strings.Replace(body, "hello", "world", 1), "Idempotency-Key", "k-1"); a.code() != "idempotency" {
		t.Errorf("another body: %d %s", a.StatusCode, a.body)
	}
	got := read[httpapi.CallState](t, n.do("GET", "/v1/calls/"+async.ID, key, ""), 200)
	if got.State != "done" || got.Result == nil || !strings.HasPrefix(string(got.Result.Stdout.Head), "later") || got.Task != "later" || got.Result.Receipt == nil {
		t.Errorf("%+v", got)
	}
	list := events(t, strings.NewReader(string(n.do("GET", "/v1/calls/"+async.ID+"/events", key, "", "Last-Event-ID", "3").body)), 0)
	if kinds(list) != "result" || list[0].id != "4" {
		t.Errorf("%+v", list)
	}
	if all := read[httpapi.CallList](t, n.do("GET", "/v1/calls", key, ""), 200); len(all.Calls) != 2 || all.Calls[0].ID != async.ID || all.Calls[0].Outcome != envelope.OutcomeCompleted {
		t.Errorf("%+v", all)
	}
	if a := n.do("DELETE", "/v1/calls/"+async.ID, key, ""); a.StatusCode != 202 {
		t.Errorf("of one that has ended it is nothing: %d %s", a.StatusCode, a.body)
	}
	for _, path := range []string{r.ID, async.ID} {
		if a := n.do("GET", "/v1/calls/"+path, other, ""); a.code() != "not_found" {
			t.Errorf("%s of another key: %s", path, a.body)
		}
	}
	if a := n.do("POST", "/v1/calls", other, body, "Idempotency-Key", "k-1"); a.StatusCode != 200 || a.Header.Get("Callcell-Call") == r.ID {
		t.Errorf("another's key of that name: %d %s", a.StatusCode, a.body)
	}
	if p := read[httpapi.Problem](t, n.do("POST", "/v1/calls", key, `{"argv":["/bin/print"],"request":{"level":"microvm"}}`, "Idempotency-Key", "k-2"), 422); p.Call == refused.Call {
		t.Error("a refusal is no answer that stays")
	}
	if rows := s.rowsOf("once"); len(rows) != 2 { // one of each key
		t.Errorf("%d rows", len(rows))
	}
}

// TestLostOverARestart: a call that ran when its daemon died is lost in every
// answer, and its key never runs it again.
func TestLostOverARestart(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	body := `{"argv":["/bin/hang"],"task":"lost"}`
	st := read[httpapi.CallState](t, s.do("POST", "/v1/calls", key, body, "Prefer", "respond-async", "Idempotency-Key", "k-1"), 202)
	s.running(key, st.ID)
	n := s.again()
	a := n.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k-1")
	r := read[envelope.Result](t, a, 200)
	if r.ID != st.ID || r.Outcome != envelope.OutcomeLost || r.Exit.Code != -1 || !strings.Contains(strings.Join(r.Warnings, " "), "died") {
		t.Errorf("%s", a.body)
	}
	got := read[httpapi.CallState](t, n.do("GET", "/v1/calls/"+st.ID, key, ""), 200)
	list := read[httpapi.CallList](t, n.do("GET", "/v1/calls", key, ""), 200)
	if got.State != "done" || got.Outcome != envelope.OutcomeLost || len(list.Calls) != 1 || list.Calls[0].Outcome != envelope.OutcomeLost {
		t.Errorf("%+v %+v", got, list)
	}
	if rows := s.rowsOf("lost"); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestRowWithoutAnswer: a daemon that died between the row and the answer, or
// whose answer was too large to be kept, leaves what the row says; one that died
// before the intent leaves nothing, and the key is free.
func TestRowWithoutAnswer(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.KeepAll = envelope.MiB })
	s.profile.Resources.Output.Keep = 2 * envelope.MiB
	keyID, key := s.key("blue", gateway.RoleCall)
	large := `{"argv":["/bin/flood"],"maxTokens":4000000}`
	whole := read[envelope.Result](t, s.do("POST", "/v1/calls", key, large, "Idempotency-Key", "large"), 200)
	quick := read[envelope.Result](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/exit","3"]}`), 200)
	cut, never := kept.NameOf(keyID, "/v1/calls", "cut"), kept.NameOf(keyID, "/v1/calls", "never")
	begin := func(id string, name kept.Name) {
		if err := s.config.Kept.Begin(t.Context(), kept.Call{ID: id, Key: keyID, Team: "blue", Name: name, Digest: sha256.Sum256([]byte(`{"argv":["/bin/exit","3"]}`)), Began: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	begin(quick.ID, cut)
	begin(s.log.NewID(), never)
	n := s.again()
	r := read[envelope.Result](t, n.do("POST", "/v1/calls", key, large, "Idempotency-Key", "large"), 200)
	if r.ID != whole.ID || r.Outcome != whole.Outcome || len(r.Stdout.Head) != 0 || r.Stdout.Total != whole.Stdout.Total || !r.Stdout.Truncated ||
		r.Receipt == nil || *r.Receipt != *whole.Receipt || r.Usage.ResultTokens != whole.Usage.ResultTokens || !strings.Contains(strings.Join(r.Warnings, " "), "too large") {
		t.Errorf("%+v", r)
	}
	r = read[envelope.Result](t, n.do("POST", "/v1/calls", key, `{"argv":["/bin/exit","3"]}`, "Idempotency-Key", "cut"), 200)
	if r.ID != quick.ID || r.Outcome != envelope.OutcomeCompleted || r.Exit.Code != 3 || r.Receipt == nil {
		t.Errorf("%+v", r)
	}
	a := n.do("POST", "/v1/calls", key, `{"argv":["/bin/exit","3"]}`, "Idempotency-Key", "never")
	if r := read[envelope.Result](t, a, 200); r.Exit.Code != 3 || r.ID == quick.ID || a.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%s", a.body)
	}
}

// TestOneOfMany: of many requests with one key at once, one runs; all have its
// answer; so have those that come to the next daemon at once.
func TestOneOfMany(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	var mu sync.Mutex
	ids := map[string]bool{}
	for _, on := range []*stand{s, s.again()} {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				a := on.do("POST", "/v1/calls", key, `{"argv":["/bin/print","x"],"task":"one"}`, "Idempotency-Key", "k")
				if a.StatusCode != 200 {
					t.Errorf("%d %s", a.StatusCode, a.body)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[a.Header.Get("Callcell-Call")] = true
			})
		}
		all.Wait()
	}
	if rows := s.rowsOf("one"); len(rows) != 1 || len(ids) != 1 {
		t.Errorf("%d rows, answers of %v", len(rows), ids)
	}
}

// TestErasedIsNotAnswered: what the log erases is no longer answered, by this
// daemon or the next, and its key runs nothing.
func TestErasedIsNotAnswered(t *testing.T) {
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	body := `{"argv":["/bin/print","secret"],"task":"erased"}`
	r := read[envelope.Result](t, s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k"), 200)
	if _, err := s.log.Erase(t.Context(), r.ID, "test"); err != nil {
		t.Fatal(err)
	}
	for i, on := range []*stand{s, s.again()} {
		if a := on.do("POST", "/v1/calls", key, body, "Idempotency-Key", "k"); a.code() != "gone" || a.StatusCode != 410 {
			t.Errorf("%d: %d %s", i, a.StatusCode, a.body)
		}
		for _, path := range []string{"/v1/calls/" + r.ID, "/v1/calls/" + r.ID + "/events"} {
			if a := on.do("GET", path, key, ""); a.code() != "not_found" {
				t.Errorf("%d: %s: %s", i, path, a.body)
			}
		}
		if list := read[httpapi.CallList](t, on.do("GET", "/v1/calls", key, ""), 200); len(list.Calls) != 0 {
			t.Errorf("%d: %+v", i, list)
		}
	}
	rows, err := s.log.List(t.Context(), audit.Filter{})
	if err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// broken is a store of kept calls that takes nothing.
type broken struct {
	kept.Store
	mu    sync.Mutex
	begin error
	named error
}

func (b *broken) Begin(ctx context.Context, c kept.Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begin != nil {
		return b.begin
	}
	return b.Store.Begin(ctx, c)
}

func (b *broken) Named(ctx context.Context, name kept.Name) (kept.Call, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named != nil {
		return kept.Call{}, false, b.named
	}
	return b.Store.Named(ctx, name)
}

// TestNothingRunsUnkept: where it cannot be written that there is a call, or
// looked up whether there was one, nothing runs, and it is said; when it can, the
// same key runs.
func TestNothingRunsUnkept(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	faulty := &broken{Store: s.config.Kept}
	s.config.Kept = faulty
	n := s.again()
	full := fmt.Errorf("%w: full", audit.ErrUnwritable)
	for name, set := range map[string]func(error){"begin": func(err error) { faulty.begin = err }, "named": func(err error) { faulty.named = err }} {
		faulty.mu.Lock()
		set(full)
		faulty.mu.Unlock()
		a := n.do("POST", "/v1/calls", key, `{"argv":["/bin/print","x"],"task":"`+name+`"}`, "Idempotency-Key", name)
		if p := read[httpapi.Problem](t, a, 503); !p.Retry || p.Hint == "" {
			t.Errorf("%s: %s", name, a.body)
		}
		for _, row := range s.rowsOf(name) {
			if row.Refused == nil {
				t.Errorf("%s ran: %+v", name, row)
			}
		}
		faulty.mu.Lock()
		set(nil)
		faulty.mu.Unlock()
		if a := n.do("POST", "/v1/calls", key, `{"argv":["/bin/print","x"],"task":"`+name+`"}`, "Idempotency-Key", name); a.StatusCode != 200 {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	faulty.mu.Lock()
	faulty.begin = errors.Join(kept.ErrFull)
	faulty.mu.Unlock()
	if a := n.do("POST", "/v1/calls", key, `{"argv":["/bin/print","x"]}`, "Idempotency-Key", "full"); a.code() != "capacity" || a.StatusCode != 503 {
		t.Errorf("%s", a.body)
	}
}
