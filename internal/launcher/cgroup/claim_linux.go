package cgroup

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ClaimName is the directory below a parent by which it is claimed. No group can
// have that name, so that none is taken for it and no sweep removes it; it stays,
// as the parent does.
const ClaimName = "callcell.claim"

// Claim claims the parent for everybody who gives the same owner, for as long as
// the descriptor that it returns is open, in whatever process. Where one that
// lives has claimed it for another owner, it is ErrClaimed; where two do at the
// same moment, it may be that for both.
//
// It is a lock in the kernel's own file system, which is there once: nobody who
// reaches the parent by another path, mount or namespace is overlooked, and a
// claim ends with the processes that have it. Only the user who made the directory
// can open it, and so nobody else can claim.
func (t *Tree) Claim(owner string) (fd int, err error) {
	parent := t.hierarchies[t.carrier("pids")].parent
	err = retry(func() error { return unix.Mkdirat(parent, ClaimName, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make %s: %w", ClaimName, err)
	}
	if fd, err = open(parent, ClaimName, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return -1, fmt.Errorf("open %s: %w", ClaimName, err)
	}
	if err = claim(fd, byteOf(owner)); err != nil {
		return -1, errors.Join(fmt.Errorf("%s: %w", ClaimName, err), unix.Close(fd))
	}
	return fd, nil
}

// claim locks a byte, which others may too, and then wants no other to be
// locked. In this order one of two that come at once sees the other.
func claim(fd int, at int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("others can open it, mode %#o: %w", st.Mode&0o7777, unix.EPERM)
	}
	ours := unix.Flock_t{Type: unix.F_RDLCK, Start: at, Len: 1}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &ours); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	for _, rest := range []unix.Flock_t{{Len: at}, {Start: at + 1}} { // the latter up to the end
		rest.Type = unix.F_WRLCK
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &rest); err != nil {
			return fmt.Errorf("look for locks: %w", err)
		}
		if rest.Type != unix.F_UNLCK {
			return ErrClaimed
		}
	}
	return nil
}

// byteOf is the byte of an owner, never the first one.
func byteOf(owner string) int64 {
	sum := sha256.Sum256([]byte(owner))
	return int64(binary.LittleEndian.Uint64(sum[:])>>2) + 1
}
