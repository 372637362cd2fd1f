package cell

import "context"

// Lister is the optional power of a cell whose working directory can be
// listed. Calls with a tree need it.
type Lister interface {
	// List returns what is below the working directory and is no directory,
	// only after Stop: at most max entries, in no order, and whether there were
	// more, or some that were too deep. It is Get in the order of operations.
	List(ctx context.Context, max int) (entries []Entry, cut bool, err error)
}

// Entry is one thing in the working directory. Its name is the program's bytes,
// which nothing has checked; where the guest has a hand in it, so are the rest.
type Entry struct {
	Name       string
	Regular    bool
	Executable bool  // of a regular file
	Size       int64 // of a regular file, by its length
}
