package project

import (
	"errors"
	"fmt"

	"github.com/callcell/callcell/internal/render"
)

// The sentinels of this package.
var (
	// ErrUnsupported means that this system has no way to open beneath a
	// directory.
	ErrUnsupported = errors.New("project: trees need Linux 5.6 or newer")
	// ErrBusy means that another process applies changes to the tree.
	ErrBusy = errors.New("project: another process applies changes to this tree")
	// ErrChanging means that a file changed while it was read.
	ErrChanging = errors.New("project: it changes while it is read")
)

// CapError is a tree that is more than may be read.
type CapError struct {
	What string // "more than 12000 files"
	Name string // where it was met; may be ""
	Hint string
}

// Error says what there is too much of, and where.
func (e *CapError) Error() string {
	if e.Name == "" {
		return "the tree has " + e.What
	}
	return fmt.Sprintf("the tree has %s (at %s)", e.What, render.Name(e.Name))
}

// PathError is something in a tree that cannot be read or written.
type PathError struct {
	Op   string // "read", "stage"
	Name string
	Err  error
}

// Error names the file as it may be shown.
func (e *PathError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, render.Name(e.Name), e.Err) }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

// RecoveryError says that changes were applied in part and could not be taken
// back. What was in the tree before is kept.
type RecoveryError struct {
	Names []string
	Kept  string // directory with what was there
	Err   error
}

// Error says which files, and where the old ones are.
func (e *RecoveryError) Error() string {
	shown := make([]string, 0, 4)
	for _, name := range e.Names[:min(len(e.Names), 4)] {
		shown = append(shown, render.Name(name))
	}
	return fmt.Sprintf("%d files could not be put back as they were (%v); what they held is kept in %s: %v", len(e.Names), shown, render.Name(e.Kept), e.Err)
}

// Unwrap returns the cause.
func (e *RecoveryError) Unwrap() error { return e.Err }
