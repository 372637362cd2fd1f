package audit

import "errors"

// The sentinels of this package. Errors of a [Store] wrap the first group.
var (
	// ErrUnwritable means that the store does not take writes now: it is full,
	// read-only, busy for too long, or its disk fails. What was to be written
	// is not there, or cannot be relied on; trying again can help.
	ErrUnwritable = errors.New("audit: unwritable")
	// ErrBusy comes with ErrUnwritable where another process held the store
	// for too long.
	ErrBusy = errors.New("audit: store busy")
	// ErrFull comes with ErrUnwritable where the disk has no room: with room the
	// store goes on by itself.
	ErrFull = errors.New("audit: no room on the disk")
	// ErrCorrupt means that what is stored cannot be what was written.
	ErrCorrupt = errors.New("audit: store corrupt")
	// ErrConflict means that the store has such an event already: a second
	// intent or ending of a call, or a fork of the chain.
	ErrConflict = errors.New("audit: conflicting event")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("audit: closed")

	// ErrFenced means that this process no longer owns the call: its lease ran
	// out, and the call is or will be completed as lost.
	ErrFenced = errors.New("audit: fenced off")
	// ErrNoIntent means that a call is to be completed that was never intended.
	ErrNoIntent = errors.New("audit: no intent")
	// ErrEnded means that the call has its ending already.
	ErrEnded = errors.New("audit: already ended")
	// ErrExists means that the call has its intent already.
	ErrExists = errors.New("audit: already intended")
	// ErrInvalid means that an argument cannot be recorded: no UUIDv7 as id, a
	// level or outcome outside its set, a name that is too long.
	ErrInvalid = errors.New("audit: invalid")
	// ErrTooLarge means that an event would be larger than MaxBody.
	ErrTooLarge = errors.New("audit: too large")
	// ErrMalformed means that stored bytes are no event.
	ErrMalformed = errors.New("audit: malformed event")

	// ErrOldFormat means that an event was written by a version whose hash
	// covers the body itself, so that the body cannot be erased.
	ErrOldFormat = errors.New("audit: event of an older format")
	// ErrOpen means that a call has not ended, so that it cannot be erased.
	ErrOpen = errors.New("audit: call has not ended")
	// ErrNoKey means that there is no key to sign with.
	ErrNoKey = errors.New("audit: no signing key")
	// ErrKey means that a key is not well formed.
	ErrKey = errors.New("audit: bad key")
	// ErrSignature means that a signature is not the key's, or is missing.
	ErrSignature = errors.New("audit: bad signature")

	// ErrNotFound means that no call has that id.
	ErrNotFound = errors.New("audit: no such call")
	// ErrAmbiguous means that several calls' ids begin like that.
	ErrAmbiguous = errors.New("audit: ambiguous id")
	// ErrReceipt means that a receipt cannot be compared: it is of another
	// chain, or not well formed.
	ErrReceipt = errors.New("audit: bad receipt")
)
