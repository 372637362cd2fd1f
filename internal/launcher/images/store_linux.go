package images

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Store is the directory of one host's trees. Its methods may be called
// concurrently, on threads that are in the host's mount namespace. It holds no
// descriptor between them.
type Store struct {
	dir  string
	stop func() bool // long work ends early where it says so
}

// New returns the store at dir, an absolute path. Nothing is touched before a
// method needs it. stop is asked during long work, which then ends in
// ErrStopped, and must not block.
func New(dir string, stop func() bool) *Store { return &Store{dir: dir, stop: stop} }

// The directories of a store.
const (
	treesDir   = "trees"
	stagingDir = "staging"
	locksFile  = "locks"
)

// open opens one of the store's directories, in which make makes what is not
// there. Without it the error is fs.ErrNotExist then.
func (s *Store) open(name string, make bool) (int, error) {
	at, err := s.openDir(make)
	if err != nil {
		return -1, fmt.Errorf("image.dir %s: %w", s.dir, err)
	}
	defer unix.Close(at)
	if name == "" {
		return unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	}
	fd, err := step(at, name, make, 0o700)
	if err != nil {
		return -1, fmt.Errorf("image.dir %s/%s: %w", s.dir, name, err)
	}
	return fd, nil
}

// openDir walks to the store from the root on: no link is on the way, and nobody
// but root could put one there.
func (s *Store) openDir(make bool) (int, error) {
	at, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	parts := strings.Split(s.dir[1:], "/")
	for i, name := range parts {
		mode := uint32(0o755)
		if i == len(parts)-1 {
			mode = 0o700
		}
		next, err := step(at, name, make, mode)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// step opens one directory below another, and holds it to what it must be:
// nobody but root changes what is in it, and where mode is 0700 nobody gets
// into it.
func step(at int, name string, make bool, mode uint32) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if err == unix.ENOENT && make {
		if err = unix.Mkdirat(at, name, mode); err == nil || err == unix.EEXIST {
			fd, err = unix.Openat(at, name, flags, 0)
		}
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, fmt.Errorf("%s is a link, or no directory: %w", name, ErrUnsafe)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = check(name, &st, mode)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func check(name string, st *unix.Stat_t, mode uint32) error {
	refused := uint32(0o022)
	if mode == 0o700 {
		refused = 0o077
	}
	sticky := mode != 0o700 && st.Mode&unix.S_ISVTX != 0 // nobody renames there what is not theirs
	if int(st.Uid) != os.Geteuid() || st.Mode&refused != 0 && !sticky {
		return fmt.Errorf("%s must belong to uid %d, with mode %04o: %w", name, os.Geteuid(), mode, ErrUnsafe)
	}
	return nil
}

// beneath opens a name below a directory: no link is followed anywhere on the
// way, no mount is crossed, nothing above is reached.
func beneath(at int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(at, name, &how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// sync writes a directory to the disk.
func sync(fds ...int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, unix.Fsync(fd))
	}
	return errors.Join(errs...)
}
