package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
)

var errFault = errors.New("injected")

// A faultCase makes one point of the main path fail.
type faultCase struct {
	at      string
	err     error // nil: it panics
	reason  envelope.Reason
	outcome envelope.Outcome
	retry   bool
	says    string // in the refusal, or in the warnings
}

func faultCases() []faultCase {
	capacity := &cell.Error{Reason: envelope.ReasonCapacity, Step: "slot", Hint: "later", Err: errFault}
	broken := fmt.Errorf("%w: the sentry died", cell.ErrBroken)
	absent := fmt.Errorf("%w: %w", cell.ErrNotStarted, fs.ErrNotExist)
	unwritable := fmt.Errorf("disk full: %w", audit.ErrUnwritable)
	policy := &envelope.Refusal{Reason: envelope.ReasonPermission, Message: "not yours"}
	done := envelope.OutcomeCompleted
	return []faultCase{
		{at: "lookup", err: errFault, reason: envelope.ReasonSetup, says: "injected"},
		{at: "lookup", err: policy, reason: envelope.ReasonPermission, says: "not yours"},
		{at: "lookup", reason: envelope.ReasonSetup, says: "a failure of our own in admit"},
		{at: "intend", err: errFault, reason: envelope.ReasonSetup, says: "does not take the intent"},
		{at: "intend", err: unwritable, reason: envelope.ReasonSetup, retry: true, says: "disk full"},
		{at: "intend", reason: envelope.ReasonSetup, says: "a failure of our own in intend"},
		{at: "open", err: errFault, reason: envelope.ReasonSetup, says: "injected"},
		{at: "open", err: capacity, reason: envelope.ReasonCapacity, retry: true, says: "later"},
		{at: "open", err: &cell.Error{Step: "x", Err: errFault}, reason: envelope.ReasonSetup, says: "injected"},
		{at: "open", reason: envelope.ReasonSetup, says: "a failure of our own in lease"},
		{at: "put", err: errFault, reason: envelope.ReasonSetup, says: "injected"},
		{at: "put", reason: envelope.ReasonSetup, says: "a failure of our own in lease"},
		{at: "exec", err: cell.ErrNotStarted, reason: envelope.ReasonSetup, says: "not started"},
		{at: "exec", err: absent, reason: envelope.ReasonRequest, says: "argv[0]"},
		{at: "exec", err: errors.Join(cell.ErrNotStarted, capacity), reason: envelope.ReasonCapacity, retry: true},
		{at: "exec", err: broken, outcome: envelope.OutcomeBroken, says: "the sentry died"},
		{at: "exec", err: errFault, outcome: envelope.OutcomeBroken, says: "injected"},
		{at: "exec", outcome: envelope.OutcomeBroken, says: "a failure of our own in run"},
		{at: "stop", err: errFault, outcome: done, says: "injected"},
		{at: "stop", err: broken, outcome: envelope.OutcomeBroken, says: "the sentry died"},
		{at: "stop", err: cell.ErrNotStarted, outcome: done, says: "not started"},
		{at: "stop", outcome: envelope.OutcomeBroken, says: "a failure of our own in stop"},
		{at: "get", err: errFault, outcome: done, says: "injected"},
		{at: "get", err: broken, outcome: envelope.OutcomeBroken, says: "the sentry died"},
		{at: "get", outcome: envelope.OutcomeBroken, says: "a failure of our own in collect"},
		{at: "close", err: errFault, outcome: done, says: "teardown: not complete"},
		{at: "close", outcome: done, says: "teardown: not complete"},
		{at: "complete", err: errFault, outcome: done, says: "could not be completed"},
		{at: "complete", outcome: done, says: "could not be completed"},
	}
}

func TestEveryStepMadeToFail(t *testing.T) {
	for _, c := range faultCases() {
		t.Run(fmt.Sprintf("%s/%v", c.at, c.err), func(t *testing.T) {
			s := newStand(t)
			s.fault(c.at, func(context.Context) error {
				if c.err == nil {
					panic("boom in " + c.at)
				}
				return c.err
			})
			call := argv("/bin/zoo")
			call.Outputs = []string{"plain", "empty"}
			c.check(t, s, s.run(t.Context(), call))
		})
	}
}

func (c faultCase) check(t *testing.T, s *stand, r *envelope.Result) {
	t.Helper()
	text := strings.Join(r.Warnings, "\n")
	if r.Refusal != nil {
		text = r.Refusal.Error() + r.Refusal.Hint
		if r.Refusal.Reason != c.reason || r.Refusal.Retry != c.retry {
			t.Errorf("refusal %+v, want %s, retry %v", r.Refusal, c.reason, c.retry)
		}
	}
	if (r.Refusal != nil) != c.reason.Valid() || r.Outcome != c.outcome {
		t.Errorf("refusal %+v, outcome %s; want %s or %s", r.Refusal, r.Outcome, c.reason, c.outcome)
	}
	if !strings.Contains(text, c.says) || strings.Contains(text, "boom") {
		t.Errorf("%q: want it to say %q, and nothing of a panic", text, c.says)
	}
	c.checkRow(t, s, r)
	c.checkCell(t, s, r)
}

// checkRow checks that the row was ended once, whatever failed.
func (c faultCase) checkRow(t *testing.T, s *stand, r *envelope.Result) {
	t.Helper()
	ends := s.count("complete") + s.count("refuse")
	if ends != 1 || s.count("complete") == 1 != r.Outcome.Valid() {
		t.Errorf("the row was ended %d times: %q", ends, s.trace)
	}
	recorded := c.at != "complete"
	if (r.Receipt != nil) != recorded || (s.watch.unrecorded == 0) != recorded {
		t.Errorf("receipt %v, unrecorded %d", r.Receipt, s.watch.unrecorded)
	}
	if panics := c.err == nil; panics != (len(s.watch.panics) == 1) || panics && !strings.Contains(s.watch.panics[0], "boom in "+c.at) {
		t.Errorf("the operator was told of the panics %q", s.watch.panics)
	}
}

// checkCell checks that what was opened was closed once, that steps that a
// failure leaves out were left out, and that outputs are withheld.
func (c faultCase) checkCell(t *testing.T, s *stand, r *envelope.Result) {
	t.Helper()
	want := s.count("opened")
	if got := int(s.closes.Load()); got != want {
		t.Errorf("opened %d times, closed %d times", want, got)
	}
	if (r.Teardown != nil) != (want == 1) {
		t.Errorf("opened %d times, teardown %+v", want, r.Teardown)
	}
	if c.at == "intend" && s.count("exec") != 0 {
		t.Error("the program ran without an intent")
	}
	if leftover := c.at == "close"; leftover != (s.watch.leftovers == 1) {
		t.Errorf("the operator was told of %d leftovers", s.watch.leftovers)
	}
	if c.at == "complete" {
		return
	}
	if len(r.Outputs) != 0 {
		t.Errorf("outputs %+v, want none", r.Outputs)
	}
	if r.Outcome.Valid() && len(r.Missing) != 2 {
		t.Errorf("missing %+v, want a word for each output", r.Missing)
	}
}

// TestNoRowAtAll: neither the intent nor the refusal can be written.
func TestNoRowAtAll(t *testing.T) {
	s := newStand(t)
	s.fault("intend", func(context.Context) error { return audit.ErrUnwritable })
	s.fault("refuse", func(context.Context) error { return audit.ErrUnwritable })
	r := s.run(t.Context(), argv("/bin/print"))
	if r.Refusal == nil || r.Refusal.Reason != envelope.ReasonSetup || r.Receipt != nil || s.count("exec") != 0 {
		t.Errorf("refusal %+v, receipt %v", r.Refusal, r.Receipt)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "row of this call could not be completed") || s.watch.unrecorded != 1 {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// TestBrokenKeepsWhatWasWritten: what came before the cell broke is shown.
func TestBrokenKeepsWhatWasWritten(t *testing.T) {
	s := newStand(t)
	s.fault("stop", func(context.Context) error { return cell.ErrBroken })
	r := s.run(t.Context(), argv("/bin/print", "before"))
	if r.Outcome != envelope.OutcomeBroken || string(r.Stdout.Head) != "before\x00" {
		t.Errorf("outcome %s, stdout %q", r.Outcome, r.Stdout.Head)
	}
	e := s.endings[r.ID]
	if e.Outcome != envelope.OutcomeBroken || len(e.Warnings) != 1 {
		t.Errorf("the row says %s, %q", e.Outcome, e.Warnings)
	}
}

// panicWatch panics whatever it is told.
type panicWatch struct{}

func (panicWatch) Leftover(string, envelope.Level, envelope.Report) { panic("watch") }
func (panicWatch) Unrecorded(string, error)                         { panic("watch") }
func (panicWatch) Panicked(string, string, any, []byte)             { panic("watch") }

// TestWatchThatPanics: a mistake of the watch costs neither the row nor the
// answer.
func TestWatchThatPanics(t *testing.T) {
	s := newStand(t, func(c *broker.Config) { c.Watch = panicWatch{} })
	s.fault("close", func(context.Context) error { return errFault })
	s.fault("stop", func(context.Context) error { panic("stop") })
	if r := s.run(t.Context(), argv("/bin/print")); r.Receipt == nil || r.Outcome != envelope.OutcomeBroken {
		t.Errorf("receipt %v, outcome %s", r.Receipt, r.Outcome)
	}
	s.fault("complete", func(context.Context) error { return errFault })
	if r := s.run(t.Context(), argv("/bin/print")); len(r.Warnings) < 3 {
		t.Errorf("warnings %q", r.Warnings)
	}
}
