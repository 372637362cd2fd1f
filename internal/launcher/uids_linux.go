package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errNoUID means that every uid of the range is taken.
var errNoUID = errors.New("every uid of the range is in use")

// uids hands out uids of which no two cells on the host, of whatever daemon,
// have the same one. A lease is a lock on one byte of a file; it is held by a
// descriptor that the launcher and the reaper share, so that it ends when the
// cell's processes are dead and not when the launcher is.
type uids struct {
	dir         string
	first, size int
	next        int // where the search starts; spreads reuse over the range
}

func newUIDs(dir string, first, size int) (*uids, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("uids: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, fmt.Errorf("uids: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("uids: %s must be a directory that only this user can write", dir)
	}
	return &uids{dir: dir, first: first, size: size, next: os.Getpid() % size}, nil
}

// A lease is one uid, held while its descriptor is open anywhere.
type lease struct {
	id int
	fd int
}

// take leases a uid. It is not safe for concurrent use.
func (u *uids) take() (*lease, error) {
	fd, err := u.open()
	if err != nil {
		return nil, err
	}
	for i := range u.size {
		n := (u.next + i) % u.size
		err = lockByte(fd, n)
		if err == nil {
			u.next = (n + 1) % u.size
			return &lease{id: u.first + n, fd: fd}, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			break
		}
		err = errNoUID
	}
	unix.Close(fd)
	return nil, fmt.Errorf("uids: %w", err)
}

// open opens the file of locks anew: a lock belongs to one opening.
func (u *uids) open() (int, error) {
	fd, err := unix.Open(filepath.Join(u.dir, "uids"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, fmt.Errorf("uids: %w", err)
	}
	return fd, nil
}

func lockByte(fd, n int) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: int64(n), Len: 1}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
}

// end gives the uid back, whoever else still has the descriptor: nothing is
// left of the cell.
func (l *lease) end() {
	if l.fd >= 0 {
		all := unix.Flock_t{Type: unix.F_UNLCK, Whence: 0}
		_ = unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_SETLK, &all) // else it ends with its last holder
	}
	l.close()
}

// close ends our part of the lease.
func (l *lease) close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}
