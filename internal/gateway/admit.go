package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Enter counts a call against the rate of its key. It comes first, so that
// calls that are refused for something else count too. An error is a *Denial.
func (g *Gateway) Enter(key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if why := g.aliveLocked(k); why != nil {
		return g.denyLocked(k, key, *why)
	}
	if !k.Role.May(RoleCall) {
		return g.denyLocked(k, key, envelope.Refusal{Reason: envelope.ReasonPermission,
			Message: "the key's role is " + k.Role.String() + ", which runs nothing", Hint: "use a key of role call"})
	}
	after, ok := k.rate.take(g.reading(g.clock.Now()))
	if ok {
		return nil
	}
	return g.denyLocked(k, key, envelope.Refusal{Reason: envelope.ReasonRate, Retry: true, RetryAfter: seconds(after),
		Message: fmt.Sprintf("%d calls in 60 seconds, which is what the key has", k.rate.limit),
		Hint:    "wait for " + seconds(after).String()})
}

// Good reports why a key may do nothing now that is no call, or nil. An error is
// a *envelope.Refusal.
func (g *Gateway) Good(key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why := g.aliveLocked(g.keys[key]); why != nil {
		return why
	}
	return nil
}

// seconds rounds up to whole seconds: nobody comes too early.
func seconds(d time.Duration) envelope.Duration {
	return envelope.Duration(max((d+time.Second-1)/time.Second, 1) * time.Second)
}

// aliveLocked returns why a key may do nothing, or nil.
func (g *Gateway) aliveLocked(k *keyState) *envelope.Refusal {
	switch {
	case g.closed:
		return &envelope.Refusal{Reason: envelope.ReasonCapacity, Message: "this host is shutting down", Retry: true}
	case k == nil:
		return &envelope.Refusal{Reason: envelope.ReasonPermission, Message: "there is no such key", Hint: "ask for one"}
	case !k.Revoked.IsZero():
		return revoked()
	}
	if t := g.teams[k.Team]; t == nil || t.Suspended {
		return &envelope.Refusal{Reason: envelope.ReasonPermission, Message: "the team " + k.Team + " is suspended", Hint: "ask who runs this host"}
	}
	return nil
}

func revoked() *envelope.Refusal {
	return &envelope.Refusal{Reason: envelope.ReasonPermission, Message: "the key was revoked", Hint: "ask for another"}
}

// Ask is a call that is to be admitted.
type Ask struct {
	ID       string // of the call
	Key      string // its id
	Call     *envelope.Call
	Envelope *envelope.Envelope // in force
	// Cancel ends the call while it waits or runs, because its key is no
	// longer good. It is called with a *envelope.Refusal, must not block, and
	// may be called more than once.
	Cancel func(cause error)
}

// Ticket is a call that was let in. Hold comes before anything of it runs,
// Meter when it has ended, Settle when all of it has, Leave last; the latter two
// in any case.
type Ticket struct {
	g      *Gateway
	ask    Ask
	key    *keyState
	team   *teamState
	payer  string // the team's name: who has no lock reads it here
	purse  *purse
	task   *taskState // nil where the call names none
	need   amounts    // reserved
	args   int64      // tokens
	result int64      // tokens, at most
	month  Month
	at     time.Time

	let     chan error // is answered once: nil, or a denial
	used    Settlement // set by Meter
	metered bool

	turn bool // whether it has one; guarded by g.mu
}

// Admit reserves what a call may cost, and waits for its turn: until ctx ends,
// or Limits.Wait is over. An error is a *Denial, the context's, or the store's.
// A ticket must be settled and left.
func (g *Gateway) Admit(ctx context.Context, a Ask) (*Ticket, error) {
	t, err := g.ticket(ctx, a)
	if err != nil {
		var why *envelope.Refusal
		if errors.As(err, &why) {
			return nil, g.deny(a.Key, *why)
		}
		return nil, err
	}
	g.mu.Lock()
	if err := g.enqueueLocked(t); err != nil {
		err = g.denyLocked(t.key, a.Key, *err.(*envelope.Refusal))
		g.mu.Unlock()
		return nil, err
	}
	g.dispatchLocked()
	g.mu.Unlock()
	return t, t.wait(ctx)
}

// ticket measures a call and has loaded what its admission hangs on.
func (g *Gateway) ticket(ctx context.Context, a Ask) (*Ticket, error) {
	now := g.now()
	t := &Ticket{g: g, ask: a, month: MonthOf(now), at: now, let: make(chan error, 1)}
	g.mu.Lock()
	t.key = g.keys[a.Key]
	if t.key != nil {
		t.payer = t.key.Team
		t.team = g.teams[t.payer]
	}
	why := g.aliveLocked(t.key)
	g.mu.Unlock()
	if why != nil {
		return nil, why
	}
	t.args, t.result = g.arguments(a.Call), g.worst(a.Call, a.Envelope)
	t.need = amounts{calls: 1, tokens: t.args + t.result, cpu: a.Envelope.Resources.CPUTime.Std()}
	if a.Call.Fetch != nil {
		t.need.cpu = 0
	}
	return t, cmp.Or(g.loadPurse(ctx, t.payer, t.month), g.loadTask(ctx, taskID{t.payer, a.Call.Task}))
}

// wait returns when the ticket is let in, or never will be.
func (t *Ticket) wait(ctx context.Context) error {
	select {
	case err := <-t.let:
		return err
	default:
	}
	timer := time.NewTimer(t.g.limits.Wait.Std())
	defer timer.Stop()
	select {
	case err := <-t.let:
		return err
	case <-ctx.Done():
		return t.leave(ctx.Err(), nil)
	case <-timer.C:
		return t.leave(nil, t.late)
	}
}

// leave gives up waiting. Where the ticket was let in meanwhile, it is; but a
// caller who has gone does not take it.
func (t *Ticket) leave(err error, why func() envelope.Refusal) error {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case answer := <-t.let:
		if answer == nil && err != nil {
			t.settleLocked(amounts{})
			t.leaveLocked()
			g.dispatchLocked()
			return err
		}
		return answer
	default:
	}
	g.forgetLocked(t)
	if err != nil {
		return err
	}
	return g.denyLocked(t.key, t.ask.Key, why())
}

// late says why a call has waited for too long.
func (t *Ticket) late() envelope.Refusal {
	r := envelope.Refusal{Reason: envelope.ReasonCapacity, Retry: true, RetryAfter: seconds(time.Second),
		Message: fmt.Sprintf("no turn in %s: too many calls at once, of the key, the team or the host", t.g.limits.Wait),
		Hint:    "make fewer calls at once"}
	if why, held := t.judgeLocked(); why != nil {
		return *why
	} else if held != "" && held != aTurn {
		r.Reason, r.Field = envelope.ReasonBudget, held
		r.Message = fmt.Sprintf("%s has no room while other calls hold what they may use; waited for %s", held, t.g.limits.Wait)
		r.Hint = "wait for those, or ask for less: maxTokens"
	}
	return r
}
