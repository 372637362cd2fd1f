package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
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

// BecomeUser has a process that was started as root go on as another user, on
// every thread and for good, with no capability and no other group. The launcher
// must have been started before. The state directory must be that user's; where
// it is not there, it is made for him. Without root, or for "", it does nothing.
func BecomeUser(name, state string) error {
	if name == "" || os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("serve.user: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	gid, bad := strconv.Atoi(u.Gid)
	if err = errors.Join(err, bad); err != nil || uid == 0 || gid == 0 {
		return fmt.Errorf("serve.user: %s is root, or no user of this system", name)
	}
	if err := stateOf(state, uid, gid); err != nil {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("serve.user: groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("serve.user: group: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("serve.user: user: %w", err)
	}
	return nil
}

// BecomeOwner is BecomeUser for a command over a daemon's state that root gives:
// what it writes is then where the daemon finds it, and his. A state directory
// that is root's is root's own, and stays so.
func BecomeOwner(name, state string) error {
	if info, err := os.Stat(state); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 {
			return nil
		}
	}
	return BecomeUser(name, state)
}

// stateOf makes the state directory for a user, or fails where it is another's.
func stateOf(dir string, uid, gid int) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = os.Chown(dir, uid, gid)
		}
		return err
	}
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int64(st.Uid) != int64(uid) {
		return fmt.Errorf("serve.user: %s belongs to another user: chown -R %d:%d %s", dir, uid, gid, dir)
	}
	return nil
}
