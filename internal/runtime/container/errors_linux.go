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

// errFull means that there are as many cells as launcher.conf has, over all
// launchers of a runtime.
var errFull = errors.New("every slot is in use")

// opened makes the launcher's refusal of a cell, or of the egress process, into
// what the main path shows.
func opened(f *wire.Failed, step string) error {
	e := &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: cause(f)}
	switch f.Kind {
	case wire.KindCapacity:
		e.Reason, e.Hint = envelope.ReasonCapacity, "wait for another call to end, or raise cells in launcher.conf"
	case wire.KindSpec:
		e.Reason, e.Hint = envelope.ReasonPolicy, "the launcher's own ceilings are in launcher.conf"
	}
	return e
}

// exited makes the answer to Start that is no exit into Exec's error.
func exited(f *wire.Failed, cmd cell.Command, files []envelope.File) error {
	switch f.Kind {
	case wire.KindExec:
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("start %q", cmd.Argv[0]), Hint: execHint(f), Err: notStarted(f)}
	case wire.KindUnpack:
		return &cell.Error{Reason: envelope.ReasonRequest, Step: "write " + unpacked(f.Index, cmd, files),
			Hint: "inputs, and what a call is given beside them, count against files.scratch, files.inodes and resources.memory", Err: notStarted(f)}
	case wire.KindSetup, wire.KindState:
		return &cell.Error{Reason: envelope.ReasonSetup, Step: "start the cell", Err: notStarted(f)}
	}
	return fmt.Errorf("%w: %w", cell.ErrBroken, cause(f))
}

// unpacked names one file of a payload.
func unpacked(index uint32, cmd cell.Command, files []envelope.File) string {
	switch i := int(index); {
	case i < len(files):
		return fmt.Sprintf("input %q", files[i].Name)
	case i < len(files)+len(cmd.Run):
		return fmt.Sprintf("%q", cell.RunDir+"/"+cmd.Run[i-len(files)].Name)
	}
	return "an input"
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
