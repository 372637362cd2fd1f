package credential

import (
	"context"
	"errors"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/source"
)

var (
	// ErrUnknown is a name that the lease does not have.
	ErrUnknown = errors.New("the call has no such credential")
	// ErrExpired is a secret whose time is over.
	ErrExpired = errors.New("the credential has expired")
	// ErrRevoked is a secret of a lease that was revoked.
	ErrRevoked = errors.New("the credential was revoked")
)

// Error says which credential cannot be had, from what kind of source, why,
// and how to mend it. Error has no hint: it is for the edge to print. It wraps
// no other error, for those may have a secret in their text; it is
// context.DeadlineExceeded or context.Canceled where those are the reason.
type Error struct {
	Name   string // of the profile's entry
	Source source.Kind
	Reason source.Reason
	Msg    string
	Hint   string
	// Unrevoked are other credentials of the call that had been issued, and
	// could not be taken back.
	Unrevoked []string

	cancelled bool
}

// Error names the credential, the kind of its source and the fault.
func (e *Error) Error() string {
	text := "credential " + e.Name + ", from " + string(e.Source) + ": " + e.Msg
	if len(e.Unrevoked) > 0 {
		text += "; issued and not taken back: " + strings.Join(e.Unrevoked, ", ")
	}
	return text
}

// Is reports whether target is the end of the context that e stands for.
func (e *Error) Is(target error) bool {
	if e.cancelled {
		return target == context.Canceled
	}
	return e.Reason == source.Timeout && target == context.DeadlineExceeded
}

// Refusal returns e as the refusal of the call.
func (e *Error) Refusal() *envelope.Refusal {
	retry := e.Reason == source.Timeout || e.Reason == source.Unavailable
	return &envelope.Refusal{Reason: envelope.ReasonSetup, Message: e.Error(), Field: "credentials." + e.Name, Hint: e.Hint, Retry: retry}
}

// failure makes an Error of what a source returned.
func failure(name string, kind source.Kind, err error) *Error {
	fault := source.FaultOf(kind, err)
	return &Error{Name: name, Source: kind, Reason: fault.Reason, Msg: fault.Msg, Hint: fault.Hint}
}

// unmaskable makes an Error of what a Redactor will not look for.
func (l *Lease) unmaskable(err error) *Error {
	e := &Error{Reason: source.Invalid, Msg: "it cannot be masked in what comes out of the call", Hint: "use another secret"}
	var fault *redact.Error
	if errors.As(err, &fault) {
		e.Name, e.Msg = fault.Name, "it cannot be masked in what comes out of the call: "+fault.Err.Error()
	}
	if errors.Is(err, redact.ErrShort) {
		e.Hint = "use a secret of 6 bytes or more"
	}
	if it := l.items[e.Name]; it != nil {
		e.Source = it.kind
	}
	return e
}
