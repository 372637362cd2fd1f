package cell

import (
	"math"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/gomaxprocs"
)

const (
	// heldBack is how much memory the sentry's own heap may take before its
	// garbage is first collected: several times what it takes to boot and to
	// run something small, and little beside what a sandbox weighs anyway.
	heldBack = 48 << 20

	// moreProcs is how many system calls may wait, beyond the processors'
	// number, before the rest of the sentry waits with them. A thread that
	// blocks in a call keeps its place in the scheduler until a watcher, which
	// sleeps up to 10 ms, takes it away.
	moreProcs = 2
)

// holdCollector puts the first garbage collection off until the heap is
// heldBack. From then on all is as usual.
func holdCollector() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(heldBack)
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(struct{}) {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
	}, struct{}{})
}

// populate has the kernel make at once what a boot writes to in any case, and
// not page by page as it comes.
func populate() {
	const first = 4 << 20 // what the heap grows by
	heap := uintptr(unsafe.Pointer(new([64]byte))) &^ (first - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, heap, first, unix.MADV_POPULATE_WRITE) // an old kernel makes them page by page
}

// widen makes room in the scheduler. It comes after the platform has taken the
// number of processors for the sandbox's.
func widen() { gomaxprocs.Add(moreProcs) }
