package guest

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// The sentinels of this package.
var (
	// ErrBroken means that the channel is of no use any more: the guest is
	// gone, or has done what it must not; the text says what.
	ErrBroken = errors.New("guest: the channel broke")
	// ErrClosed means that the channel was closed by us.
	ErrClosed = errors.New("guest: closed")
	// ErrTooLong is a file that has more bytes than were asked for.
	ErrTooLong = errors.New("guest: too long")
	// ErrIrregular is a name that is something else than a regular file, or
	// has a link on its way.
	ErrIrregular = errors.New("guest: not a regular file")
	// ErrRequest is what the guest could make no sense of.
	ErrRequest = errors.New("guest: it was asked for what makes no sense")
)

// FileError is a file or directory that could not be written, read or listed.
type FileError struct {
	Name string
	Err  error // a syscall.Errno as the guest gave it, or a sentinel of this package
}

// Error names the file.
func (e *FileError) Error() string { return fmt.Sprintf("guest: %q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// StepError is a place that was not made, or a program that has not run.
type StepError struct {
	Step wire.Step // wire.StepExec with ENOENT: Argv[0] is not there
	Err  error     // a syscall.Errno as the guest gave it, or a sentinel of this package
}

// Error names the step.
func (e *StepError) Error() string { return fmt.Sprintf("guest: %v: %v", e.Step, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Breach reports whether a channel broke because of what the guest did on it,
// and not because it is gone.
func Breach(err error) bool {
	var b *mux.BrokenError
	return errors.As(err, &b) && (b.Err == nil || errors.Is(b.Err, wire.ErrMalformed))
}

// cause makes an error of what a guest says went wrong; nil where nothing did.
func cause(s wire.Status) error {
	switch s.Cause {
	case wire.CauseNone:
		return nil
	case wire.CauseErrno:
		return syscall.Errno(s.Errno)
	case wire.CauseIrregular:
		return ErrIrregular
	case wire.CauseTooLong:
		return ErrTooLong
	}
	return ErrRequest
}

// broke says what an error of the channel means. What the guest must not have
// done ends the channel.
func (h *Host) broke(err error) error {
	var file *FileError
	var step *StepError
	switch {
	case err == nil || errors.As(err, &file) || errors.As(err, &step):
		return err
	case errors.Is(err, mux.ErrReset), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		h.m.Fail(&mux.BrokenError{What: "it ended a stream without an answer"})
	case errors.Is(err, wire.ErrMalformed):
		h.m.Fail(&mux.BrokenError{What: "it said what it must not", Err: err})
	}
	return h.wrap(err)
}

// wrap marks an error of the channel.
func (h *Host) wrap(err error) error {
	if ended := h.m.Err(); ended != nil {
		err = ended
	}
	if errors.Is(err, mux.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}
