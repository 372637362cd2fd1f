// Package broker is the main path: the way of one call from a caller's words
// to a Result with a receipt. Every front end goes through Run, and there is
// no other way to a cell.
//
//	enter -> admit -> decide -> reserve -> load -> intend || lease -> run -> stop -> collect -> destroy -> shelve -> commit -> record
//
// A step that fails jumps to destroy and record, with a refusal where nothing
// of the call has run and an outcome where something may have. Nothing skips
// those two: not an error, not a panic, not a caller who has gone.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/trace"
)

// The bounds of the steps that go on when the caller is gone. A runtime's and
// a recorder's own bounds are shorter; these hold where those do not.
const (
	intendTime  = 10 * time.Second // for the intent to be durable
	overrunTime = 5 * time.Second  // beyond resources.wall and cleanup.stopGrace, before Exec is cancelled
	stopTime    = 10 * time.Second // for every process to be dead, beyond cleanup.stopGrace
	collectTime = 30 * time.Second // for the outputs
	destroyTime = 30 * time.Second // for the teardown
	recordTime  = 20 * time.Second // for the row to be completed
)

// A step is one function of the main path.
type step struct {
	name string
	do   func(context.Context, *flight) error
}

// steps are the steps that a failure leaves out.
func (b *Broker) steps() []step {
	return []step{
		{"enter", b.enter},
		{"admit", b.admit},
		{"decide", b.decide},
		{"reserve", b.reserve},
		{"load", b.load},
		{"prepare", b.prepare},
		{"run", b.run},
		{"stop", b.stop},
		{"collect", b.collect},
	}
}

// Run runs one call in a cell of its own and returns how it ended. It never
// returns nil, and never before the cell is destroyed and the row is written
// (or Warnings says that it could not be). ctx ending cancels the call, at
// whatever step it is; teardown and record go on without it, bounded. Run may
// be called concurrently. It does not change call, and nobody else may until
// it has returned.
func (b *Broker) Run(ctx context.Context, who Caller, call *envelope.Call) *envelope.Result {
	return b.RunLive(ctx, who, call, Live{})
}

// RunLive is Run for a caller who hears what happens meanwhile.
func (b *Broker) RunLive(ctx context.Context, who Caller, call *envelope.Call, live Live) *envelope.Result {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := b.begin(who, call)
	f.live, f.cancel = live, cancel
	f.trace = b.traced(ctx, f)
	defer f.trace.End()
	hear(live.Begun, f.result.ID)
	for _, s := range b.steps() {
		f.step = f.trace.Begin(trace.Span{}, s.name)
		err := b.guard(f, s.name, func() error { return s.do(ctx, f) })
		f.step.End(err != nil)
		if err != nil {
			f.fail(ctx, s.name, err)
			break
		}
	}
	b.spanned(f, "destroy", func() { b.destroy(ctx, f) })
	if f.shelves() {
		b.spanned(f, "shelve", func() { b.shelve(ctx, f) })
	}
	if f.loan != nil {
		b.spanned(f, "commit", func() { b.commit(ctx, f) })
	}
	b.spanned(f, "record", func() { b.record(ctx, f) })
	b.over(f)
	return f.result
}

// admit holds the call against its own rules and against its profile, and
// works out the envelope in force and the command.
func (b *Broker) admit(_ context.Context, f *flight) error {
	if f.call == nil {
		return &envelope.Refusal{Reason: envelope.ReasonRequest, Message: "there is no call"}
	}
	f.result.Task = f.call.Task
	if err := f.call.Validate(); err != nil {
		return err
	}
	if err := mayName(f.who, f.call.Profile); err != nil {
		return err
	}
	profile, err := b.profiles.Lookup(f.call.Profile)
	if err != nil {
		return profileError(f.call.Profile, err)
	}
	ruled, err := b.rulings.of(f.call.Profile, profile, f.call.Request)
	if err != nil {
		return err
	}
	f.force(ruled)
	if err := errors.Join(f.env.Admits(f.call), fits(&f.env, f.call)); err != nil {
		return err
	}
	f.command()
	return nil
}

// decide chooses the level. A fetch runs at none: nothing of a stranger is
// executed for it.
func (b *Broker) decide(ctx context.Context, f *flight) error {
	if f.call.Fetch != nil {
		f.result.Level, f.result.Why = envelope.LevelNone, []string{fetchWhy}
		return errors.Join(b.reachable(f), b.issuable(f))
	}
	f.needs = placement.NeedsOf(&f.env, f.call)
	f.placed = placement.Decide(placement.Input{
		Ask:    f.env.Level,
		Trust:  f.env.Trust,
		Needs:  f.needs,
		Host:   b.offers(),
		Floors: b.floors,
	})
	d := &f.placed
	f.result.Why = d.Reasons
	if d.Refusal != nil {
		return d.Refusal
	}
	f.result.Level = d.Level
	f.weakened()
	f.runtime = b.runtimes[d.Level]
	if f.runtime == nil {
		return fmt.Errorf("%w: %s was offered and is not assembled", errAssembly, d.Level)
	}
	return errors.Join(b.root(ctx, f), b.reachable(f), b.issuable(f))
}

// prepare does intend and lease side by side: the program starts when both
// are done. Where the intent cannot be written, the lease is given up.
func (b *Broker) prepare(ctx context.Context, f *flight) error {
	leasing, giveUp := context.WithCancel(ctx)
	defer giveUp()
	leased := make(chan error, 1)
	go func() {
		leased <- b.guard(f, "lease", func() error { return b.lease(leasing, f) })
	}()
	if err := b.intend(ctx, f); err != nil {
		giveUp()
		<-leased // with what it has come to, for destroy
		return err
	}
	return <-leased
}

// intend makes the intent durable. Without it nothing runs.
func (b *Broker) intend(ctx context.Context, f *flight) error {
	ctx, cancel := context.WithTimeout(ctx, intendTime)
	defer cancel()
	if err := b.keep(ctx, f); err != nil {
		return &intentError{err}
	}
	held := b.hold(ctx, f)
	span := f.trace.Begin(f.step, "intend")
	err := b.guard(f, "intend", func() error { return b.recorder.Intend(ctx, f.intent()) })
	span.End(err != nil)
	err = cmp.Or(err, held())
	if err != nil {
		return &intentError{err}
	}
	return nil
}

// lease takes a cell of the call's shape and puts the call's files into it.
// From here on there is something to destroy.
func (b *Broker) lease(ctx context.Context, f *flight) error {
	if f.reaches() {
		b.egress.Warm()
	}
	if err := b.issue(ctx, f); err != nil {
		return err
	}
	if f.call.Fetch != nil {
		return b.openWay(ctx, f, WayOut{})
	}
	if err := b.open(ctx, f); err != nil {
		return err
	}
	if len(f.env.Network.Allow) > 0 {
		if err := b.openGate(ctx, f); err != nil {
			return err
		}
	}
	return f.cell.Put(f.files)
}

// open has the cell built.
func (b *Broker) open(ctx context.Context, f *flight) error {
	span := f.trace.Begin(f.step, "open")
	c, err := f.runtime.Open(ctx, cell.Shape{ID: f.result.ID, Envelope: f.env, Root: f.image.Root})
	if err == nil {
		f.cell = c
		f.undo.Add("cell", func(ctx context.Context) error { return b.close(ctx, f) })
		f.took(span, b.clock.Now, "launcher.open", func(t cell.Timings) time.Duration { return t.Build })
	}
	span.End(err != nil)
	return err
}

// run is the boundary: it hands the command over and waits for its end.
func (b *Broker) run(ctx context.Context, f *flight) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", cell.ErrNotStarted, context.Cause(ctx))
	}
	most := f.env.Resources.Wall.Std() + f.env.Cleanup.StopGrace.Std() + overrunTime
	ctx, cancel := context.WithTimeoutCause(ctx, most, errOverrun)
	defer cancel()
	f.started, f.running = true, f.step
	f.result.Usage.Setup = b.since(f.began)
	hear(f.live.Running, f.result.Level)
	if f.call.Fetch != nil {
		return b.fetch(ctx, f)
	}
	ctx, stop := f.whileWay(ctx)
	defer stop()
	exit, err := f.cell.Exec(ctx, f.cmd)
	if err != nil {
		return err
	}
	f.program(b.clock.Now, &exit)
	f.ended(exit, context.Cause(ctx))
	return nil
}

// stop ends every process of the cell, so that nothing changes the outputs
// any more.
func (b *Broker) stop(ctx context.Context, f *flight) error {
	if f.cell == nil {
		return nil
	}
	ctx, cancel := detach(ctx, stopTime+f.env.Cleanup.StopGrace.Std())
	defer cancel()
	return f.cell.Stop(ctx)
}

// collect takes the outputs that were asked for, and what became of the tree, as
// far as they keep to the rules: what a cell hands out is not to be trusted.
func (b *Broker) collect(ctx context.Context, f *flight) error {
	if len(f.call.Outputs) > 0 {
		ctx, cancel := detach(ctx, collectTime)
		defer cancel()
		files, misses, err := f.cell.Get(ctx, f.call.Outputs, f.env.Files.Outputs)
		if err != nil {
			return err
		}
		files, misses, odd := sift(f.call.Outputs, f.env.Files.Outputs, files, misses)
		f.sign(envelope.SignOutput, odd)
		f.result.Outputs, f.result.Missing = f.mask.files(files, misses)
	}
	return b.reap(ctx, f)
}

// destroy gives back all that was taken, however the call went. Where
// something is left over, the caller gets no outputs and the operator is told.
func (b *Broker) destroy(ctx context.Context, f *flight) {
	ctx, cancel := detach(ctx, destroyTime)
	defer cancel()
	f.output()
	if err := f.undo.Clean(ctx); err != nil {
		f.warn("teardown: a failure of our own")
		b.panicked(f, "destroy", err)
	}
	report := f.result.Teardown
	if report == nil || report.Complete {
		return
	}
	f.warn("teardown: not complete; outputs are withheld")
	f.withhold("the teardown of the cell was not complete")
	b.tell(func(w Watch) { w.Leftover(f.result.ID, f.result.Level, *report) })
}

// record completes the row. It is the last thing: the row has all of it.
func (b *Broker) record(ctx context.Context, f *flight) {
	ctx, cancel := detach(ctx, recordTime)
	defer cancel()
	f.result.Usage.Total = b.since(f.began)
	if f.leaveTask != nil {
		f.leaveTask(f.result, b.clock.Now())
	}
	f.signed()
	b.meter(f)
	settled := b.settle(ctx, f)
	span := f.trace.Begin(f.step, "complete")
	err := b.guard(f, "record", func() error {
		if f.quiet {
			return nil
		}
		receipt, err := b.write(ctx, f)
		if err == nil {
			f.result.Receipt = &receipt
		}
		return err
	})
	span.End(err != nil)
	if unsettled := settled(); unsettled != nil {
		f.warn("gateway: what this call cost is counted, and could not be written yet")
	}
	if err != nil {
		f.warn("audit: the row of this call could not be completed")
		b.tell(func(w Watch) { w.Unrecorded(f.result.ID, err) })
	}
}

func (b *Broker) write(ctx context.Context, f *flight) (envelope.Receipt, error) {
	if f.result.Refusal != nil {
		return b.recorder.Refuse(ctx, audit.Refused{
			Intent: f.intent(), Refusal: *f.result.Refusal, Teardown: f.result.Teardown, Said: f.said,
		})
	}
	ending := audit.EndingOf(f.result)
	ending.Warnings, ending.Said = f.late, f.said
	return b.recorder.Complete(ctx, ending)
}

// detach returns a context that does not end with the caller's, for the steps
// that must be done all the same.
func detach(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), most)
}
