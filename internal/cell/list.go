package cell

import (
	"context"
	"slices"
)

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

// What is said of a file that met resources.fileSize, where the signal for it
// ended another process than the program, and how many entries of the working
// directory are looked at for one.
const (
	DetailFullFile = "a file is as large as it may be"
	MostLooked     = 4096
)

// HasFull reports whether a file is as long as one may be.
func HasFull(found []Entry, size int64) bool {
	return slices.ContainsFunc(found, func(e Entry) bool { return e.Regular && e.Size == size })
}
