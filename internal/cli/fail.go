package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
)

// A failure is what a command ends with other than by a result: a status of
// its own, what went wrong, and what mends it.
type failure struct {
	status    int
	msg, hint string
}

func (e *failure) Error() string { return e.msg }

// usage is a command line that makes no sense.
func usage(msg, hint string) error { return &failure{exitUsage, msg, hint} }

// hostError is a configuration of the host that cannot be used. It is not the
// call that is to be mended.
type hostError struct{ err error }

func (e *hostError) Error() string {
	return "the configuration of this host cannot be used: " + e.err.Error()
}
func (e *hostError) Unwrap() error { return e.err }

// Refusal is what a call gets on such a host.
func (e *hostError) Refusal() *envelope.Refusal {
	r := &envelope.Refusal{Reason: envelope.ReasonSetup, Message: e.Error()}
	var fault *config.Error
	if errors.As(e.err, &fault) {
		r.Hint = fault.Hint
	}
	if errors.Is(e.err, fs.ErrNotExist) {
		r.Hint = "name a file that is there; without --config there are defaults"
	}
	return r
}

// fail says what went wrong, with the hint where there is one, and returns the
// exit status.
func (a *app) fail(err error) int {
	status := exitOwn
	if f := (*failure)(nil); errors.As(err, &f) {
		a.say(f.msg)
		a.hint(f.hint)
		status = f.status
	} else {
		a.say(flat(err))
		a.hint(hintOf(err))
	}
	if a.asked {
		return exitBlocks
	}
	return status
}

func hintOf(err error) string {
	if errors.Is(err, assembly.ErrCgo) {
		return "build it with CGO_ENABLED=0, as make build does"
	}
	if r := envelope.RefusalOf(err); r != nil {
		return r.Hint
	}
	return ""
}

// flat is the text of an error on one line, also where several were joined.
func flat(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
