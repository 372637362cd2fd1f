package container

import (
	"fmt"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// exited makes the answer to Start that is no exit into Exec's error.
func exited(f *wire.Failed, cmd cell.Command, files []envelope.File) error {
	switch f.Kind {
	case wire.KindExec:
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("start %q", cmd.Argv[0]), Hint: link.StartHint(link.Cause(f)), Err: notStarted(f)}
	case wire.KindUnpack:
		return &cell.Error{Reason: envelope.ReasonRequest, Step: "write " + unpacked(f.Index, cmd, files),
			Hint: "inputs, and what a call is given beside them, count against files.scratch, files.inodes and resources.memory", Err: notStarted(f)}
	case wire.KindSetup, wire.KindState:
		return &cell.Error{Reason: envelope.ReasonSetup, Step: "start the cell", Err: notStarted(f)}
	}
	return fmt.Errorf("%w: %w", cell.ErrBroken, link.Cause(f))
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

func notStarted(f *wire.Failed) error { return fmt.Errorf("%w: %w", cell.ErrNotStarted, link.Cause(f)) }
