package redact

import "errors"

var (
	// ErrShort is a value of less than MinBytes.
	ErrShort = errors.New("too short: masking it would mask ordinary text")
	// ErrRepeats is a value that begins by repeating itself over and over.
	ErrRepeats = errors.New("repeats itself: masking it would mask ordinary text")
	// ErrTooMuch is more than MaxValues or MaxTotal.
	ErrTooMuch = errors.New("more than can be looked for")
	// ErrName is a name that is not 1 to 64 letters, digits, _ and -.
	ErrName = errors.New("not a name")
	// ErrMask is a value that is in every mask there is.
	ErrMask = errors.New("cannot be told from the mask")
	// ErrGone is a value, or a Redactor, that was destroyed.
	ErrGone = errors.New("was destroyed")
	// ErrClosed is a Writer that was closed.
	ErrClosed = errors.New("the writer is closed")
)

// Error says which value cannot be looked for, and why. It never has the
// value.
type Error struct {
	Name string // "" is all of them together
	Err  error  // one of this package's
}

// Error names the value and the fault.
func (e *Error) Error() string {
	if e.Name == "" {
		return "redaction: " + e.Err.Error()
	}
	return "redaction of " + e.Name + ": " + e.Err.Error()
}

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }
