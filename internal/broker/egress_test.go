package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/placement"
)

// The two powers of a cell with a way out.
type (
	gatedCell     struct{ *standCell }
	tunnelledCell struct{ *standCell }
)

// Tunnels implements cell.Tunnelled.
func (c tunnelledCell) Tunnels() (cell.Tunnels, error) {
	return noTunnels{}, c.s.at(context.Background(), "gate")
}

type noTunnels struct{}

func (noTunnels) Accept(ctx context.Context) (cell.Tunnel, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Gate implements cell.Gated.
func (c gatedCell) Gate() (*cell.Gate, error) {
	return &cell.Gate{}, c.s.at(context.Background(), "gate")
}

// A standEgress is a way out behind the points of a stand.
type standEgress struct {
	s       *stand
	dead    chan struct{}
	fetched envelope.Fetched
	refusal *envelope.Refusal
	out     broker.WayOut
	tried   []envelope.Attempt // beside the usual one
}

func (e *standEgress) Check(n *envelope.Network) error {
	if slices.ContainsFunc(n.Allow, func(a envelope.Allow) bool { return a.Host == "*.pages.test" }) {
		return &envelope.FieldError{Reason: envelope.ReasonPolicy, Field: "network.allow[0].host", Msg: "is too wide"}
	}
	return nil
}

func (e *standEgress) Warm() { _ = e.s.at(context.Background(), "warm") }

func (e *standEgress) Open(ctx context.Context, out broker.WayOut) (broker.Way, error) {
	if err := e.s.at(ctx, "way"); err != nil {
		return nil, err
	}
	e.out = out
	return &standWay{e}, nil
}

type standWay struct{ *standEgress }

func (w *standWay) Dead() <-chan struct{} { return w.dead }

func (w *standWay) Trust() ([]cell.RunFile, map[string]string, error) {
	return []cell.RunFile{{Name: "callcell/ca.pem", Data: []byte("CA"), Mode: 0o444}}, map[string]string{"SSL_CERT_FILE": "/run/callcell/ca.pem"}, w.s.at(context.Background(), "trust")
}

func (w *standWay) Fetch(ctx context.Context, f envelope.Fetch) (envelope.Fetched, *envelope.Refusal, error) {
	if err := w.s.at(ctx, "fetch"); err != nil {
		return envelope.Fetched{}, nil, err
	}
	return w.fetched, w.refusal, ctx.Err()
}

func (w *standWay) Close(ctx context.Context) (envelope.Egress, error) {
	tried := append(w.tried, envelope.Attempt{Host: "a.test", Port: 443, Verdict: envelope.VerdictAllowed})
	return envelope.Egress{Connections: 1, Attempts: tried}, w.s.at(ctx, "way closed")
}

// newNetStand is a stand with a way out, whose profile reaches a.test.
func newNetStand(t *testing.T, adjust ...func(*broker.Config)) (*stand, *standEgress) {
	e := &standEgress{dead: make(chan struct{}), fetched: envelope.Fetched{URL: "https://a.test/", Status: 200, Body: []byte("hello"), Untrusted: true}}
	s := newStand(t, func(c *broker.Config) {
		c.Egress, c.Offers = e, offers(placement.Offer{Level: envelope.LevelContainer, Available: true})
		for _, f := range adjust {
			f(c)
		}
	})
	e.s = s
	s.profile.Network.Allow = []envelope.Allow{{Host: "a.test", Ports: []int{443}}}
	return s, e
}

func fetching() *envelope.Call {
	return &envelope.Call{Task: "t-1", Fetch: &envelope.Fetch{URL: "https://a.test/"}}
}

// The way out stands before the program starts, is told who calls, and is
// closed before the cell goes: whether the cell has sockets for it, or a guest
// that hands connections over.
func TestWayOut(t *testing.T) {
	for name, tunnels := range map[string]bool{"sockets": false, "tunnel": true} {
		t.Run(name, func(t *testing.T) { testWayOut(t, tunnels) })
	}
}

func testWayOut(t *testing.T, tunnels bool) {
	s, e := newNetStand(t)
	s.tunnels = tunnels
	r := s.run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: "python", Code: "pass"}})
	if r.Outcome != envelope.OutcomeCompleted || r.Egress == nil || r.Egress.Connections != 1 {
		t.Fatalf("%+v", r)
	}
	for _, order := range [][2]string{{"warm", "opened"}, {"gate", "way"}, {"way", "exec"}, {"exec", "way closed"}, {"way closed", "close"}, {"close", "complete"}} {
		if !s.before(order[0], order[1]) {
			t.Errorf("%s is not before %s: %q", order[0], order[1], s.trace)
		}
	}
	if (e.out.Tunnels != nil) != tunnels || (e.out.Gate != nil) == tunnels {
		t.Errorf("the way was opened with gate %v and tunnels %v", e.out.Gate, e.out.Tunnels)
	}
	if e.out.ID != r.ID || e.out.Team != "blue" || len(e.out.Network.Allow) != 1 {
		t.Errorf("the way was opened for %+v", e.out)
	}
	if row := s.endings[r.ID]; row.Egress == nil || len(row.Egress.Attempts) != 1 {
		t.Errorf("the row has %+v", row.Egress)
	}
	for _, want := range []string{"http_proxy=http://127.0.0.53:3128", "SSL_CERT_FILE=/run/callcell/ca.pem"} {
		if !strings.Contains(string(r.Stdout.Head), want) {
			t.Errorf("no %s in %s", want, r.Stdout.Head)
		}
	}
	if checks := r.Teardown.Checks; !slices.ContainsFunc(checks, func(c envelope.Check) bool { return c.What == "egress" && c.Gone }) {
		t.Errorf("teardown %+v", checks)
	}
}

// A call that reaches nothing has no way out, and says nothing of one.
func TestNoWayOut(t *testing.T) {
	s, _ := newNetStand(t)
	s.profile.Network.Allow = nil
	r := s.run(t.Context(), &envelope.Call{Script: &envelope.Script{Lang: "python", Code: "pass"}})
	if r.Egress != nil || s.count("way") != 0 || s.count("gate") != 0 || strings.Contains(string(r.Stdout.Head), "proxy") {
		t.Errorf("%+v, %q", r.Egress, s.trace)
	}
}

func TestWayOutFails(t *testing.T) {
	broken := errors.New("broken")
	for _, point := range []string{"gate", "way", "trust"} {
		s, _ := newNetStand(t)
		s.fault(point, func(context.Context) error { return broken })
		r := s.run(t.Context(), argv("sh", "x"))
		if r.Refusal == nil || r.Refusal.Reason != envelope.ReasonSetup || s.count("exec") != 0 || s.closes.Load() != 1 {
			t.Errorf("%s: %+v, %q", point, r.Refusal, s.trace)
		}
	}
	s, _ := newNetStand(t)
	s.fault("way closed", func(context.Context) error { return broken })
	r := s.run(t.Context(), argv("sh", "x"))
	if r.Teardown.Complete || s.watch.leftovers != 1 {
		t.Errorf("a way that does not close: %+v", r.Teardown)
	}
	s.fault("way closed", func(context.Context) error { return broker.ErrWayDied })
	if r := s.run(t.Context(), argv("sh", "x")); !r.Teardown.Complete {
		t.Errorf("a way that died: %+v", r.Teardown)
	}
}

// Where the way out dies under a program, the call is broken, whatever the
// program makes of it.
func TestWayOutDies(t *testing.T) {
	s, e := newNetStand(t)
	s.runtime = fake.New(envelope.LevelContainer, map[string]fake.Program{"wait": func(p *fake.Proc) fake.Status {
		close(e.dead)
		<-p.Done()
		return fake.Exit(0)
	}})
	r := s.run(t.Context(), argv("wait"))
	if r.Outcome != envelope.OutcomeBroken || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "egress: ") }) {
		t.Errorf("%s, %q", r.Outcome, r.Warnings)
	}
}

func TestWayOutIsRefused(t *testing.T) {
	s, _ := newNetStand(t)
	s.profile.Network.Allow[0].Host = "*.pages.test"
	if r := s.run(t.Context(), argv("sh", "x")); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonPolicy || s.count("open") != 0 {
		t.Errorf("%+v", r.Refusal)
	}
}

func TestFetch(t *testing.T) {
	s, _ := newNetStand(t)
	r := s.run(t.Context(), fetching())
	if r.Outcome != envelope.OutcomeCompleted || r.Exit.Code != 0 || string(r.Fetched.Body) != "hello" || r.Level != envelope.LevelNone {
		t.Fatalf("%+v", r)
	}
	if s.count("open") != 0 || !s.before("intended", "fetch") || !s.before("way closed", "complete") || !r.Teardown.Complete {
		t.Errorf("the way was %q, teardown %+v", s.trace, r.Teardown)
	}
	row := s.endings[r.ID]
	if row.Fetched == nil || row.Fetched.Body != nil || row.Fetched.Status != 200 || row.Fetched.Answer.SHA256 == "" {
		t.Errorf("the row has %+v", row.Fetched)
	}
}

func TestFetchEnds(t *testing.T) {
	refusal := &envelope.Refusal{Reason: envelope.ReasonPolicy, Field: "fetch.url", Message: "not allowed"}
	for _, c := range []struct {
		name    string
		adjust  func(*stand, *standEgress, context.CancelFunc)
		outcome envelope.Outcome
		reason  envelope.Reason
	}{
		{"not allowed", func(_ *stand, e *standEgress, _ context.CancelFunc) { e.refusal = refusal }, 0, envelope.ReasonPolicy},
		{"nothing is reached", func(s *stand, _ *standEgress, _ context.CancelFunc) { s.profile.Network.Allow = nil }, 0, envelope.ReasonPolicy},
		{"no answer", func(_ *stand, e *standEgress, _ context.CancelFunc) { e.fetched.Failure = "refused" }, envelope.OutcomeCompleted, 0},
		{"the process died", func(s *stand, e *standEgress, _ context.CancelFunc) {
			s.fault("fetch", func(ctx context.Context) error { close(e.dead); <-ctx.Done(); return ctx.Err() })
		}, envelope.OutcomeBroken, 0},
		{"the conversation broke", func(s *stand, _ *standEgress, _ context.CancelFunc) {
			s.fault("fetch", func(context.Context) error { return errors.New("broken") })
		}, envelope.OutcomeBroken, 0},
		{"cancelled", func(s *stand, _ *standEgress, cancel context.CancelFunc) {
			s.fault("fetch", func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
		}, envelope.OutcomeCancelled, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, e := newNetStand(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.adjust(s, e, cancel)
			r := s.run(ctx, fetching())
			if r.Outcome != c.outcome || (r.Refusal != nil) != c.reason.Valid() || r.Refusal != nil && r.Refusal.Reason != c.reason {
				t.Errorf("%s, %+v", r.Outcome, r.Refusal)
			}
			if c.outcome == envelope.OutcomeCompleted && r.Exit.Code != 1 {
				t.Errorf("exit %+v", r.Exit)
			}
		})
	}
}
