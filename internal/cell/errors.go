package cell

import (
	"errors"

	"github.com/callcell/callcell/envelope"
)

// The sentinels of this package.
var (
	// ErrState is returned by a method that is called out of order.
	ErrState = errors.New("cell: out of order")
	// ErrNotStarted means that the program has not run.
	ErrNotStarted = errors.New("cell: not started")
	// ErrBroken means that the cell's own machinery died.
	ErrBroken = errors.New("cell: broken")
	// ErrBreach means, beside ErrBroken, that the cell's guest did what no guest
	// of ours does.
	ErrBreach = errors.New("cell: its guest broke the rules")
	// ErrClosed means that the cell or its runtime was closed meanwhile.
	ErrClosed = errors.New("cell: closed")
)

// Error is a cell that could not be built or started: which step, and as what
// refusal it is to be shown.
type Error struct {
	Reason envelope.Reason // setup, capacity, unsupported or isolation
	Step   string          // "mount /proc"
	Hint   string
	Err    error // wraps the cause, often a syscall.Errno
}

// Error names the step and the cause.
func (e *Error) Error() string { return "cell: " + e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
