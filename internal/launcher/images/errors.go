package images

import "errors"

// The sentinels of this package.
var (
	// ErrAbsent is a tree that is not in the store, or not in that form.
	ErrAbsent = errors.New("no such tree")
	// ErrBusy is a tree that cells are using.
	ErrBusy = errors.New("cells are using it")
	// ErrUnfit is what an unpacker may not leave.
	ErrUnfit = errors.New("not what an unpacker may make")
	// ErrTaken is an id under which a tree is being made already.
	ErrTaken = errors.New("the id is in use")
	// ErrUnsafe is a directory of the store that others could change.
	ErrUnsafe = errors.New("others can change it")
	// ErrStopped means that the launcher is ending.
	ErrStopped = errors.New("the launcher is ending")
)
