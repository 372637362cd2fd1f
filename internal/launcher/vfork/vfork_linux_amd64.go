package vfork

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported says whether Start works on this architecture.
const Supported = true

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// clone3 makes the system call and returns twice; see vfork_linux_amd64.s.
func clone3(args unsafe.Pointer, size uintptr) (pid, errno uintptr)

// cloneArgs is the kernel's struct clone_args.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// Start runs the program in a new child with the given new namespaces
// (CLONE_NEW*), in the cgroup behind the directory descriptor cgroup (-1: the
// caller's; version 2 only). It must be called on the thread whose namespaces
// and credentials the child is to inherit, and returns when the child has
// exec'd. The pidfd is the caller's.
//
// An error is a *StepError for a step that failed, or clone3's; either way no
// child is left.
func (p *Program) Start(namespaces uint64, cgroup int) (pid, pidfd int, err error) {
	fd := int32(-1)
	args := &cloneArgs{
		flags:      namespaces | unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidfd:      uint64(uintptr(unsafe.Pointer(&fd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if cgroup >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(cgroup)
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(args)
	pins.Pin(&fd)
	p.failed = -1
	child, errno := p.fork(args)
	runtime.KeepAlive(p)
	if errno != 0 {
		return 0, -1, fmt.Errorf("vfork: clone3: %w", syscall.Errno(errno))
	}
	if p.failed >= 0 {
		reap(int(child))
		unix.Close(int(fd))
		return 0, -1, &StepError{p.failed, p.steps[p.failed].name, syscall.Errno(p.errno)}
	}
	return int(child), int(fd), nil
}

func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

//go:norace
//go:noinline
//go:nosplit
func (p *Program) fork(args *cloneArgs) (pid, errno uintptr) {
	runtimeBeforeFork()
	pid, errno = clone3(unsafe.Pointer(args), unsafe.Sizeof(*args))
	if errno != 0 || pid != 0 {
		runtimeAfterFork()
		return pid, errno
	}
	p.child()
	return 0, 0
}

// child runs the steps. It never returns: the last step is the exec.
//
//go:norace
//go:noinline
//go:nosplit
func (p *Program) child() {
	runtimeAfterForkInChild()
	for i := range p.steps {
		s := &p.steps[i]
		a := &s.args
		for k := range s.from {
			if s.from[k] != 0 {
				a[k] = p.regs[s.from[k]&(registers-1)]
			}
		}
		r, _, e := syscall.RawSyscall6(s.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if e != 0 && !s.ignore {
			p.errno = uintptr(e)
			p.failed = i
			break
		}
		if s.to != 0 {
			p.regs[s.to&(registers-1)] = r
		}
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 125, 0, 0)
	}
}
