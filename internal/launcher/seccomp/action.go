//go:build linux

package seccomp

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Action is what the kernel does with a call: the value that a filter
// returns, as in seccomp(2). The zero Action is not valid.
type Action uint32

const (
	// Allow runs the call.
	Allow Action = unix.SECCOMP_RET_ALLOW
	// KillProcess ends the process with SIGSYS.
	KillProcess Action = unix.SECCOMP_RET_KILL_PROCESS
)

// Errno is the Action that answers e without running the call.
func Errno(e unix.Errno) Action {
	return unix.SECCOMP_RET_ERRNO | Action(e)&unix.SECCOMP_RET_DATA
}

// maxErrno is the highest number that the kernel hands on as an error.
const maxErrno = 4095

// valid reports whether a is one of the three kinds above. Errno(0) is not:
// it would answer success for something that was not done.
func (a Action) valid() bool {
	if a == Allow || a == KillProcess {
		return true
	}
	e := a & unix.SECCOMP_RET_DATA
	return a&^unix.SECCOMP_RET_DATA == unix.SECCOMP_RET_ERRNO && e > 0 && e <= maxErrno
}

// String is "allow", "kill", or the name of the error ("EPERM").
func (a Action) String() string {
	switch {
	case a == Allow:
		return "allow"
	case a == KillProcess:
		return "kill"
	case !a.valid():
		return "invalid action 0x" + strconv.FormatUint(uint64(a), 16)
	}
	e := unix.Errno(a & unix.SECCOMP_RET_DATA)
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(e))
}
