package project

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// beneath opens a name below a directory: no link is followed anywhere on the
// way, no other file system is entered, nothing above is reached.
func beneath(dir int, name string, flags uint64, mode uint64) (int, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	how := unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Mode: mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err == unix.ENOSYS:
			return -1, ErrUnsupported
		}
		return fd, err
	}
}

// openRoot opens the directory that somebody names, who may name it by a link.
func openRoot(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// openRegular opens a regular file below dir for reading. What it is is looked
// at before it is opened: opening a device or a FIFO does something.
func openRegular(dir int, name string) (*os.File, *unix.Stat_t, error) {
	var st unix.Stat_t
	at, err := beneath(dir, name, unix.O_PATH, 0)
	if err != nil {
		return nil, nil, err
	}
	err = unix.Fstat(at, &st)
	unix.Close(at)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errIrregular
	}
	if err != nil {
		return nil, nil, err
	}
	fd, err := beneath(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errIrregular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, &st, nil
}

var errIrregular = errors.New("not a regular file")
