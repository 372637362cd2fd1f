package inside

import (
	"strings"

	"golang.org/x/sys/unix"
)

// dirs opens names below a directory. It keeps open the directory of the last
// one: files that come one after the other mostly have the same, and the way
// there costs more than the file. It is for one goroutine.
type dirs struct {
	root int
	name string // of the directory that is open, with its slash; "": none is
	fd   int
}

// close closes what is kept open.
func (d *dirs) close() {
	if d.name != "" {
		_ = unix.Close(d.fd) // a path
		d.name = ""
	}
}

// at returns the directory that a name is in and the last part of the name, and
// false where there is no such directory or the name is not one of a file in
// it: why, is said by whoever goes all the way.
func (d *dirs) at(name string) (fd int, last string, ok bool) {
	cut := strings.LastIndexByte(name, '/') + 1
	dir, last := name[:cut], name[cut:]
	switch {
	case last == "" || last == "." || last == "..":
		return -1, "", false
	case dir == "":
		return d.root, last, true
	case dir == d.name:
		return d.fd, last, true
	}
	fd, err := beneath(d.root, dir[:cut-1], unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, "", false
	}
	d.close()
	d.name, d.fd = dir, fd
	return fd, last, true
}

// create makes a file, which is not there yet.
func (d *dirs) create(name string, mode uint32) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	if at, last, ok := d.at(name); ok {
		return openat(at, last, flags, mode)
	}
	return beneath(d.root, name, flags, mode)
}

// file opens a regular file. What kind of file it is is looked at before it is
// opened: opening a device or a fifo does something. It is not looked at again:
// one that took its place since is not waited for, and no more is read of it
// than the length that the file had.
func (d *dirs) file(name string) (fd int, st unix.Stat_t, err error) {
	at, last, ok := d.at(name)
	if !ok {
		return openFile(d.root, name)
	}
	if err := unix.Fstatat(at, last, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, errIrregular
	}
	fd, err = openat(at, last, unix.O_RDONLY, 0)
	if err == unix.ELOOP {
		err = errIrregular
	}
	return fd, st, err
}

// openFile is file where the directory cannot be opened.
func openFile(root int, name string) (fd int, st unix.Stat_t, err error) {
	at, err := within(root, name, unix.O_PATH)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(at)
	if err := unix.Fstat(at, &st); err != nil {
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, errIrregular
	}
	fd, err = within(root, name, unix.O_RDONLY)
	return fd, st, err
}

// openat opens what is in a directory: it follows no link and waits for nobody.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// within is beneath, where a link on the way makes a name irregular.
func within(dir int, name string, flags int) (int, error) {
	fd, err := beneath(dir, name, flags, 0)
	if err == unix.ELOOP || err == unix.EXDEV {
		err = errIrregular
	}
	return fd, err
}
