package images

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errLocked means that another has the lock, whichever it is.
var errLocked = errors.New("locked by another")

// lock takes the lock of a name, for as long as the descriptor that it returns
// is open: a byte of the store's file of locks, by an opening of its own. kind
// is F_WRLCK or F_RDLCK. It does not wait: where another has it the error is
// errLocked.
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
	if err != nil {
		unix.Close(fd)
		if err == unix.EAGAIN || err == unix.EACCES {
			err = errLocked
		}
		return -1, err
	}
	return fd, nil
}

// offset is the byte of a name. Two names that had one would keep each other
// waiting, and no more.
func offset(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.LittleEndian.Uint64(sum[:]) >> 2)
}
