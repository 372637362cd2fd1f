package launcher

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A thread is one locked thread of the launcher that has left the others'
// namespaces. It runs functions one after another and ends with its channel.
type thread struct {
	work chan func()
}

func newThread() *thread {
	t := &thread{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f on the thread and returns its error.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.work <- func() { done <- f() }
	return <-done
}

// netns makes network namespaces ahead of the cells that need them: making
// one is the slowest single step. Its thread moves from one to the next; what
// keeps a namespace is the descriptor that is handed out.
type netns struct {
	thread *thread
	ready  chan prepared
	ahead  bool // prepare the next as soon as one is taken
	taken  bool
}

type prepared struct {
	fd  int
	err error
}

// newNetns begins with the first namespace at once.
func newNetns() *netns {
	n := &netns{thread: newThread(), ready: make(chan prepared, 1)}
	n.prepare()
	return n
}

func (n *netns) prepare() {
	n.thread.work <- func() {
		fd, err := newNetworkNamespace()
		n.ready <- prepared{fd, err}
	}
}

// take returns a namespace with its loopback up, for the caller to close. It
// is not safe for concurrent use. From the second call on one is prepared
// ahead: a one-shot launcher makes one cell, and a second namespace would be
// made for nothing.
func (n *netns) take() (int, error) {
	if n.taken && !n.ahead {
		n.ahead = true
		n.prepare()
	}
	p := <-n.ready
	n.taken = true
	if n.ahead {
		n.prepare()
	}
	return p.fd, p.err
}

// newNetworkNamespace moves the calling thread into a new namespace.
func newNetworkNamespace() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("new network namespace: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return -1, fmt.Errorf("loopback up: %w", err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open network namespace: %w", err)
	}
	return fd, nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var req struct { // struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		rest  [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return errno
	}
	return nil
}
