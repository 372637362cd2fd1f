package launcher

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capability is one that the launcher keeps.
type capability struct {
	number int
	why    string
}

// kept are the capabilities without which no cell can be built. The rest is
// given up before the first message is read.
func kept() []capability {
	return []capability{
		{unix.CAP_SYS_ADMIN, "namespaces and mounts"},
		{unix.CAP_SETUID, "the cell's uid"},
		{unix.CAP_SETGID, "the cell's gid"},
		{unix.CAP_SETPCAP, "empty the bounding set"},
		{unix.CAP_CHOWN, "the scratch belongs to the cell"},
		{unix.CAP_FOWNER, "modes of what was given away"},
		{unix.CAP_DAC_OVERRIDE, "read outputs whatever their modes"},
		{unix.CAP_KILL, "end a cell's processes"},
		{unix.CAP_MKNOD, "the five devices of the template"},
		{unix.CAP_NET_ADMIN, "loopback up, and its addresses, in namespaces of cells"},
		{unix.CAP_NET_BIND_SERVICE, "sockets at ports below 1024, in namespaces of cells"},
	}
}

// dropPrivileges gives up, on every thread and for good, the capabilities
// that are not kept, and the way to new ones: with no_new_privs an exec gains
// nothing, not even root's, so that the bounding set has nothing to hold back.
func dropPrivileges() error {
	var keep uint64
	for _, c := range kept() {
		keep |= 1 << c.number
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	for i := range have {
		have[i].Permitted &= uint32(keep >> (32 * i))
		have[i].Effective, have[i].Inheritable = have[i].Permitted, 0
	}
	if err := allThreads("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	return allThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&have[0])), 0)
}

// allThreads makes one system call on every thread. A build with cgo cannot;
// the launcher is built without.
func allThreads(what string, nr, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(nr, a, b, c, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		return fmt.Errorf("%s on every thread: %w: build with CGO_ENABLED=0", what, errors.ErrUnsupported)
	}
	if errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}
