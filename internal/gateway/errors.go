package gateway

import (
	"errors"

	"github.com/callcell/callcell/envelope"
)

// The sentinels of this package. Errors of the store wrap those of package
// audit: ErrUnwritable, ErrBusy, ErrCorrupt, ErrConflict, ErrClosed.
var (
	// ErrUnknown means that there is no such team or key.
	ErrUnknown = errors.New("gateway: unknown")
	// ErrExists means that a team of that name is there already.
	ErrExists = errors.New("gateway: exists")
	// ErrInvalid means that a name, a tier or a role is not one. It is a
	// *FieldError.
	ErrInvalid = errors.New("gateway: invalid")
	// ErrFull means that the tier gives a team no more keys, or that the host
	// holds no more teams or keys.
	ErrFull = errors.New("gateway: no room")
	// ErrRevoked means that the key is revoked.
	ErrRevoked = errors.New("gateway: revoked")
	// ErrClosed means that the gateway is closed.
	ErrClosed = errors.New("gateway: closed")
)

// FieldError is ErrInvalid or ErrFull with the field, the fault and the mend.
type FieldError struct {
	Kind  error // ErrInvalid or ErrFull
	Field string
	Msg   string
	Hint  string
}

// Error names the field and the fault.
func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// Unwrap returns the kind.
func (e *FieldError) Unwrap() error { return e.Kind }

// Denial is a call that the gateway does not let in.
type Denial struct {
	Why envelope.Refusal
	// Quiet says that there were many of the kind lately: it is counted, and
	// needs no row of its own.
	Quiet bool
}

// Error names the reason.
func (d *Denial) Error() string { return d.Why.Error() }

// Refusal is what the caller gets.
func (d *Denial) Refusal() *envelope.Refusal { return &d.Why }

// NoRow reports whether the denial is counted and needs no row.
func (d *Denial) NoRow() bool { return d.Quiet }
