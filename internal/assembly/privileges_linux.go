package assembly

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropPrivileges gives up, on every thread and for good, whatever a command
// that was started as root does not need for its user's own files: all
// capabilities but CAP_DAC_OVERRIDE, and the way to new ones. The launcher
// must have been started before. Without root it only closes the way. With
// no_new_privs an exec gains nothing, not even root's: the bounding set has
// nothing left to hold back. In a program built with cgo it does nothing: the
// error is ErrCgo.
func DropPrivileges() error {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		if errno == syscall.ENOTSUP { // Go's own word for it
			return ErrCgo
		}
		return fmt.Errorf("no new privileges: %w", errno)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_DAC_OVERRIDE, Permitted: 1 << unix.CAP_DAC_OVERRIDE}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}
