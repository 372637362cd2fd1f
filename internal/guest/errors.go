package guest

import "errors"

// The sentinels of this package.
var (
	// ErrBroken means that the channel is of no use any more: the guest is
	// gone, or said what it must not.
	ErrBroken = errors.New("guest: the channel broke")
	// ErrClosed means that the channel was closed by us.
	ErrClosed = errors.New("guest: closed")
	// ErrVersion means that the guest is of another version. It wraps nothing
	// and comes beside ErrBroken.
	ErrVersion = errors.New("guest: another version")
	// ErrTooLong is a file that has more bytes than were asked for.
	ErrTooLong = errors.New("guest: too long")
)

// FileError is a file or directory that could not be written, read or listed.
// Err is a syscall.Errno as the guest gave it, or ErrTooLong, or
// ErrIrregular.
type FileError struct {
	Name string
	Err  error
}

func (e *FileError) Error() string { return "guest: " + e.Name + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// StartError is a program that has not run: the step, and a syscall.Errno as
// the guest gave it. ENOENT of the step "exec" means that Argv[0] is not there.
type StartError struct {
	Step string
	Err  error
}

func (e *StartError) Error() string { return "guest: " + e.Step + ": " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// ErrIrregular is a name that is something else than a regular file, or has a
// link on its way.
var ErrIrregular = errors.New("guest: not a regular file")
