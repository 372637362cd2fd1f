package images

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// errLocked means that another has the lock, whichever it is.
var errLocked = errors.New("locked by another")

// errRemoving is an errLocked of one who has the lock for himself: of a tree, to
// remove it.
var errRemoving = fmt.Errorf("%w for himself", errLocked)

// lookTime is how long a tree's lock is waited for while one who would remove the
// tree has it: only until the tree is taken out, or is found to have more owners.
const lookTime = 5 * time.Second

// lockTree takes the lock of a tree, as lock does. Where one has it who looks
// whether he can remove the tree, it is waited for.
func (s *Store) lockTree(digest string, kind int16) (int, error) {
	for end := time.Now().Add(lookTime); ; time.Sleep(2 * time.Millisecond) {
		fd, err := s.lock(treesDir+"/"+digest, kind)
		if !errors.Is(err, errRemoving) || time.Now().After(end) {
			return fd, err
		}
	}
}

// lock takes the lock of a name, which the caller gives back with Unlock and
// which ends with its process: a byte of the store's file of locks, by an opening
// of its own. kind is F_WRLCK or F_RDLCK. It does not wait: where another has it
// the error is errLocked, and errRemoving too where he has it for himself.
func (s *Store) lock(name string, kind int16) (int, error) {
	dir, err := s.open("", true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, locksFile, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, fmt.Errorf("image.dir %s/%s: %w", s.dir, locksFile, err)
	}
	byteOf := unix.Flock_t{Type: kind, Start: offset(name), Len: 1}
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &byteOf)
	if err == nil {
		return fd, nil
	}
	defer unix.Close(fd)
	if err != unix.EAGAIN && err != unix.EACCES {
		return -1, err
	}
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &byteOf)
	if err == nil && byteOf.Type == unix.F_RDLCK {
		return -1, errLocked
	}
	return -1, errRemoving // or he has just given it back
}

// Unlock gives a lock back that Use returned. A child of vfork that is on its way
// to its program has a copy of the descriptor, with which the lock would stay if
// it were closed only.
func Unlock(fd int) {
	all := unix.Flock_t{Type: unix.F_UNLCK}
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &all) // else it ends with its last holder
	unix.Close(fd)
}

// offset is the byte of a name. Two names that had one would keep each other
// waiting, and no more.
func offset(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.LittleEndian.Uint64(sum[:]) >> 2)
}
