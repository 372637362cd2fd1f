package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/outward"
)

// post is a Sender of the tests.
type post struct {
	mu    sync.Mutex
	fault func(ctx context.Context) error
	tries []time.Time
	heads []http.Header
	got   []Delivery
}

func (*post) Name() string { return "https://receiver" }

func (p *post) Post(ctx context.Context, header http.Header, body []byte) error {
	p.mu.Lock()
	p.tries = append(p.tries, time.Now())
	p.heads = append(p.heads, header)
	fault := p.fault
	p.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	var d Delivery
	if err := json.Unmarshal(body, &d); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, d)
	return nil
}

// seen is what came so far.
func (p *post) seen() (tries []time.Time, heads []http.Header, got []Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tries), slices.Clone(p.heads), slices.Clone(p.got)
}

func (p *post) set(f func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func known(_ context.Context, use func([]byte)) error { use([]byte("secret")); return nil }

func hooked(p *post, perMinute int, say func(string)) *Set {
	return New(Options{Hooks: []Hook{{Sender: p, Events: []string{Escape, Key, Refusal}, PerMinute: perMinute, Secret: known}},
		Host: "h", Say: say, Jitter: func() float64 { return 0.5 }})
}

func event(kind, caller string, n int) Event {
	return Event{Kind: kind, At: time.Now(), Caller: caller, Team: "blue", Call: Call{ID: fmt.Sprint(n)}, Counts: map[string]int64{"address": 2}, Addresses: []string{"10.0.0.1"}}
}

// TestEventsAreGathered: an attacker decides how many events there are, and not
// how many requests; every event is counted in one of them.
func TestEventsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		s := hooked(p, 5, nil)
		for i := range 10_000 {
			s.Put(event(Escape, "key:k_1", i))
			if i%100 == 0 {
				<-time.After(time.Second)
			}
		}
		s.Put(event(Ceiling, "key:k_1", 1)) // that nobody wants
		<-time.After(2 * time.Minute)
		synctest.Wait()
		all, _, got := p.seen()
		for i, at := range all {
			if i >= 5 && at.Sub(all[i-5]) < time.Minute {
				t.Errorf("request %d is the sixth within %v", i, at.Sub(all[i-5]))
			}
		}
		total, addresses := int64(0), int64(0)
		for _, d := range got {
			total, addresses = total+d.Count, addresses+d.Counts["address"]
			if d.Version != 1 || d.Event != Escape || d.Host != "h" || d.Caller != "key:k_1" || d.Team != "blue" || len(d.Calls) > maxCalls || len(d.Addresses) != 1 || d.Last.Before(d.First) {
				t.Errorf("%+v", d)
			}
		}
		if total != 10_000 || addresses != 20_000 || len(got) > 25 {
			t.Errorf("%d events in %d deliveries", total, len(got))
		}
		if st := s.Stats()[0]; st.Sent != int64(len(got)) || st.Dropped != 0 || st.Merged == 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestManyCallersAreBounded: groups are few however many callers there are.
func TestManyCallersAreBounded(t *testing.T) {
	var g groups
	for i := range 100_000 {
		g.add(event(Key, fmt.Sprintf("10.0.%d.%d", i>>8, i&255), i))
	}
	if len(g.list) > maxGroups+1 || g.count() != 100_000 {
		t.Errorf("%d groups of %d events", len(g.list), g.count())
	}
	all := int64(0)
	for d := g.take(); d != nil; d = g.take() {
		if all += d.Count; d.Caller == "" && d.Count != 100_000-maxGroups {
			t.Errorf("%+v", d)
		}
	}
	if all != 100_000 || len(g.by) != 0 {
		t.Errorf("%d events, %d groups are left", all, len(g.by))
	}
}

// TestReceiverThatIsDown: it is tried ever more seldom with the same delivery,
// signed anew each time; what comes meanwhile waits as one; two things are said.
func TestReceiverThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fault: func(context.Context) error { return errors.New("down") }}
		var said []string // the worker's, until Close
		s := hooked(p, 600, func(text string) { said = append(said, text) })
		s.Put(event(Escape, "k", 1))
		<-time.After(100 * time.Second)
		s.Put(event(Escape, "k", 2))
		s.Put(event(Escape, "k", 3))
		synctest.Wait()
		all, heads, _ := p.seen()
		if n := len(all); n < 6 || n > 8 {
			t.Errorf("%d tries in 100 s", n)
		}
		for i := 1; i < len(all); i++ {
			if d := all[i].Sub(all[i-1]); d != firstPause<<(i-1) {
				t.Errorf("pause %d is %v", i, d)
			}
			if heads[i].Get("Callcell-Delivery") != heads[0].Get("Callcell-Delivery") || heads[i].Get("Callcell-Signature") == heads[0].Get("Callcell-Signature") {
				t.Errorf("try %d: %v", i, heads[i])
			}
		}
		p.set(nil)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if _, _, got := p.seen(); len(got) != 2 || got[0].Count != 1 || got[1].Count != 2 {
			t.Errorf("%+v", got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if len(said) != 2 || !strings.Contains(said[0], "down") || !strings.Contains(said[1], "again") {
			t.Errorf("%q", said)
		}
	})
}

// TestReceiverThatIsGone: after its tries a delivery is dropped and counted, and
// one that says no at once.
func TestReceiverThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fault: func(context.Context) error { return &outward.StatusError{Status: 503, After: 90 * time.Second} }}
		s := hooked(p, 600, nil)
		s.Put(event(Escape, "k", 1))
		<-time.After(2 * time.Hour)
		synctest.Wait()
		all, _, _ := p.seen()
		if len(all) != tries || s.Stats()[0].Dropped != 1 {
			t.Errorf("%d tries, %+v", len(all), s.Stats())
		}
		if d := all[1].Sub(all[0]); d != 90*time.Second {
			t.Errorf("it asked for 90 s, and had %v", d)
		}
		p.set(func(context.Context) error { return &outward.StatusError{Status: 307} })
		s.Put(event(Escape, "k", 2))
		<-time.After(time.Hour)
		synctest.Wait()
		if all, _, _ := p.seen(); len(all) != tries+1 || s.Stats()[0].Dropped != 2 {
			t.Errorf("a redirect: %d tries, %+v", len(all), s.Stats())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsSentUnsigned: a secret that cannot be had is tried again like a
// receiver that is down.
func TestNothingIsSentUnsigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		var there atomic.Bool
		s := New(Options{Hooks: []Hook{{Sender: p, Events: []string{Escape}, PerMinute: 600, Secret: func(ctx context.Context, use func([]byte)) error {
			if !there.Load() {
				return errors.New("no such file")
			}
			return known(ctx, use)
		}}}})
		s.Put(event(Escape, "k", 1))
		<-time.After(10 * time.Second)
		synctest.Wait()
		all, _, _ := p.seen()
		if st := s.Stats()[0]; len(all) != 0 || st.Failed == 0 || !strings.Contains(st.Fault, "no such file") {
			t.Errorf("%d requests, %+v", len(all), st)
		}
		there.Store(true)
		<-time.After(time.Minute)
		synctest.Wait()
		if _, _, got := p.seen(); len(got) != 1 {
			t.Errorf("%+v", got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestClose hands on what waits, once, and is bounded.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		s := hooked(p, 1, nil)
		for i := range 5 {
			s.Put(event(Escape, fmt.Sprint(i), i))
		}
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil || len(p.got) != 5 { // it is over: nobody else has it
			t.Errorf("%v, %d deliveries", err, len(p.got))
		}
		stuck := &post{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		s = hooked(stuck, 600, nil)
		s.Put(event(Escape, "k", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Close(ctx); !errors.Is(err, ErrUndelivered) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.Put(event(Escape, "k", 2))
		var none *Set
		none.Put(event(Escape, "k", 1))
		if none.Close(ctx) != nil || none.Stats() != nil || none.Wants(Escape) || !s.Wants(Escape) || s.Wants(Ceiling) {
			t.Error("a set that is not there")
		}
	})
}

// TestOf: what of a call is which event, and no word of a program is in any.
func TestOf(t *testing.T) {
	at := time.Unix(1, 0)
	call := &envelope.Call{Task: "task-1", Tool: "sesame\nline", Argv: []string{"SESAME"}}
	denied := &envelope.Egress{Denied: 3, Attempts: []envelope.Attempt{
		{Host: "sesame.example.com", Verdict: envelope.VerdictDenied, Why: "sesame"},
		{Host: "inside.example.com", Verdict: envelope.VerdictDenied, Blocked: "169.254.169.254", Why: "sesame"},
		{Host: "169.254.169.254", Verdict: envelope.VerdictDenied}, {Host: "198.51.100.7", Verdict: envelope.VerdictAllowed},
	}}
	for _, c := range []struct {
		name string
		r    envelope.Result
		want string
	}{
		{"all is well", envelope.Result{Outcome: envelope.OutcomeCompleted, Exit: envelope.Exit{Code: 1}}, ""},
		{"refused", envelope.Result{Refusal: &envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "sesame", Field: "sesame", Hint: "sesame"}}, "refusal map[policy:1]"},
		{"an attempt to get out", envelope.Result{Outcome: envelope.OutcomeCompleted, Egress: denied, Stdout: envelope.Stream{Head: envelope.Data("SESAME")},
			Events: []envelope.Event{{Kind: envelope.SignAddress, Count: 2, Detail: "sesame"}, {Kind: "memory", Count: 1}}, Missing: []envelope.Miss{{Name: "sesame", Why: "sesame"}}},
			"escape map[address:2] [169.254.169.254], ceiling map[memory:1], denied map[denied:3]"},
		{"broken, and something is left", envelope.Result{Outcome: envelope.OutcomeBroken, Teardown: &envelope.Report{Checks: []envelope.Check{{What: "cgroup", Note: "sesame"}}}}, "broken map[broken:1], leftover map[leftover:1]"},
	} {
		c.r.ID = "id"
		var got []string
		events := Of(at, "key:k", "blue", call, &c.r)
		for _, e := range events {
			text := fmt.Sprintf("%s %v", e.Kind, e.Counts)
			if len(e.Addresses) > 0 {
				text += fmt.Sprintf(" %v", e.Addresses)
			}
			got = append(got, text)
			if e.Call.ID != "id" || e.Caller != "key:k" || e.Call.Task != "task-1" || e.Call.Tool != "" {
				t.Errorf("%s: %+v", c.name, e)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
		text, err := json.Marshal(events)
		if err != nil || strings.Contains(strings.ToLower(string(text)), "sesame") {
			t.Errorf("%s: a word of a program is in %s", c.name, text)
		}
	}
	bad := envelope.Result{ID: "id", Refusal: &envelope.Refusal{Reason: envelope.ReasonRequest}}
	if e := Of(at, "k", "", call, &bad); e[0].Call.Task != "" || len(Of(at, "k", "", nil, &bad)) != 1 {
		t.Errorf("what nobody has checked is told on: %+v", e)
	}
}

// TestSign is one signature that does not change.
func TestSign(t *testing.T) {
	if got := Sign([]byte("secret"), time.Unix(1764471600, 0), []byte(`{"version":1}`)); got != "t=1764471600,v1=3ab5c482650973d2eabbeb9ee5b9555c0d5504da6cec04aed95db08b9f0510a6" {
		t.Error(got)
	}
}
