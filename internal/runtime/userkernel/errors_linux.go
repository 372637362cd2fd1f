package userkernel

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
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
		return &cell.Error{Reason: envelope.ReasonRequest, Step: fmt.Sprintf("start %q", cmd.Argv[0]), Hint: hint(step.Err), Err: wrap(step)}
	}
	return nil
}

func wrap(err error) error { return fmt.Errorf("%w: %w", cell.ErrNotStarted, err) }

func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "no such program in the cell; PATH is /usr/local/bin:/usr/bin:/bin, and nothing of home, opt or var is there"
	case errors.Is(err, syscall.EACCES):
		return "it is not executable; an input is when its executable bit is set"
	case errors.Is(err, syscall.ENOEXEC):
		return "not a program this kernel knows; a script needs a #! line, or run it by its interpreter"
	}
	return ""
}
