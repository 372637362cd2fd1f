package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A gate is a gateway whose points are a stand's.
type gate struct {
	s      *stand
	tokens int64
	cancel context.CancelCauseFunc // of the latest call
	spent  []int64
	left   int // turns that were given back
}

// counted is a refusal that needs no row.
type counted struct{ error }

func (c *counted) Unwrap() error { return c.error }
func (c *counted) NoRow() bool   { return true }

func (g *gate) Enter(broker.Caller) error { return g.s.at(context.Background(), "enter") }

func (g *gate) Admit(ctx context.Context, a broker.Admission) (broker.Ticket, error) {
	if err := g.s.at(ctx, "turn"); err != nil {
		return nil, err
	}
	g.cancel = a.Cancel
	return &pass{g: g}, nil
}

type pass struct {
	g *gate
	n int64
}

func (p *pass) Hold(ctx context.Context) func() error {
	_ = p.g.s.at(ctx, "holding")
	return func() error { return p.g.s.at(ctx, "hold") }
}

func (p *pass) Reserved() int64 { return p.g.tokens }

func (p *pass) Meter(r *envelope.Result) {
	_ = p.g.s.at(context.Background(), "meter")
	if r.Refusal == nil {
		p.n = int64(len(r.Stdout.Head))
		r.Usage.ResultTokens = p.n
		r.Warnings = append(r.Warnings, "metered")
	}
}

func (p *pass) Settle(ctx context.Context) func() error {
	p.g.spent = append(p.g.spent, p.n)
	_ = p.g.s.at(ctx, "settling")
	return func() error { return p.g.s.at(ctx, "settle") }
}

func (p *pass) Leave() {
	p.g.left++
	_ = p.g.s.at(context.Background(), "leave")
}

func newGate(t *testing.T) (*stand, *gate) {
	g := &gate{tokens: 100}
	g.s = newStand(t, func(c *broker.Config) { c.Gateway = g })
	return g.s, g
}

func metered() broker.Caller {
	return broker.Caller{Name: "key:k_1", Team: "blue", Key: "k_1", Profiles: []string{broker.AnyProfile}}
}

// TestMeteredCall: the reservation is durable before the program starts, what
// it cost is in the row, and it is settled.
func TestMeteredCall(t *testing.T) {
	leak.Check(t)
	s, g := newGate(t)
	call := argv("/bin/print", "hello")
	call.MaxTokens = 50
	var begun, admitted string
	r := s.broker.RunLive(t.Context(), metered(), call, broker.Live{
		Begun:    func(id string) { begun = id },
		Admitted: func(n int64) { admitted = fmt.Sprint(n); panic("a listener's own") },
	})
	s.check(r)
	if r.Outcome != envelope.OutcomeCompleted || begun != r.ID || admitted != "100" {
		t.Errorf("%s %v; begun %s, admitted %s", r.Outcome, r.Refusal, begun, admitted)
	}
	for _, pair := range [][2]string{{"enter", "lookup"}, {"lookup", "turn"}, {"turn", "hold"}, {"hold", "exec"}, {"close", "meter"}, {"meter", "settle"}, {"meter", "complete"}} {
		if !s.before(pair[0], pair[1]) {
			t.Errorf("%s is not before %s: %q", pair[0], pair[1], s.trace)
		}
	}
	e := s.endings[r.ID]
	if len(g.spent) != 1 || e.Usage.ResultTokens != g.spent[0] || e.Usage.ResultTokens == 0 || strings.Join(e.Warnings, "") != "metered" {
		t.Errorf("spent %d, row %+v %q", g.spent, e.Usage, e.Warnings)
	}
}

// TestWhoTakesTheTurnGivesItBack: a call keeps its turn where somebody takes it
// over, until he leaves it; a listener that fails does not.
func TestWhoTakesTheTurnGivesItBack(t *testing.T) {
	leak.Check(t)
	var leave func()
	for name, c := range map[string]struct {
		turn func(func())
		left int
	}{
		"nobody":       {nil, 1},
		"somebody":     {func(l func()) { leave = l }, 0},
		"who panics":   {func(func()) { panic("a listener's own") }, 1},
		"at once":      {func(l func()) { l() }, 1},
		"panics after": {func(l func()) { l(); panic("a listener's own") }, 2},
	} {
		s, g := newGate(t)
		r := s.broker.RunLive(t.Context(), metered(), argv("/bin/print", "x"), broker.Live{Turn: c.turn})
		s.check(r)
		if g.left != c.left || len(g.spent) != 1 || !s.before("settling", "complete") {
			t.Errorf("%s: left %d times, settled %d: %q", name, g.left, len(g.spent), s.trace)
		}
		if name == "somebody" {
			if leave(); g.left != 1 {
				t.Errorf("%s: left %d times", name, g.left)
			}
		}
	}
}

// TestNoTurnNoCall: what the gateway refuses does not come to a cell; what was
// reserved is settled whatever fails.
func TestNoTurnNoCall(t *testing.T) {
	rate := &envelope.Refusal{Reason: envelope.ReasonRate, Message: "slow down", Retry: true}
	for _, c := range []struct {
		at     string
		err    error
		reason envelope.Reason
		rows   int
		spent  int
	}{
		{"enter", rate, envelope.ReasonRate, 1, 0},
		{"enter", &counted{rate}, envelope.ReasonRate, 0, 0},
		{"turn", &counted{&envelope.Refusal{Reason: envelope.ReasonBudget}}, envelope.ReasonBudget, 0, 0},
		{"turn", errFault, envelope.ReasonSetup, 1, 0},
		{"hold", errFault, envelope.ReasonSetup, 1, 1},
		{"intend", errFault, envelope.ReasonSetup, 1, 1},
		{"open", errFault, envelope.ReasonSetup, 1, 1},
	} {
		t.Run(fmt.Sprintf("%s/%v", c.at, c.err), func(t *testing.T) {
			s, g := newGate(t)
			s.fault(c.at, func(context.Context) error { return c.err })
			r := s.broker.Run(t.Context(), metered(), argv("/bin/print", "x"))
			s.check(r)
			if r.Refusal == nil || r.Refusal.Reason != c.reason || len(s.refused) != c.rows || len(g.spent) != c.spent || g.left != c.spent || s.count("exec") != 0 {
				t.Errorf("%+v, %d rows, settled %d", r.Refusal, len(s.refused), len(g.spent))
			}
		})
	}
}

// TestPanicsOfAGateway end no other way than errors of it.
func TestPanicsOfAGateway(t *testing.T) {
	for _, at := range []string{"enter", "turn", "holding", "hold", "meter", "settling", "settle", "leave"} {
		s, g := newGate(t)
		s.fault(at, func(context.Context) error { panic("boom") })
		r := s.broker.Run(t.Context(), metered(), argv("/bin/print", "x"))
		s.check(r)
		if ran := at == "meter" || at == "settling" || at == "settle" || at == "leave"; ran != (r.Refusal == nil) {
			t.Errorf("%s: %v", at, r.Refusal)
		}
		if at != "enter" && at != "turn" && (len(g.spent) != 1 || g.left != 1) {
			t.Errorf("%s: settled %d times, left %d", at, len(g.spent), g.left)
		}
	}
}

// TestRevokedWhileItRuns: the gateway ends a call, and the row says why.
func TestRevokedWhileItRuns(t *testing.T) {
	gone := &envelope.Refusal{Reason: envelope.ReasonPermission, Message: "the key was revoked"}
	for _, at := range []string{"exec", "intended"} {
		synctest.Test(t, func(t *testing.T) {
			s, g := newGate(t)
			s.fault(at, func(context.Context) error {
				if at == "exec" {
					time.AfterFunc(time.Second, func() { g.cancel(gone) })
					return nil
				}
				g.cancel(gone)
				return nil
			})
			r := s.broker.Run(t.Context(), metered(), argv("/bin/hang"))
			s.check(r)
			if at == "exec" && (r.Outcome != envelope.OutcomeCancelled || !strings.Contains(strings.Join(s.endings[r.ID].Warnings, " "), gone.Message)) {
				t.Errorf("%s: %s %q", at, r.Outcome, r.Warnings)
			}
			if at != "exec" && (r.Refusal == nil || *r.Refusal != *gone) {
				t.Errorf("%s: %+v", at, r.Refusal)
			}
			if len(g.spent) != 1 {
				t.Errorf("settled %d times", len(g.spent))
			}
		})
	}
}

// TestProfilesOfAKey: a key names the profiles that it has, in explain too; the
// local user is nobody's key.
func TestProfilesOfAKey(t *testing.T) {
	s, _ := newGate(t)
	who := metered()
	who.Profiles = []string{"small"}
	call := argv("/bin/print", "x")
	r, e := s.broker.Run(t.Context(), who, call), s.broker.Explain(t.Context(), who, call)
	for _, refusal := range []*envelope.Refusal{r.Refusal, e.Refusal} {
		if refusal == nil || refusal.Reason != envelope.ReasonPermission || refusal.Field != "profile" {
			t.Errorf("%+v", refusal)
		}
	}
	if r := s.run(t.Context(), call); r.Refusal != nil || s.count("turn") != 0 {
		t.Errorf("the local user: %+v", r.Refusal)
	}
	call.MaxTokens = 5
	if r := s.run(t.Context(), call); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonUnsupported {
		t.Errorf("tokens of the local user: %+v", r.Refusal)
	}
}
