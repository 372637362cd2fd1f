package source

import (
	"context"
	"errors"
)

// Kind is a kind of source, as it is written in front of the colon.
type Kind string

// The kinds there are.
const (
	File    Kind = "file"
	Command Kind = "command"
	Env     Kind = "env"
	Vault   Kind = "vault"
	OAuth2  Kind = "oauth2"
)

// Reason is why there is no secret: a word that stays.
type Reason string

// The reasons there are.
const (
	Unconfigured Reason = "unconfigured" // the host has no such source
	Absent       Reason = "absent"       // there is nothing where the source looks
	Denied       Reason = "denied"       // the source will not hand it out
	Unsafe       Reason = "unsafe"       // others can read or change it
	Invalid      Reason = "invalid"      // what is there cannot be used as a secret
	Failed       Reason = "failed"       // the command ended with an error
	Unavailable  Reason = "unavailable"  // the server cannot be reached, or is at fault
	Timeout      Reason = "timeout"      // it took too long
)

// Fault says why a source has no secret to hand out. Error has no hint: it is
// for the edge to print.
type Fault struct {
	Kind   Kind
	Reason Reason
	Msg    string
	Hint   string
}

// Error names the kind of source and the fault.
func (f *Fault) Error() string { return string(f.Kind) + ": " + f.Msg }

// Is reports whether the fault is what target stands for: a Timeout is
// context.DeadlineExceeded. Other errors are not wrapped: their texts may have
// a secret in them, or what an operator keeps to himself.
func (f *Fault) Is(target error) bool {
	return f.Reason == Timeout && target == context.DeadlineExceeded
}

// Retry reports whether trying again can help.
func (f *Fault) Retry() bool { return f.Reason == Unavailable || f.Reason == Timeout }

// FaultOf returns err as the fault that it is, or a general one.
func FaultOf(kind Kind, err error) *Fault {
	var fault *Fault
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return timeout(kind)
	}
	return &Fault{kind, Unavailable, "it failed", "see the log of the source"}
}

func timeout(kind Kind) *Fault {
	return &Fault{kind, Timeout, "it took too long", "see why the source is slow"}
}
