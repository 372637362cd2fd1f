package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// Gateway decides which calls of whom happen at all, and how many. It is
// called concurrently, for callers that have a key. Its errors are refusals of
// package envelope, or our own; one with a method NoRow() bool that returns true
// is counted and needs no row.
type Gateway interface {
	// Enter counts a call against its caller's rate. It is the first step.
	Enter(who Caller) error
	// Admit reserves what a call may cost and waits for its turn.
	Admit(ctx context.Context, a Admission) (Ticket, error)
}

// Admission is a call that is to be let in.
type Admission struct {
	ID       string
	Who      Caller
	Call     *envelope.Call
	Envelope *envelope.Envelope // in force
	// Cancel ends the call, because its caller may no longer have it. It does
	// not block.
	Cancel context.CancelCauseFunc
}

// Ticket is a call that was let in, with what is reserved for it.
type Ticket interface {
	// Hold begins to make the reservation durable, beside the intent. wait
	// returns when it is.
	Hold(ctx context.Context) (wait func() error)
	// Reserved is how many tokens the result may have.
	Reserved() int64
	// Meter cuts the result to that, and says in it what it cost.
	Meter(r *envelope.Result)
	// Settle begins to count what Meter said. It comes once, whatever happened.
	// wait returns when that is durable.
	Settle(ctx context.Context) (wait func() error)
	// Leave gives the turn to the next, after Settle. It may be called more than
	// once, from any goroutine, and does not block.
	Leave()
}

// metered reports whether the gateway has a say.
func (b *Broker) metered(f *flight) bool { return b.gateway != nil && f.who.Key != "" }

// enter counts the call against the rate of who makes it, whatever comes of it.
func (b *Broker) enter(_ context.Context, f *flight) error {
	if !b.metered(f) {
		return nil
	}
	return b.gateway.Enter(f.who)
}

// reserve waits for the call's turn, with what it may cost set aside.
func (b *Broker) reserve(ctx context.Context, f *flight) error {
	if !b.metered(f) {
		if f.call.MaxTokens > 0 {
			return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "maxTokens",
				Message: "tokens are not counted for this caller", Hint: "leave it out; resources.output.keep bounds what comes back in bytes"}
		}
		return b.enterTask(f)
	}
	t, err := b.gateway.Admit(ctx, Admission{ID: f.result.ID, Who: f.who, Call: f.call, Envelope: &f.env, Cancel: f.cancel})
	if err != nil {
		return err
	}
	f.ticket = t
	hear(f.live.Admitted, t.Reserved())
	return nil
}

// enterTask holds a call to the ceilings of its task, where no gateway does.
func (b *Broker) enterTask(f *flight) (err error) {
	if f.call.Task == "" {
		return nil
	}
	f.leaveTask, err = b.tasks.enter(f.who, f.call.Task, &f.env, b.clock.Now())
	return err
}

// hold begins to make the reservation durable, if there is one. wait says when it
// is. No goroutine waits for it meanwhile: to wake one costs more than what it
// would do.
func (b *Broker) hold(ctx context.Context, f *flight) (wait func() error) {
	if f.ticket == nil {
		return func() error { return nil }
	}
	return b.meanwhile(f, "hold", func() func() error { return f.ticket.Hold(ctx) })
}

// meanwhile begins a step that goes on beside others until wait returns.
func (b *Broker) meanwhile(f *flight, name string, begin func() func() error) (wait func() error) {
	span := f.trace.Begin(f.step, name)
	var end func() error
	err := b.guard(f, name, func() error { end = begin(); return nil })
	return func() error {
		if err == nil {
			err = b.guard(f, name, end)
		}
		span.End(err != nil)
		return err
	}
}

// keep makes it durable that somebody may come back for the call, if anybody
// asks for that. It comes before the intent: with an intent alone, a daemon that
// dies leaves a row of a call that its idempotency key does not know.
func (b *Broker) keep(ctx context.Context, f *flight) error {
	if f.live.Keep == nil {
		return nil
	}
	span := f.trace.Begin(f.step, "keep")
	err := b.guard(f, "keep", func() error { return f.live.Keep(ctx, f.result.ID) })
	span.End(err != nil)
	return err
}

// meter counts what the call cost, once all of its result is there.
func (b *Broker) meter(f *flight) {
	if f.ticket == nil {
		return
	}
	warned := len(f.result.Warnings)
	if err := b.guard(f, "meter", func() error { f.ticket.Meter(f.result); return nil }); err != nil {
		f.warn("gateway: what the call cost could not be counted")
		return
	}
	f.late = append(f.late, f.result.Warnings[warned:]...)
}

// settle begins to count the cost, and gives the turn to the next, or to whoever
// takes what the call has left. wait says when it is counted for good.
func (b *Broker) settle(ctx context.Context, f *flight) (wait func() error) {
	if f.ticket == nil {
		return func() error { return nil }
	}
	wait = b.meanwhile(f, "settle", func() func() error { return f.ticket.Settle(ctx) })
	if !hear(f.live.Turn, f.ticket.Leave) {
		_ = b.guard(f, "leave", func() error { f.ticket.Leave(); return nil }) // a panic is told of there
	}
	return wait
}

// noRow reports whether a refusal is counted and needs no row.
func noRow(err error) bool {
	var counted interface{ NoRow() bool }
	return errors.As(err, &counted) && counted.NoRow()
}

// mayName refuses a profile that the caller's key does not have.
func mayName(who Caller, profile string) error {
	if who.MayName(profile) {
		return nil
	}
	return &envelope.Refusal{Reason: envelope.ReasonPermission, Field: "profile",
		Message: fmt.Sprintf("the caller may not use the profile %q", profile), Hint: "name one that the key has, or ask for a key with this one"}
}
