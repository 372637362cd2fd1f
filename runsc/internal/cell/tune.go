package cell

import (
	"math"
	"runtime"
	"runtime/debug"

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

// widen makes room in the scheduler. It comes after the platform has taken the
// number of processors for the sandbox's.
func widen() { gomaxprocs.Add(moreProcs) }
