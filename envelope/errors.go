package envelope

import (
	"errors"
	"strconv"
	"strings"
)

// FieldError says which field of a call, a request or an envelope is wrong,
// what is wrong with it and how to mend it. Error leaves the hint out: it is
// for the edge to print.
type FieldError struct {
	Reason Reason // ReasonRequest, or ReasonPolicy for what is wider than the profile
	Field  string // dotted: network.allow[0].host
	Msg    string
	Hint   string
}

// Error names the field and the fault.
func (e *FieldError) Error() string { return atField(e.Field, e.Msg) }

// Refusal returns e as the refusal of the call that it came from.
func (e *FieldError) Refusal() *Refusal {
	reason := e.Reason
	if !reason.Valid() {
		reason = ReasonRequest
	}
	return &Refusal{Reason: reason, Message: e.Msg, Field: e.Field, Hint: e.Hint}
}

// DecodeError says where a document could not be read, why, and how to mend
// it. Error leaves the hint out: it is for the edge to print.
type DecodeError struct {
	Path string // dotted: files.scratch, network.allow[0].host; "" is the whole document
	Msg  string
	Hint string
	Err  error // what a type's own decoder said; nil otherwise
}

// Error names the place and the fault.
func (e *DecodeError) Error() string { return atField(e.Path, e.Msg) }

// Unwrap returns the error of the type's own decoder, if that was it.
func (e *DecodeError) Unwrap() error { return e.Err }

// Refusal returns e as the refusal of the call that it came from.
func (e *DecodeError) Refusal() *Refusal {
	return &Refusal{Reason: ReasonRequest, Message: e.Msg, Field: e.Path, Hint: e.Hint}
}

// ValueError is a word that is not in a closed set, or a quantity that cannot
// be read.
type ValueError struct {
	Kind  string   // level, trust, size, ...
	Value string   // as it was given
	Want  []string // the words there are, or one sentence
	Hint  string   // how to mend it; may be empty
}

// Error names the value and what would be right.
func (e *ValueError) Error() string {
	what := "unknown "
	if len(e.Want) == 1 {
		what = "bad "
	}
	return what + e.Kind + " " + quote(e.Value) + ": want " + e.wanted()
}

func (e *ValueError) wanted() string {
	if len(e.Want) == 1 {
		return e.Want[0]
	}
	return "one of " + strings.Join(e.Want, ", ")
}

// Refusal returns e as the refusal of the call that it came from. It names
// no field: only who decoded it knows the field.
func (e *ValueError) Refusal() *Refusal {
	return &Refusal{Reason: ReasonRequest, Message: e.Error(), Hint: e.Hint}
}

// RefusalOf returns the refusal that err is or stands for: a *Refusal, or an
// error with a method Refusal, as FieldError, DecodeError and ValueError are.
// It returns nil for every other error: that is a failure of our own.
func RefusalOf(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	var source interface{ Refusal() *Refusal }
	if errors.As(err, &source) {
		return source.Refusal()
	}
	return nil
}

// fault is a FieldError of a malformed call or envelope.
func fault(field, msg, hint string) *FieldError {
	return &FieldError{Reason: ReasonRequest, Field: field, Msg: msg, Hint: hint}
}

// asError keeps a nil *FieldError from becoming an error that is not nil.
func asError(e *FieldError) error {
	if e == nil {
		return nil
	}
	return e
}

func atField(field, msg string) string {
	if field == "" {
		return msg
	}
	return field + ": " + msg
}

// quote shows text of a stranger in a message: printable ASCII alone, and no
// more than 64 bytes of it.
func quote(text string) string {
	const most = 64
	if len(text) <= most {
		return strconv.QuoteToASCII(text)
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(text[:most], "")) + "..."
}
