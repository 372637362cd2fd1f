package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// leasesDir is where the uids of this host are leased, whatever a configuration
// says: with run.dir two that differ could lease one uid to two cells.
const leasesDir = "/run/callcell"

var (
	// errNoUID means that every uid of the range is taken.
	errNoUID = errors.New("every uid of the range is in use")
	// errReplaced means that leases of ours are not seen by who opens the file now.
	errReplaced = errors.New("the file of leases was removed or replaced: end every callcell of this host, and start it again")
)

// uids hands out uids of which no two cells on the host, of whatever daemon and
// whatever configuration, have the same one. A lease is a lock on one byte of a
// file, the one that has the uid for its number; it is held by a descriptor that
// the launcher and the reaper share, so that it ends when the cell's processes
// are dead and not when the launcher is.
type uids struct {
	path        string
	file        int         // as it was at the start; held, so that no other gets its numbers
	made        unix.Stat_t // what that is
	first, size int
	next        int // where the search starts; spreads reuse over the range
}

// newUIDs opens the file of leases in dir. Who could open it could lock bytes of
// it, so that neither the directory nor the file is anybody else's.
func newUIDs(dir string, first, size int) (*uids, error) {
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	u := &uids{path: filepath.Join(dir, "uids"), first: first, size: size, next: os.Getpid() % size}
	var err error
	if u.file, err = unix.Open(u.path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", u.path, err)
	}
	st := &u.made
	if err := unix.Fstat(u.file, st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		unix.Close(u.file)
		return nil, fmt.Errorf("%s must be a file that only this user can open", u.path)
	}
	return u, nil
}

// ownDir makes a directory, or takes one that nobody else can write.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that only this user can write", dir)
	}
	return nil
}

// A lease is one uid, held while its descriptor is open anywhere.
type lease struct {
	id int
	fd int
}

// owner says which file of leases this is, of all that there are while it is open.
func (u *uids) owner() string { return fmt.Sprintf("leases %x %x", u.made.Dev, u.made.Ino) }

// take leases a uid. It is not safe for concurrent use.
func (u *uids) take() (*lease, error) {
	fd, err := u.open()
	if err != nil {
		return nil, err
	}
	for i := range u.size {
		n := (u.next + i) % u.size
		err = lockByte(fd, u.first+n)
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

// lock leases one certain uid, of the range or not.
func (u *uids) lock(id int) (*lease, error) {
	fd, err := u.open()
	if err != nil {
		return nil, err
	}
	if err := lockByte(fd, id); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lease{id: id, fd: fd}, nil
}

// open opens the file of leases anew: a lock belongs to one opening. By its
// name, so that a lease is never taken where nobody else looks for it.
func (u *uids) open() (int, error) {
	fd, err := unix.Open(u.path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		err = errReplaced
	}
	if err != nil {
		return -1, fmt.Errorf("uids: %w", err)
	}
	var now unix.Stat_t
	if err = unix.Fstat(fd, &now); err == nil && (now.Dev != u.made.Dev || now.Ino != u.made.Ino) {
		err = errReplaced
	}
	if err != nil {
		unix.Close(fd)
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
