package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cleanup"
	"github.com/callcell/callcell/internal/credential"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/trace"
)

// Caller is who asks, as the row shows it.
type Caller struct {
	Name string // "local:uid 1000", "key:k_4f2a"; UTF-8 without NUL, at most 512 bytes
	Team string // "" where there is none
	Key  string // id of the key; "": not metered, which is the local user
	// Profiles are those that the caller may name, where it has a key; AnyProfile
	// stands for all.
	Profiles []string
}

// AnyProfile stands for every profile in Caller.Profiles.
const AnyProfile = "*"

// MayName reports whether the caller may name a profile.
func (c Caller) MayName(profile string) bool {
	return c.Key == "" || slices.Contains(c.Profiles, AnyProfile) || slices.Contains(c.Profiles, profile)
}

// String returns the caller as one text: NAME or NAME@TEAM.
func (c Caller) String() string {
	if c.Team == "" {
		return c.Name
	}
	return c.Name + "@" + c.Team
}

// A flight is one call under way: what the steps hand to each other. It
// belongs to the goroutine of Run; while intend and lease are side by side,
// intend only reads what was known before, and all else is lease's.
type flight struct {
	who   Caller
	call  *envelope.Call // not changed
	began time.Time

	env     envelope.Envelope // in force, since admit; shared, and not changed
	shown   json.RawMessage   // since admit: of it, as the row has it
	files   []envelope.File
	tree    *envelope.Tree // since load; nil where the call has none
	loan    Loan           // since load; nil where the call has no workspace
	cmd     cell.Command
	out     *capture
	live    Live
	image   Image // since decide
	needs   []placement.Need
	placed  placement.Decision // since decide; zero for a fetch
	runtime cell.Runtime       // since decide
	cell    cell.Cell          // since lease; nil for a fetch
	way     Way                // since lease; nil where nothing may be reached
	wayGone *envelope.Check
	creds   *credential.Lease // since lease; nil where the call has none
	held    []Held            // credentials that the way out uses
	mask    *mask             // of what comes out; nil where the call has no credentials
	said    *envelope.Call    // the call without its secrets; nil where the intent has it
	undo    cleanup.Stack
	ticket  Ticket // since reserve; nil where nothing is metered
	// leaveTask gives back what the task was held to; nil where it was not.
	leaveTask func(r *envelope.Result, now time.Time)
	cancel    context.CancelCauseFunc
	quiet     bool // a refusal that is counted and has no row
	started   bool // whether Exec was called: something may have run

	signs   map[string]int64 // what looks like a try to get out, by its kind
	trace   *trace.Call      // nil: there is none
	step    trace.Span       // that is under way
	running trace.Span       // of run, since then

	result *envelope.Result
	early  []string // warnings that the intent has
	late   []string // warnings that came after
}

func (b *Broker) begin(who Caller, call *envelope.Call) *flight {
	now := b.clock.Now()
	return &flight{
		who: who, call: call, began: now,
		result: &envelope.Result{ID: audit.NewID(now)},
	}
}

// force puts the envelope in force. Result and row show it without the places
// of the operator's: a command's words may be as secret as what it prints.
func (f *flight) force(r *ruling) {
	f.env = r.env
	shown := r.shown.Clone() // the caller's
	f.result.Envelope, f.shown = &shown, r.text
	f.result.EnvelopeDigest = r.digest
	f.early = slices.Clone(r.warnings)
	f.result.Warnings = append(f.result.Warnings, f.early...)
}

// weakened says, in result and row, that the level is worth less here than its
// name.
func (f *flight) weakened() {
	for _, v := range f.placed.Levels {
		if v.Chosen && v.Worth < v.Level {
			text := fmt.Sprintf("level: %s is worth no more than %s here: %s", v.Level, v.Worth, v.Weakness)
			f.early, f.result.Warnings = append(f.early, text), append(f.result.Warnings, text)
		}
	}
}

// intent is what is known of the call, for the row.
func (f *flight) intent() audit.Intent {
	in := audit.IntentOf(f.result.ID, f.who.Name, f.call, f.result.Envelope, f.result.Level, f.result.Why, f.early)
	in.EnvelopeText = f.shown
	in.Team, in.EnvelopeDigest, in.ImageDigest = f.who.Team, f.result.EnvelopeDigest, f.result.Image
	in.Trace = f.trace.Parent().Trace.String()
	in.Hold = len(f.env.Credentials) > 0 // they are issued meanwhile, and may be in the arguments
	return in
}

// warn adds a warning that the intent does not have.
func (f *flight) warn(text string) {
	f.late = append(f.late, text)
	f.result.Warnings = append(f.result.Warnings, text)
}

// ended takes over how the program ended. cause says why we cancelled it, if
// we did.
func (f *flight) ended(exit cell.Exit, cause error) {
	if errors.Is(cause, errOverrun) && exit.Cause == cell.CauseCancel {
		exit.Cause = cell.CauseWall
		f.warn("resources.wall: the level did not end the program in time, so it was cancelled")
	}
	if why := envelope.RefusalOf(cause); why != nil && exit.Cause == cell.CauseCancel {
		f.warn("cancelled: " + why.Message)
	}
	r := f.result
	r.Outcome = outcomeOf(exit)
	if f.wayDied() {
		r.Outcome = envelope.OutcomeBroken
		f.warn("egress: the process that carries connections died; what came after was denied")
	}
	r.Exit = exitOf(exit)
	r.Events = eventsOf(exit, r.Outcome)
	r.EnforcedDigest = exit.Enforced
	r.Usage.Wall, r.Usage.CPU = exit.Wall, exit.CPU
	r.Usage.MemoryPeak, r.Usage.PidsPeak, r.Usage.Scratch = exit.Memory, exit.Pids, exit.Scratch
}

// output takes over what the program wrote, if it may have run, and lets no
// more in.
func (f *flight) output() {
	if f.out == nil {
		return
	}
	f.mask.flush()
	stdout, stderr := f.out.seal()
	if f.started {
		f.result.Stdout, f.result.Stderr = stdout, stderr
	}
}

// close destroys the cell, when the way out of it is closed and before the
// call's credentials are taken back.
func (b *Broker) close(ctx context.Context, f *flight) error {
	f.result.Teardown = &envelope.Report{Checks: []envelope.Check{{What: "cell", Note: "the teardown did not come to its end"}}}
	span := f.trace.Begin(f.step, "close")
	report := f.cell.Close(ctx)
	f.took(span, b.clock.Now, "launcher.close", func(t cell.Timings) time.Duration { return t.Remove })
	span.End(!report.Complete)
	f.result.Teardown = withCheck(&report, f.wayGone)
	return nil
}

// withhold gives the caller no outputs, and says why for each.
func (f *flight) withhold(why string) {
	f.result.Outputs, f.result.Missing, f.result.Changes = nil, nil, nil
	if f.call == nil || f.result.Refusal != nil {
		return
	}
	f.result.Fetched = nil
	if f.tree != nil {
		f.result.Changes = &envelope.Changes{Files: []envelope.Change{}, Missing: []envelope.Miss{{Name: "./", Why: why}}}
	}
	for _, name := range f.call.Outputs {
		f.result.Missing = append(f.result.Missing, envelope.Miss{Name: name, Why: why})
	}
}

// fail turns the error of a step into the refusal or the outcome.
func (f *flight) fail(ctx context.Context, name string, err error) {
	r := f.result
	if !f.started || errors.Is(err, cell.ErrNotStarted) && !r.Outcome.Valid() {
		f.started = false
		r.Usage = envelope.Usage{}
		r.Refusal = refusalOf(ctx, name, err)
		f.quiet = noRow(err) && f.ticket == nil
		return
	}
	if !r.Outcome.Valid() { // Exec itself failed: nobody knows how far the program came
		r.Exit.Code = -1
		r.Usage.MemoryPeak, r.Usage.PidsPeak, r.Usage.Scratch = -1, -1, -1
		r.Outcome = envelope.OutcomeBroken
	}
	var panicked *panicError
	if errors.Is(err, cell.ErrBreach) {
		f.sign(envelope.SignGuest, 1)
	}
	if errors.Is(err, cell.ErrBroken) || errors.As(err, &panicked) {
		r.Outcome = envelope.OutcomeBroken
	}
	f.warn(name + ": " + err.Error())
	f.withhold(withheld(name))
}

// withheld says why there are no outputs where a step failed.
func withheld(name string) string {
	switch name {
	case "run":
		return "the cell broke"
	case "stop":
		return "the programs of the cell could not all be ended"
	}
	return "it could not be read"
}

// guard runs a step and turns its panic into an error. The panic itself is
// for the operator.
func (b *Broker) guard(f *flight, name string, do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			b.tell(func(w Watch) { w.Panicked(f.result.ID, name, v, stack) })
			err = &panicError{step: name}
		}
	}()
	return do()
}

// panicked tells the operator of a panic that the undo stack has caught.
func (b *Broker) panicked(f *flight, name string, err error) {
	var p *cleanup.PanicError
	if errors.As(err, &p) {
		b.tell(func(w Watch) { w.Panicked(f.result.ID, name, p.Value, nil) })
	}
}
