package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestReadersShareAnAnswer: whoever reads a large answer slowly holds no copy of
// it, and reads what others read.
func TestReadersShareAnAnswer(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	body := largely
	want := read[envelope.Result](t, s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "large"), 200)
	state := read[httpapi.CallState](t, s.do("GET", "/v1/calls/"+want.ID, key, ""), 200)
	if state.State != "done" || state.Result == nil || !reflect.DeepEqual(*state.Result, want) || len(want.Outputs) != 1 {
		t.Fatalf("%+v", state)
	}
	for way, request := range map[string]string{
		"its state":  "GET /v1/calls/" + want.ID + " HTTP/1.1\r\n",
		"its events": "GET /v1/calls/" + want.ID + "/events HTTP/1.1\r\n",
		"it again":   fmt.Sprintf("POST /v1/calls HTTP/1.1\r\nIdempotency-Key: large\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body)),
	} {
		sent := ""
		if strings.HasPrefix(request, "POST") {
			sent = body
		}
		const readers = 16
		before := live()
		s.readSlowly(request, key, sent, readers)
		if more := live() - before; more > 16<<20 {
			t.Errorf("%s: %d readers of %d bytes hold %d more", way, readers, large, more)
		}
	}
}

// readSlowly makes a request, some times at once, and reads of the answer that it
// is a good one.
func (s *stand) readSlowly(request, key, body string, times int) (conns []net.Conn) {
	s.t.Helper()
	for range times {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		head := make([]byte, 12)
		if _, err = fmt.Fprintf(conn, "%sHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n%s", request, key, body); err == nil {
			_, err = io.ReadFull(conn, head) // the rest is being written
		}
		if err != nil || string(head) != "HTTP/1.1 200" {
			s.t.Fatalf("%q %v", head, err)
		}
		conns = append(conns, conn)
	}
	return conns
}

const large = 6 << 20

// largely is a call with an output of large bytes.
var largely = fmt.Sprintf(`{"argv":["/bin/sparse","%d"],"outputs":["sparse"]}`, large)

// TestAnswersThatAreNotTakenKeepTheirTurn: whoever does not read what calls have
// left holds it once, as JSON, and has no more calls meanwhile than may run.
func TestAnswersThatAreNotTakenKeepTheirTurn(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, tier *gateway.Tier) {
		serve.Write, tier.KeyAtOnce = envelope.Duration(time.Hour), 8
	})
	for how, header := range map[string]string{"one answer": "", "one that is kept": "Idempotency-Key: N\r\n", "events": "Accept: text/event-stream\r\n"} {
		_, key := s.key("blue", gateway.RoleCall)
		before := live()
		var conns []net.Conn
		for i := range 8 {
			request := fmt.Sprintf("POST /v1/calls HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s", len(largely), strings.ReplaceAll(header, "N", fmt.Sprint(i)))
			conns = append(conns, s.readSlowly(request, key, largely, 1)...)
		}
		waitFor(t, func() bool { // events begin before their result is there
			return s.api.Running() == 0 && s.gateway.Load().Running == 8
		})
		if more := live() - before; more > 8*(large/3*4)+8<<20 {
			t.Errorf("%s: %d answers of %d bytes hold %d", how, len(conns), large, more)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
	}
}

// turns is a Runner that counts the turns of calls, from when they are let in
// until they are left.
type turns struct {
	httpapi.Runner
	held, most atomic.Int64
}

func (s *turns) RunLive(ctx context.Context, who broker.Caller, call *envelope.Call, live broker.Live) *envelope.Result {
	admitted, turn := live.Admitted, live.Turn
	live.Admitted = func(n int64) {
		for now := s.held.Add(1); ; {
			if most := s.most.Load(); now <= most || s.most.CompareAndSwap(most, now) {
				break
			}
		}
		if admitted != nil {
			admitted(n)
		}
	}
	live.Turn = func(leave func()) {
		end := sync.OnceFunc(func() { s.held.Add(-1); leave() })
		if turn == nil {
			end()
			return
		}
		turn(end)
	}
	return s.Runner.RunLive(ctx, who, call, live)
}

// TestAKeyHoldsNoMoreThanItsTurns: calls that run and answers that are taken are
// together never more than the key may have at once, however many ask and in
// whatever way; and whoever reads his answers gets all of them.
func TestAKeyHoldsNoMoreThanItsTurns(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(_ *config.Serve, tier *gateway.Tier) { tier.KeyAtOnce = 3 })
	counted := &turns{Runner: s.config.Runner}
	s.config.Runner = counted
	s = s.again()
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	const tool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/sparse","1000000"],"outputs":["sparse"]}}}`
	body := fmt.Sprintf(`{"argv":["/bin/sparse","%d"],"outputs":["sparse"]}`, 1<<20)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			ask := func() *answer {
				switch i % 5 {
				case 0:
					return s.do("POST", "/v1/calls", key, body)
				case 1:
					return s.do("POST", "/v1/calls", key, body, "Idempotency-Key", fmt.Sprint(i))
				case 2:
					return s.do("POST", "/v1/calls", key, body, "Accept", "text/event-stream")
				case 3:
					return s.do("POST", "/v1/calls", key, body, "Prefer", "respond-async")
				}
				return s.mcp("POST", key, session, strings.Replace(tool, `"id":1`, fmt.Sprintf(`"id":%d`, i+10), 1))
			}
			a := ask()
			for a.code() == "capacity" { // on a slow machine its turn takes longer than the gateway waits
				a = ask()
			}
			if a.StatusCode/100 != 2 {
				t.Errorf("%d: %d %s", i, a.StatusCode, a.body)
			}
		})
	}
	all.Wait()
	waitFor(t, func() bool { return s.gateway.Load().Running == 0 && s.api.Running() == 0 })
	if most := counted.most.Load(); most > 3 || most == 0 || counted.held.Load() != 0 {
		t.Errorf("%d at once, %d now", most, counted.held.Load())
	}
}

// TestKeptResultsAreBounded: what is kept is counted with all that is held of it,
// when it comes.
func TestKeptResultsAreBounded(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.KeepAll = 2*large/3*4 + 1<<20 })
	_, key := s.key("blue", gateway.RoleCall)
	before := live()
	for i := range 8 {
		if a := s.do("POST", "/v1/calls", key, largely, "Idempotency-Key", fmt.Sprint(i)); a.StatusCode != 200 || len(a.body) < large/3*4 {
			t.Fatalf("%d, %d bytes", a.StatusCode, len(a.body))
		}
	}
	waitFor(t, func() bool { return live()-before < 2*large/3*4+8<<20 }) // an answer may be there before the oldest goes for it
}

// live is how many bytes there are that are needed.
func live() int64 {
	runtime.GC()
	runtime.GC() // what is pooled goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
