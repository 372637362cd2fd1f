package callcell

import (
	"errors"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/project"
	"github.com/callcell/callcell/internal/workspace"
)

var (
	// ErrAbsent means that there is no such image, workspace or version.
	ErrAbsent = errors.New("callcell: there is none")
	// ErrConflict means that something is needed or was changed by somebody
	// else: an image that cells have, a file of a tree. Nothing was done.
	ErrConflict = errors.New("callcell: somebody else needs or has changed it")
)

// Error is what could not be done with an image, a tree or a workspace. It
// answers errors.Is for ErrAbsent and ErrConflict, and for its cause.
type Error struct {
	Msg  string
	Hint string // how to mend it; may be empty
	Err  error  // the cause
	kind error  // ErrAbsent, ErrConflict or nil
}

// Error says what the matter is.
func (e *Error) Error() string { return "callcell: " + e.Msg }

// Unwrap returns what it is and the cause.
func (e *Error) Unwrap() []error {
	if e.kind == nil {
		return []error{e.Err}
	}
	return []error{e.kind, e.Err}
}

// failure is err as this package hands it out. Refusals stay as they are.
func failure(err error) error {
	var refusal *envelope.Refusal
	var field *envelope.FieldError
	var bad *image.Error
	var full *project.CapError
	var conflict *project.ConflictError
	var recovery *project.RecoveryError
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	e := &Error{Msg: err.Error(), Err: err}
	switch {
	case errors.As(err, &field):
		e.Hint = field.Hint
	case errors.As(err, &bad):
		e.Hint = bad.Hint
		switch bad.Kind {
		case image.KindAbsent:
			e.kind = ErrAbsent
		case image.KindInUse:
			e.kind = ErrConflict
		}
	case errors.Is(err, workspace.ErrAbsent):
		e.kind = ErrAbsent
	case errors.As(err, &full):
		e.Hint = full.Hint
	case errors.As(err, &recovery):
		e.Hint = "put them back by hand, then remove that directory"
	case errors.As(err, &conflict), errors.Is(err, project.ErrBusy):
		e.kind, e.Hint = ErrConflict, "read the tree again, and run the call on it as it is now"
	}
	return e
}
