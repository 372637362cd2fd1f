package workspace

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
)

// The sentinels of this package.
var (
	// ErrHeld means that another call has the workspace.
	ErrHeld = errors.New("workspace: another call has it")
	// ErrStale means that another version is the newest.
	ErrStale = errors.New("workspace: that is not the newest version")
	// ErrAbsent means that there is no such workspace, or no such version.
	ErrAbsent = errors.New("workspace: no such workspace or version")
	// ErrLost means that a hold is over, or that another version was written
	// meanwhile.
	ErrLost = errors.New("workspace: the hold was lost, or another version was written meanwhile")
	// ErrCorrupt means that a version cannot be read as it was written.
	ErrCorrupt = errors.New("workspace: a version is not as it was written")
)

// HeldError is ErrHeld with the time at which the hold ends by itself.
type HeldError struct{ Until time.Time }

// Error says until when.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v, until %s at most", ErrHeld, e.Until.UTC().Format(time.TimeOnly))
}

// Unwrap makes it ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// StaleError is ErrStale with the version that is the newest.
type StaleError struct{ Newest int64 }

// Error says which is the newest.
func (e *StaleError) Error() string { return fmt.Sprintf("%v: %d is", ErrStale, e.Newest) }

// Unwrap makes it ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// refusal is a workspace that cannot be had, as the caller gets it.
type refusal struct {
	name string
	err  error
}

func (e *refusal) Error() string {
	return "workspace " + e.name + ": " + strings.TrimPrefix(e.err.Error(), "workspace: ")
}
func (e *refusal) Unwrap() error { return e.err }

// Refusal implements what package envelope asks of an error.
func (e *refusal) Refusal() *envelope.Refusal {
	r := &envelope.Refusal{Reason: envelope.ReasonSetup, Field: "workspace", Message: e.Error()}
	var stale *StaleError
	switch {
	case errors.Is(e.err, ErrHeld):
		r.Reason, r.Retry, r.Hint = envelope.ReasonCapacity, true, "wait until that call is over: one at a time writes"
	case errors.As(e.err, &stale):
		r.Reason, r.Field = envelope.ReasonPolicy, "workspace.version"
		r.Hint = fmt.Sprintf("look at what was changed, and name version %d, or none", stale.Newest)
	case errors.Is(e.err, ErrAbsent):
		r.Reason, r.Field, r.Hint = envelope.ReasonRequest, "workspace.version", "leave the version out: the first call makes the workspace"
	}
	return r
}

// Conflict reports whether a refusal is that of a workspace which another call
// has, or has written since: the caller looks again.
func Conflict(r *envelope.Refusal) bool {
	return r.Reason == envelope.ReasonCapacity && r.Field == "workspace" || r.Reason == envelope.ReasonPolicy && r.Field == "workspace.version"
}
