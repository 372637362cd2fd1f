package envelope

import "slices"

// The kinds of events that are no ceiling: what a program did that looks like a
// try to get out of its cell. Each of them was held back, and a program may have
// done it without ill will; who operates the host should look.
const (
	// SignAddress is a denied connection to an address that is not public: of
	// the host, of its networks, of a cloud's metadata service.
	SignAddress = "address"
	// SignSyscall is a system call that cells do not have, and that ended the
	// program.
	SignSyscall = "syscall"
	// SignGuest is what a cell's own guest did on its channel that no guest of
	// ours does: it was taken over.
	SignGuest = "guest"
	// SignOutput is a named output that was something else than a file, or that
	// the cell gave without being asked.
	SignOutput = "output"
	// SignTree is what became of a tree's guarded places, or names in it that no
	// file may have.
	SignTree = "tree"
)

// Signs are the kinds that are no ceiling.
func Signs() []string { return []string{SignAddress, SignSyscall, SignGuest, SignOutput, SignTree} }

// Sign reports whether the event is no ceiling, but looks like a try to get out.
func (e *Event) Sign() bool { return slices.Contains(Signs(), e.Kind) }
