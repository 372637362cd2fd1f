// Package vfork starts a process that prepares its own sandbox: it runs a
// list of raw system calls in a child that shares our memory, and ends in an
// exec.
//
// A fork copies page tables, and a Go program inside the sandbox costs more
// to start than the whole sandbox. A child of clone3(CLONE_VM|CLONE_VFORK)
// costs neither: the calling thread is suspended until the child execs, the
// child runs on its stack, and a failed step is reported by plain stores.
//
// # Why this is safe
//
// The child runs Go code, so that code must need nothing of the Go runtime:
// it is nosplit, allocates nothing, takes no lock, touches only memory that
// was prepared before, and makes raw system calls. That is how package
// syscall starts processes; we use the same three hooks by linkname
// (runtime_BeforeFork and its kin block signals around the clone; they are on
// the toolchain's list of names that may be linked, because other isolation
// software depends on them), and a dozen lines of assembly, because the
// syscall package's own vfork stub cannot be linked to. The assembly keeps
// its return address in a register: the child overwrites the stack slot in
// which it was.
//
// The race detector must not instrument the child (norace). Everything whose
// address is in the list is pinned until Start returns.
//
// # What it costs the caller
//
// The thread that calls Start holds its processor until the child execs, and
// a garbage collection that wants to stop the world waits as long. A step
// that blocks blocks the whole process: no step may open a path that a caller
// named.
package vfork
