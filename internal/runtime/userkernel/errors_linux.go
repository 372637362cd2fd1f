package userkernel

import (
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/runtime/link"
)

// notStarted makes a guest's word that the program has not run into Exec's
// error; nil where it does not say so.
func notStarted(err error, cmd cell.Command) error {
	var file *guest.FileError
	var step *guest.StepError
	switch {
	case errors.As(err, &file):
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("write %q", file.Name),
			Hint: "inputs, and what a call is given beside them, count against files.scratch and files.inodes", Err: wrap(file)}
	case errors.As(err, &step):
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("start %q", cmd.Argv[0]), Hint: link.StartHint(step.Err), Err: wrap(step)}
	}
	return nil
}

func wrap(err error) error { return fmt.Errorf("%w: %w", cell.ErrNotStarted, err) }
