package launcher

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A child is a process of ours that is waited for without one of our threads:
// its pidfd is in the runtime's poller.
type child struct {
	pid int
	f   *os.File // of the pidfd
}

// newChild takes the pidfd over.
func newChild(pid, pidfd int) *child {
	_ = unix.SetNonblock(pidfd, true) // or it is not in the poller, and wait takes a thread
	return &child{pid, os.NewFile(uintptr(pidfd), "process")}
}

func (c *child) close() { c.f.Close() }

// wait returns when the process has ended, and is reaped.
func (c *child) wait() (status syscall.WaitStatus) {
	reap := func(options int) bool {
		for {
			got, err := syscall.Wait4(c.pid, &status, options, nil)
			if err != syscall.EINTR {
				return got != 0 || err != nil
			}
		}
	}
	rc, err := c.f.SyscallConn()
	if err == nil {
		err = rc.Read(func(uintptr) bool { return reap(syscall.WNOHANG) })
	}
	if err != nil {
		reap(0)
	}
	return status
}
