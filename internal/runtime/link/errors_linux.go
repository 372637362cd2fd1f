package link

import (
	"errors"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// ErrLauncher means that the launcher went away.
var ErrLauncher = errors.New("the launcher is gone")

// errFull means that there are as many cells as launcher.conf has, over all
// launchers.
var errFull = errors.New("every slot is in use")

// Refused makes the launcher's refusal of a cell, or of the egress process, into
// what the main path shows: a *cell.Error.
func Refused(f *wire.Failed, step string) error {
	e := &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: Cause(f)}
	switch f.Kind {
	case wire.KindCapacity:
		e.Reason, e.Hint = envelope.ReasonCapacity, "wait for another call to end, or raise cells in launcher.conf"
	case wire.KindSpec:
		e.Reason, e.Hint = envelope.ReasonPolicy, "the launcher's own ceilings are in launcher.conf"
	}
	return e
}

// Cause makes an error of a failure; it wraps the errno where there is one.
func Cause(f *wire.Failed) error {
	if f.Errno != 0 {
		return &stepError{f.Step, syscall.Errno(f.Errno)}
	}
	return errors.New(f.Step)
}

type stepError struct {
	text  string
	errno syscall.Errno
}

func (e *stepError) Error() string { return e.text }
func (e *stepError) Unwrap() error { return e.errno }
