package link

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// ErrLauncher means that the launcher went away.
var ErrLauncher = errors.New("the launcher is gone")

// ErrNoTree is a tree that is not in the launchers' store.
var ErrNoTree = errors.New("no such tree")

// ErrInUse is a tree that cells are using.
var ErrInUse = errors.New("the tree is in use")

// MountError is a mount that launcher.conf does not have, or not as asked for.
type MountError struct {
	Index int // in the spec's Mounts; the launcher's word
	Err   error
}

// Error says what is at fault.
func (e *MountError) Error() string { return "not given: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MountError) Unwrap() error { return e.Err }

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
	case wire.KindMount:
		e.Reason, e.Err = envelope.ReasonPolicy, &MountError{int(f.Index), e.Err}
		e.Hint = "what of this host a cell may be given is in launcher.conf, which belongs to root"
	case wire.KindAbsent:
		e.Err, e.Hint = fmt.Errorf("%w: %w", ErrNoTree, e.Err), "pull or build the image again"
	case wire.KindTree:
		e.Hint = "the image is no root for a cell as it is; unpack it with mount points, or choose other targets for mounts"
	case wire.KindBusy:
		e.Err, e.Hint = fmt.Errorf("%w: %w", ErrInUse, e.Err), "wait for the calls that use it to end"
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
