package container

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// errLauncher means that the launcher went away.
var errLauncher = errors.New("container: the launcher is gone")

// opened makes the launcher's refusal of a cell into what the main path
// shows.
func opened(f *wire.Failed) error {
	e := &cell.Error{Reason: envelope.ReasonSetup, Step: "build the cell", Err: cause(f)}
	switch f.Kind {
	case wire.KindCapacity:
		e.Reason, e.Hint = envelope.ReasonCapacity, "wait for another call to end, or raise cells in launcher.conf"
	case wire.KindSpec:
		e.Reason, e.Hint = envelope.ReasonPolicy, "the launcher's own ceilings are in launcher.conf"
	}
	return e
}

// exited makes the answer to Start that is no exit into Exec's error.
func exited(f *wire.Failed, argv0 string, files []envelope.File) error {
	switch f.Kind {
	case wire.KindExec:
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("start %q", argv0), Hint: execHint(f), Err: notStarted(f)}
	case wire.KindUnpack:
		name := "an input"
		if int(f.Index) < len(files) {
			name = files[f.Index].Name
		}
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("write input %q", name),
			Hint: "inputs count against files.scratch, files.inodes and resources.memory", Err: notStarted(f)}
	case wire.KindSetup, wire.KindState:
		return &cell.Error{Reason: envelope.ReasonSetup, Step: "start the cell", Err: notStarted(f)}
	}
	return fmt.Errorf("%w: %w", cell.ErrBroken, cause(f))
}

func execHint(f *wire.Failed) string {
	switch syscall.Errno(f.Errno) {
	case syscall.ENOENT:
		return "no such program in the cell; PATH is /usr/local/bin:/usr/bin:/bin, and nothing of home, opt or var is there"
	case syscall.EACCES:
		return "it is not executable; an input is when its executable bit is set"
	case syscall.ENOEXEC:
		return "not a program this kernel knows; a script needs a #! line, or run it by its interpreter"
	}
	return ""
}

func notStarted(f *wire.Failed) error { return fmt.Errorf("%w: %w", cell.ErrNotStarted, cause(f)) }

// cause keeps the errno where there is one.
func cause(f *wire.Failed) error {
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
