package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/testing/leak"
)

// letters counts a byte as a token.
type letters struct{}

func (letters) Count(text []byte, _ int64) int64 { return int64(len(text)) }

// A stand is a gateway over a store in a file.
type stand struct {
	*gateway.Gateway
	t    *testing.T
	path string
	db   *store.DB
	o    gateway.Options

	mu      sync.Mutex // guards what follows
	counted []string
}

func newStand(t *testing.T, change func(*gateway.Tier, *gateway.Limits)) *stand {
	t.Helper()
	return newStandAt(t, nil, change)
}

// byHand is a clock that is moved by hand, and whose tickers never tick.
type byHand struct {
	mu  sync.Mutex
	now time.Time
}

func (c *byHand) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *byHand) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (*byHand) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func newStandAt(t *testing.T, clock gateway.Clock, change func(*gateway.Tier, *gateway.Limits)) *stand {
	t.Helper()
	tier, limits := gateway.DefaultTiers()["free"], gateway.DefaultLimits()
	if change != nil {
		change(&tier, &limits)
	}
	s := &stand{t: t, path: filepath.Join(t.TempDir(), "state", "callcell.db")}
	s.o = gateway.Options{Tiers: map[string]gateway.Tier{"free": tier}, Limits: limits, Counter: letters{}, Clock: clock,
		Failed: func(err error) { t.Errorf("in the background: %v", err) }}
	s.o.Count = func(what, who string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counted = append(s.counted, what+" "+who)
	}
	s.open()
	t.Cleanup(func() { s.close() })
	if _, err := s.CreateTeam(t.Context(), gateway.Team{Name: "blue", Tier: "free"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) open() {
	s.t.Helper()
	var err error
	if s.db, err = store.Open(context.Background(), s.path); err != nil {
		s.t.Fatal(err)
	}
	if s.Gateway, err = gateway.Open(context.Background(), s.db.Gateway(), s.o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) close() {
	if err := errors.Join(s.Gateway.Close(context.Background()), s.db.Close()); err != nil {
		s.t.Error(err)
	}
}

// key makes a key of a team, which is made where it is not there.
func (s *stand) key(team string) string {
	s.t.Helper()
	if _, err := s.CreateTeam(s.t.Context(), gateway.Team{Name: team, Tier: "free"}); err != nil && !errors.Is(err, gateway.ErrExists) {
		s.t.Fatal(err)
	}
	k, secret, err := s.CreateKey(s.t.Context(), gateway.Key{Team: team, Role: gateway.RoleCall, Profiles: []string{"*"}})
	if err != nil {
		s.t.Fatal(err)
	}
	if got, ok := s.Identify(secret); !ok || got.ID != k.ID {
		s.t.Fatalf("identified as %+v, %v", got, ok)
	}
	return k.ID
}

// ask is a call of arguments and a result of so many tokens at most.
func (s *stand) ask(key, task string, arguments int, most int64) gateway.Ask {
	e := envelope.Default()
	return gateway.Ask{ID: audit.NewID(time.Now()), Key: key, Envelope: &e, Cancel: func(error) {},
		Call: &envelope.Call{Task: task, Argv: []string{strings.Repeat("x", arguments)}, MaxTokens: envelope.Count(most)}}
}

func (s *stand) admit(a gateway.Ask) *gateway.Ticket {
	s.t.Helper()
	ticket, err := s.Admit(s.t.Context(), a)
	if err != nil {
		s.t.Fatal(err)
	}
	return ticket
}

// settle ends a call that returned so many tokens.
func (s *stand) settle(ticket *gateway.Ticket, n int) *envelope.Result {
	s.t.Helper()
	r := &envelope.Result{Outcome: envelope.OutcomeCompleted, Usage: envelope.Usage{CPU: time.Second},
		Stdout: envelope.Stream{Head: []byte(strings.Repeat("y", n)), Total: int64(n)}}
	ticket.Meter(r)
	if err := ticket.Settle(s.t.Context())(); err != nil {
		s.t.Error(err)
	}
	ticket.Leave()
	return r
}

// used is what the store says that a team has used.
func (s *stand) used(team string) (u gateway.Usage) {
	s.t.Helper()
	list, err := s.Usage(s.t.Context(), gateway.UsageQuery{Team: team})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, x := range list {
		u.Calls, u.Arguments, u.Result, u.CPU = u.Calls+x.Calls, u.Arguments+x.Arguments, u.Result+x.Result, u.CPU+x.CPU
	}
	return u
}

// denied fails unless err is a denial of that reason, and returns its refusal.
func denied(t *testing.T, err error, want envelope.Reason) envelope.Refusal {
	t.Helper()
	var d *gateway.Denial
	if !errors.As(err, &d) || d.Why.Reason != want {
		t.Fatalf("%v, want a denial for %s", err, want)
	}
	return d.Why
}

// TestRateUnderManyClients: 200 clients of one key hammer for some minutes; in
// no 60 seconds are more calls let through than the tier gives, and in each as
// many.
func TestRateUnderManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		key := s.key("blue")
		var mu sync.Mutex
		var let []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				for n := 1; ctx.Err() == nil; n++ {
					if err := s.Enter(key); err == nil {
						mu.Lock()
						let = append(let, time.Now())
						mu.Unlock()
					} else if r := denied(t, err, envelope.ReasonRate); r.RetryAfter <= 0 || r.RetryAfter.Std() > time.Minute+time.Second || !r.Retry {
						t.Errorf("%+v", r)
					}
					time.Sleep(time.Duration(i*7+n*13%97) * 3 * time.Millisecond)
				}
			})
		}
		all.Wait()
		for i := range let {
			if i >= 120 && let[i].Sub(let[i-120]) < time.Minute {
				t.Fatalf("121 calls in %s", let[i].Sub(let[i-120]))
			}
		}
		if len(let) != 4*120 {
			t.Errorf("%d calls in 4 minutes", len(let))
		}
	})
}

// TestRateSurvivesARestart: a daemon that dies does not give a key another
// minute's worth.
func TestRateSurvivesARestart(t *testing.T) {
	s := newStand(t, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Rate = 4 })
	key := s.key("blue")
	for i := range 4 {
		if err := s.Enter(key); err != nil {
			t.Fatal(err)
		}
		ticket := s.admit(s.ask(key, "", 1, 10))
		if err := ticket.Hold(t.Context())(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			s.settle(ticket, 1)
		}
	}
	for range 2 { // the second restart comes when all is folded
		s.close()
		s.open()
		denied(t, s.Enter(key), envelope.ReasonRate)
	}
}

// TestBudgetIsNotOvershot is the public report of parallel calls that pass the
// same check: at most as many as fit are let in, what fails and what is
// cancelled gives its reserve back, and at the end used and free are the
// budget.
func TestBudgetIsNotOvershot(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) {
		tier.Tokens, tier.AtOnce, tier.KeyAtOnce, tier.Waiting, l.AtOnce = 1000, 100, 100, 100, 100
		l.Wait = envelope.Duration(time.Hour) // for what others give back, on a disk that is slow
	})
	key := s.key("blue")
	var mu sync.Mutex
	let, most := 0, 0
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			ticket, err := s.Admit(t.Context(), s.ask(key, "", 40, 60))
			if err != nil {
				denied(t, err, envelope.ReasonBudget)
				return
			}
			mu.Lock()
			let++
			most = max(most, let)
			mu.Unlock()
			if err := ticket.Hold(t.Context())(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			let--
			mu.Unlock()
			if i%3 == 0 {
				ticket.Meter(&envelope.Result{Refusal: &envelope.Refusal{Reason: envelope.ReasonSetup}})
				if err := ticket.Settle(t.Context())(); err != nil {
					t.Error(err)
				}
				ticket.Leave()
				return
			}
			s.settle(ticket, 60)
		})
	}
	all.Wait()
	u := s.used("blue")
	if u.Tokens() != 1000 || u.Calls != 10 || most > 10 {
		t.Errorf("used %d tokens in %d calls, %d at once at most; want 1000 in 10", u.Tokens(), u.Calls, most)
	}
	_, err := s.Admit(t.Context(), s.ask(key, "", 1, 1))
	if r := denied(t, err, envelope.ReasonBudget); r.Retry || r.RetryAfter.Std() < time.Second || r.Field != "team.tokens" {
		t.Errorf("%+v", r)
	}
}

// TestResultIsCutToItsReserve: a program that writes more than was reserved
// does not overshoot the budget, and the result says so.
func TestResultIsCutToItsReserve(t *testing.T) {
	s := newStand(t, nil)
	key := s.key("blue")
	r := s.settle(s.admit(s.ask(key, "", 5, 100)), 500)
	if n := len(r.Stdout.Head); n != 100 || !r.Stdout.Truncated || r.Usage.ResultTokens != 100 || r.Usage.ArgumentTokens != 5 ||
		!strings.Contains(strings.Join(r.Warnings, " "), "cut to 100") {
		t.Errorf("%d bytes, %+v, %q", n, r.Usage, r.Warnings)
	}
	if u := s.used("blue"); u.Tokens() != 105 {
		t.Errorf("%+v", u)
	}
}

// TestDeadDaemonIsSettled: what a daemon had reserved when it died is settled
// by the next, to the arguments.
func TestDeadDaemonIsSettled(t *testing.T) {
	s := newStand(t, nil)
	key := s.key("blue")
	for range 3 {
		ticket := s.admit(s.ask(key, "t", 7, 1000))
		if err := ticket.Hold(t.Context())(); err != nil {
			t.Fatal(err)
		}
	}
	s.admit(s.ask(key, "t", 7, 1000)) // nothing of this one was durable, so nothing ran
	s.close()
	s.open()
	if u := s.used("blue"); s.Lost() != 3 || u.Arguments != 21 || u.Result != 0 || u.Calls != 3 || u.CPU != time.Minute {
		t.Errorf("%d lost, used %+v", s.Lost(), u)
	}
	s.close()
	s.open()
	if s.Lost() != 0 || s.used("blue").Calls != 3 {
		t.Errorf("%d lost again", s.Lost())
	}
}

// TestTaskCeilings: a runaway turn is stopped by each ceiling of its task, over
// a restart too; another task, and another team's of that name, are not.
func TestTaskCeilings(t *testing.T) {
	for what, set := range map[string]func(*envelope.Task){
		"calls":   func(c *envelope.Task) { c.Calls = 2 },
		"tokens":  func(c *envelope.Task) { c.Tokens = 25 },
		"cpuTime": func(c *envelope.Task) { c.CPUTime = envelope.Duration(21 * time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newStand(t, nil)
			blue, red := s.key("blue"), s.key("red")
			ask := func(key, task string) gateway.Ask {
				a := s.ask(key, task, 1, 10)
				set(&a.Envelope.Task)
				return a
			}
			s.settle(s.admit(ask(blue, "loop")), 9)
			s.settle(s.admit(ask(blue, "loop")), 9)
			for range 2 {
				_, err := s.Admit(t.Context(), ask(blue, "loop"))
				if r := denied(t, err, envelope.ReasonBudget); r.Field != "task."+what || r.Retry {
					t.Errorf("%+v", r)
				}
				s.settle(s.admit(ask(blue, "other"+fmt.Sprint(s.Lost()))), 1)
				s.close()
				s.open()
			}
			s.settle(s.admit(ask(red, "loop")), 1)
		})
	}
}

// TestTaskWall: a task that goes on for too long is stopped.
func TestTaskWall(t *testing.T) {
	c := &byHand{now: time.Unix(1_800_000_000, 0)}
	s := newStandAt(t, c, nil)
	key := s.key("blue")
	s.settle(s.admit(s.ask(key, "long", 1, 10)), 1)
	c.advance(2*time.Hour - time.Second)
	s.settle(s.admit(s.ask(key, "long", 1, 10)), 1)
	c.advance(time.Second)
	_, err := s.Admit(t.Context(), s.ask(key, "long", 1, 10))
	if r := denied(t, err, envelope.ReasonBudget); r.Field != "task.wall" {
		t.Errorf("%+v", r)
	}
}

// TestMonthsTurnInUTC: a month's budget is new at midnight of the first, and a
// call is charged to the month in which it was let in.
func TestMonthsTurnInUTC(t *testing.T) {
	c := &byHand{now: time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC).In(time.FixedZone("far", 14*3600))}
	s := newStandAt(t, c, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Tokens = 100 })
	key := s.key("blue")
	over := s.admit(s.ask(key, "", 50, 50))
	_, err := s.Admit(t.Context(), s.ask(key, "", 101, 1))
	if r := denied(t, err, envelope.ReasonBudget); r.RetryAfter.Std() != time.Second {
		t.Errorf("%+v", r)
	}
	c.advance(time.Second)
	s.settle(s.admit(s.ask(key, "", 50, 50)), 50)
	s.settle(over, 50)
	list, err := s.Usage(t.Context(), gateway.UsageQuery{})
	if err != nil || len(list) != 2 || list[0].Month.String() != "2026-12" || list[0].Tokens() != 100 || list[1].Month.String() != "2027-01" || list[1].Tokens() != 100 {
		t.Errorf("%+v, %v", list, err)
	}
}
