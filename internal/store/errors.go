package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/callcell/callcell/internal/audit"
)

// The sentinels of this package. Errors of the store's methods wrap those of
// package audit as well: ErrUnwritable, ErrBusy, ErrCorrupt, ErrConflict,
// ErrClosed.
var (
	// ErrNewer means that a newer version has migrated the file. It is a
	// *NewerError.
	ErrNewer = errors.New("store: written by a newer version")
	// ErrInsecure means that others can read or write the file or its
	// directory, or that the file is not a plain one. It is a *InsecureError.
	ErrInsecure = errors.New("store: file not safe to use")
	// ErrHeld means that another daemon has the store.
	ErrHeld = errors.New("store: another daemon serves it")
)

// NewerError says which versions do not fit.
type NewerError struct {
	Path  string
	Found int // the schema version of the file
	Known int // the newest that this program knows
}

// Error names both versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("%v: %s has schema version %d, this program knows %d: use the newer program", ErrNewer, e.Path, e.Found, e.Known)
}

// Is reports whether target is ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// InsecureError says what is wrong with a file or directory, and the mend.
type InsecureError struct {
	Path    string
	What    string
	Hint    string
	Foreign bool // it belongs to another user
}

// Error names the path, the fault and the mend.
func (e *InsecureError) Error() string {
	return fmt.Sprintf("%v: %s %s: %s", ErrInsecure, e.Path, e.What, e.Hint)
}

// Is reports whether target is ErrInsecure.
func (e *InsecureError) Is(target error) bool { return target == ErrInsecure }

// mapped wraps an error of the driver in the sentinel that callers look for.
// Other errors stay as they are.
func mapped(err error) error {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Code() == lib.SQLITE_IOERR_SHMSIZE { // the index of the write-ahead log has no room to grow
		return fmt.Errorf("%w: %w: %w", audit.ErrUnwritable, audit.ErrFull, err)
	}
	switch failed.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return fmt.Errorf("%w: %w: %w", audit.ErrUnwritable, audit.ErrBusy, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: %w: %w", audit.ErrUnwritable, audit.ErrFull, err)
	case lib.SQLITE_READONLY, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN,
		lib.SQLITE_PERM, lib.SQLITE_AUTH, lib.SQLITE_NOMEM, lib.SQLITE_NOLFS:
		return fmt.Errorf("%w: %w", audit.ErrUnwritable, err)
	case lib.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", audit.ErrConflict, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT, lib.SQLITE_TOOBIG,
		lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_MISMATCH:
		// A plain SQLITE_ERROR is a table or column that is not there: our own
		// SQL is fixed.
		return fmt.Errorf("%w: %w", audit.ErrCorrupt, err)
	}
	return err
}
