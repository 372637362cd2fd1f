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
		t.serve()
	}()
	return t
}

func (t *thread) serve() {
	for f := range t.work {
		f()
	}
}

// newPassingThread is newThread for one that ends before we do.
func newPassingThread() *thread {
	t := &thread{work: make(chan func())}
	go onOwnThread(t.serve)
	return t
}

// do runs f on the thread and returns its error.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.work <- func() { done <- f() }
	return <-done
}

// onOwnThread runs f on a thread that ends with it, wherever it has gone by
// then: no other code of ours is ever there.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread of a process does not end with its goroutine. It
			// is held here, so that it cannot be the other one.
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f() // never unlocked: the thread ends with the goroutine
	}()
	<-done
}

// netns makes network namespaces ahead of the cells that need them: making
// one is the slowest single step, and slower still while the kernel takes
// others apart.
type netns struct {
	orders chan struct{} // one token for each that is to be made
	ready  chan prepared
	taken  int
}

// stock is how many namespaces are kept ready by a launcher that has made more
// than one cell.
const stock = 4

type prepared struct {
	fd  int
	err error
}

// newNetns begins with the first namespace at once.
func newNetns() *netns {
	n := &netns{orders: make(chan struct{}, stock+1), ready: make(chan prepared, stock)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for range n.orders {
			fd, err := newNetworkNamespace()
			n.ready <- prepared{fd, err}
		}
	}()
	n.orders <- struct{}{}
	return n
}

// take returns a namespace with its loopback up, for the caller to close. It
// is not safe for concurrent use. A one-shot launcher makes one cell, and more
// namespaces would be made for nothing: the stock is built at the second take.
func (n *netns) take() (int, error) {
	n.taken++
	orders := 1
	switch n.taken {
	case 1:
		orders = 0
	case 2:
		orders = stock + 1 // this one, and those that are kept
	}
	for range orders {
		n.orders <- struct{}{}
	}
	p := <-n.ready
	return p.fd, p.err
}

// newNetworkNamespace makes a namespace on the calling thread, which goes back
// to the one it came from: nothing but the descriptor keeps the new one.
func newNetworkNamespace() (fd int, err error) {
	own := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
	home, err := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open network namespace: %w", err)
	}
	defer unix.Close(home)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("new network namespace: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return -1, fmt.Errorf("loopback up: %w", err)
	}
	if err := setBacklog(ownBacklog); err != nil {
		return -1, err
	}
	if fd, err = unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("open network namespace: %w", err)
	}
	if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("leave the new network namespace: %w", err)
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
