package broker

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/cell"
)

// The sentinels of this package.
var (
	// ErrNoProfile is what Profiles returns for a name it does not have.
	ErrNoProfile = errors.New("broker: no such profile")
	// ErrWayDied means that a way out died before its time, and is gone.
	ErrWayDied = errors.New("broker: the process that carries connections died")
	// ErrNoBlob is what Blobs returns for a blob that the team does not keep.
	ErrNoBlob = errors.New("broker: the team keeps no such blob")
	// ErrConfig means that a Broker cannot be put together like that.
	ErrConfig = errors.New("broker: bad configuration")

	errAssembly = errors.New("broker: a level is missing")
	errOverrun  = errors.New("broker: the program overran its wall time")
	errWay      = errors.New("broker: the way out is gone")
)

// intentError is an intent that could not be written.
type intentError struct{ err error }

func (e *intentError) Error() string { return "intent: " + e.err.Error() }
func (e *intentError) Unwrap() error { return e.err }

// panicError is a step that panicked. It does not carry the value: that may
// hold anything, and the error's text goes to the caller.
type panicError struct{ step string }

func (e *panicError) Error() string { return "a failure of our own in " + e.step }

// NoProfileError is ErrNoProfile with the names that there are.
type NoProfileError struct{ Names []string }

// Error implements error.
func (e *NoProfileError) Error() string { return ErrNoProfile.Error() }

// Unwrap makes it ErrNoProfile.
func (e *NoProfileError) Unwrap() error { return ErrNoProfile }

// profileError is the refusal for a profile that cannot be had.
func profileError(name string, err error) error {
	if !errors.Is(err, ErrNoProfile) {
		return err
	}
	r := &envelope.Refusal{Reason: envelope.ReasonRequest, Field: "profile",
		Message: "there is no profile " + name, Hint: "choose one from the list of profiles"}
	var known *NoProfileError
	if errors.As(err, &known) && len(known.Names) > 0 && len(known.Names) <= 32 {
		r.Hint = "there are: " + strings.Join(known.Names, ", ")
	}
	if name == "" {
		r.Message, r.Hint = "there is no default profile", "name a profile"
	}
	return r
}

// refusalOf says how a call is refused for the error of a step, of which
// nothing has run. An error's text goes to the caller: it holds our own words
// and what a runtime says of its cell.
func refusalOf(ctx context.Context, name string, err error) *envelope.Refusal {
	setup := &envelope.Refusal{Reason: envelope.ReasonSetup, Message: name + ": " + err.Error()}
	var intent *intentError
	var built *cell.Error
	switch refusal := envelope.RefusalOf(err); {
	case refusal != nil:
		return refusal
	case ctx.Err() != nil && envelope.RefusalOf(context.Cause(ctx)) != nil:
		return envelope.RefusalOf(context.Cause(ctx))
	case ctx.Err() != nil:
		setup.Message = "the call was cancelled before its program was started"
		setup.Retry = true
	case errors.As(err, &intent):
		setup.Message = "the audit log does not take the intent of this call, so nothing ran: " + intent.err.Error()
		setup.Hint = "see that the audit store can be written"
		if errors.Is(err, audit.ErrFull) {
			setup.Hint = "make room on the disk that has the state directory; nothing else is to be done"
		}
		setup.Retry = errors.Is(err, audit.ErrUnwritable) || errors.Is(err, context.DeadlineExceeded)
	case errors.As(err, &built):
		if built.Reason.Valid() {
			setup.Reason = built.Reason
		}
		setup.Message, setup.Hint = built.Error(), built.Hint
		if errors.Is(err, cell.ErrNotStarted) && errors.Is(err, fs.ErrNotExist) {
			setup.Field, setup.Message = "argv[0]", built.Step+": it is not there, or the interpreter that it names is not"
		}
		setup.Retry = setup.Reason == envelope.ReasonCapacity
	case errors.Is(err, cell.ErrNotStarted) && errors.Is(err, fs.ErrNotExist):
		setup.Reason, setup.Field = envelope.ReasonRequest, "argv[0]"
		setup.Message = "the program is not there, or the interpreter that it names is not"
		setup.Hint = "name a program of the image, or one of the inputs with ./ before it"
	}
	return setup
}
