package unpack

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
)

// resolve keeps every look-up beneath its start and off every link.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// A disk is the directory root/. Paths are those of the tree, and what is said
// of them (it is there, it is not) is known from the tree.
type disk struct {
	root int
	// The directory that was used last; members of one directory mostly come
	// one after the other.
	path string
	fd   int // -1: none
}

func newDisk(staging int) (*disk, error) {
	if err := unix.Mkdirat(staging, RootName, 0o755); err != nil {
		return nil, fstree.Failed(fstree.KindDisk, "", "make the root", err)
	}
	fd, err := openat2(staging, RootName, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fstree.Failed(fstree.KindDisk, "", "open the root", err)
	}
	return &disk{root: fd, fd: -1}, nil
}

func (d *disk) close() {
	d.forget()
	unix.Close(d.root)
}

// forget closes the directory that was used last.
func (d *disk) forget() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
	d.fd, d.path = -1, ""
}

// dir returns the directory with a path, open until the next call of dir or
// forget.
func (d *disk) dir(path string) (int, error) {
	switch {
	case path == "":
		return d.root, nil
	case path == d.path && d.fd >= 0:
		return d.fd, nil
	}
	d.forget()
	fd, err := openat2(d.root, path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	d.fd, d.path = fd, path
	return fd, nil
}

// at calls f with the directory of a path and its last name.
func (d *disk) at(path, doing string, f func(dir int, name string) error) error {
	above, name := fstree.Split(path)
	dir, err := d.dir(above)
	if err == nil {
		err = f(dir, name)
	}
	if err != nil {
		return fstree.Failed(fstree.KindDisk, path, doing, err)
	}
	return nil
}

func (d *disk) mkdir(path string) error {
	return d.at(path, "make the directory", func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) })
}

func (d *disk) create(path string, exec bool) (f *file, err error) {
	err = d.at(path, "make the file", func(dir int, name string) (err error) {
		f, err = create(dir, name, exec)
		return err
	})
	return f, err
}

// done gives a file its time and closes it.
func (d *disk) done(path string, f *file, n *fstree.Node) error {
	return d.at(path, "end the file", func(dir int, name string) error {
		if err := unix.UtimesNanoAt(dir, name, times(n), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		return f.Close()
	})
}

func (d *disk) symlink(path string, n *fstree.Node) error {
	return d.at(path, "make the link", func(dir int, name string) error {
		if err := unix.Symlinkat(n.Target, dir, name); err != nil {
			return err
		}
		return unix.UtimesNanoAt(dir, name, times(n), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// link gives what has the path from a second one.
func (d *disk) link(from, path string) error {
	above, old := fstree.Split(from)
	source := d.root
	if above != "" {
		fd, err := openat2(d.root, above, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return fstree.Failed(fstree.KindDisk, from, "open the directory", err)
		}
		defer unix.Close(fd)
		source = fd
	}
	return d.at(path, "link", func(dir int, name string) error { return unix.Linkat(source, old, dir, name, 0) })
}

// remove takes away a path that is n, with all that is below it.
func (d *disk) remove(path string, n *fstree.Node) error {
	if n.Kind != fstree.Dir {
		return d.at(path, "remove", func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) })
	}
	for name, child := range n.Entries {
		if err := d.remove(path+"/"+name, child); err != nil {
			return err
		}
	}
	d.forget()
	return d.at(path, "remove", func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

// settle gives every directory its mode and, after all that is in it, its time.
func (d *disk) settle(path string, n *fstree.Node) error {
	for name, child := range n.Entries {
		if child.Kind != fstree.Dir {
			continue
		}
		below := name
		if path != "" {
			below = path + "/" + name
		}
		if err := d.settle(below, child); err != nil {
			return err
		}
	}
	if path == "" {
		path = "."
	}
	return d.at(path, "end the directory", func(dir int, name string) error {
		if err := unix.Fchmodat(dir, name, 0o755, 0); err != nil {
			return err
		}
		return unix.UtimesNanoAt(dir, name, times(n), unix.AT_SYMLINK_NOFOLLOW)
	})
}

func times(n *fstree.Node) []unix.Timespec {
	t := unix.Timespec{Sec: n.Sec, Nsec: int64(n.Nsec)}
	return []unix.Timespec{t, t}
}

func openat2(dir int, path string, flags, mode uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Mode: mode, Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// A file is a regular file that was made here. It stays out of the runtime's
// poller, which would need more system calls.
type file struct{ fd int }

// create makes a file that is not there yet.
func create(dir int, name string, exec bool) (*file, error) {
	mode := uint32(0o644)
	if exec {
		mode = 0o755
	}
	fd, err := openat2(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint64(mode))
	if err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &file{fd}, nil
}

func (f *file) Write(p []byte) (int, error) {
	return whole(p, func(rest []byte, _ int64) (int, error) { return unix.Write(f.fd, rest) })
}

// WriteAt is as io.WriterAt has it.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	return whole(p, func(rest []byte, done int64) (int, error) { return unix.Pwrite(f.fd, rest, off+done) })
}

func whole(p []byte, write func(rest []byte, done int64) (int, error)) (int, error) {
	for done := 0; done < len(p); {
		n, err := write(p[done:], int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return done, err
		default:
			done += n
		}
	}
	return len(p), nil
}

// Close may be called more than once.
func (f *file) Close() error {
	if f.fd < 0 {
		return nil
	}
	fd := f.fd
	f.fd = -1
	return unix.Close(fd)
}
