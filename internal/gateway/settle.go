package gateway

import (
	"context"
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// Hold begins to make the reservation durable; wait returns when it is, and must
// be called. Until it has returned nil nothing of the call runs: a daemon that
// dies leaves a reservation for the next to settle.
func (t *Ticket) Hold(ctx context.Context) (wait func() error) {
	a := Admission{ID: t.ask.ID, Key: t.ask.Key, Team: t.payer, Task: t.ask.Call.Task, Month: t.month, At: t.at,
		Arguments: t.args, Result: t.result, CPU: t.need.cpu}
	held := t.g.store.Begin(ctx, func(tx Tx) error { return tx.Hold(a) })
	return func() error {
		if err := held(); err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		return nil
	}
}

// Meter cuts a result to the tokens that were reserved for it, and says in it
// what it cost. A refusal costs nothing.
func (t *Ticket) Meter(r *envelope.Result) {
	t.metered = true
	t.used = Settlement{ID: t.ask.ID, Key: t.ask.Key, Team: t.payer, Task: t.ask.Call.Task, Month: t.month, At: t.at}
	if r.Refusal != nil {
		return
	}
	t.used.Calls, t.used.Arguments = 1, t.args
	t.used.Result = t.g.trim(r, t.result)
	t.used.CPU, t.used.Wall = r.Usage.CPU, r.Usage.Wall
	r.Usage.ArgumentTokens, r.Usage.ResultTokens = t.used.Arguments, t.used.Result
}

// Settle counts what was used instead of what was reserved. The call keeps its
// turn. What is counted is durable when wait returns nil; on an error it
// is counted in memory, and written later. Both must be called once.
func (t *Ticket) Settle(ctx context.Context) (wait func() error) {
	g := t.g
	if !t.metered { // nobody knows: as of a daemon that died
		t.used = Settlement{ID: t.ask.ID, Key: t.ask.Key, Team: t.payer, Task: t.ask.Call.Task, Month: t.month, At: t.at,
			Calls: 1, Arguments: t.args, CPU: t.need.cpu}
	}
	u := t.used
	g.mu.Lock()
	t.settleLocked(amounts{u.Calls, u.Arguments + u.Result, u.CPU})
	t.ask = Ask{} // who keeps the turn does not keep what the call was made of
	g.settled = g.now()
	g.dispatchLocked()
	g.mu.Unlock()
	settled := g.store.Begin(ctx, func(tx Tx) error { return tx.Settle(u) })
	return func() error { return g.later(u, settled()) }
}

// Leave gives the turn of a call to the next, when nothing of the call is held
// any more: what it has left is memory, which the next one is to find free. So a
// key has never more at once than its tier says, of calls that run and of answers
// that are still being taken. It may be called more than once, and concurrently.
func (t *Ticket) Leave() {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.leaveLocked()
	t.g.dispatchLocked()
}

// later keeps a settlement that could not be written, to be written later.
func (g *Gateway) later(u Settlement, err error) error {
	if err == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) < maxPending {
		g.pending[u.ID] = u
		return fmt.Errorf("settle, kept to be written later: %w", err)
	}
	return fmt.Errorf("settle: %w", err)
}

// maxPending bounds the settlements that wait for the store to take writes
// again. Beyond it a restart settles them as it settles those of a daemon that
// died.
const maxPending = 4096

// Reserved returns the tokens that the result may have.
func (t *Ticket) Reserved() int64 { return t.result }
