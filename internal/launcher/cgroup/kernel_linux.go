package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// kernel is all that this package asks of a cgroup file system: names are
// relative to a directory descriptor. All calls may be made concurrently.
type kernel interface {
	mkdir(dir int, name string) error
	rmdir(dir int, name string) error
	read(dir int, file string, limit int) (string, error) // more than limit bytes is ErrText
	write(dir int, file, value string) error              // the file must exist; one write
	set(dir int, file, value string) (string, error)      // write, and what it reads then
}

const (
	smallFile = 4 << 10  // counters and settings
	procsFile = 1 << 20  // more members than any cell may have
	mountFile = 16 << 20 // mountinfo of a host with very many mounts
)

// cgroupfs is the real one.
type cgroupfs struct{}

func (cgroupfs) mkdir(dir int, name string) error {
	return retry(func() error { return unix.Mkdirat(dir, name, 0o755) })
}

func (cgroupfs) rmdir(dir int, name string) error {
	return retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (cgroupfs) read(dir int, file string, limit int) (string, error) {
	fd, err := open(dir, file, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readAll(fd, limit)
}

func (cgroupfs) write(dir int, file, value string) error {
	fd, err := open(dir, file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Lowering a limit answers EINTR when a signal is pending, and the Go
	// runtime sends itself signals.
	return retry(func() error {
		_, err := unix.Write(fd, []byte(value))
		return err
	})
}

func (cgroupfs) set(dir int, file, value string) (string, error) {
	fd, err := open(dir, file, unix.O_RDWR) // once: it is most of the cost
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	err = retry(func() error {
		_, err := unix.Write(fd, []byte(value))
		return err
	})
	if err != nil {
		return "", err
	}
	return readAll(fd, smallFile)
}

// open opens a file of dir, never through a link and never creating it.
func open(dir int, file string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, file, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// openDir opens a directory as a mere handle; CLONE_INTO_CGROUP takes it too.
func openDir(dir int, name string) (int, error) {
	return open(dir, name, unix.O_PATH|unix.O_DIRECTORY)
}

// readAll reads from the start of a file, whatever its offset.
func readAll(fd, limit int) (string, error) {
	buf := make([]byte, 0, 1024)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := unix.Pread(fd, buf[len(buf):cap(buf)], int64(len(buf)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", err
		}
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return "", fmt.Errorf("%w: more than %d bytes", ErrText, limit)
		}
		if n == 0 || len(buf) < cap(buf)/2 { // there was room for a next line
			return string(buf), nil
		}
	}
}

// readMountinfo reads what the calling thread sees; /proc/self would be what the
// process's first thread sees, which may have another root.
func readMountinfo() (string, error) {
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readAll(fd, mountFile)
}

// subdirs lists the directories in dir.
func subdirs(dir int) ([]string, error) {
	fd, err := open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "parent cgroup")
	defer f.Close()
	entries, err := f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.Type() == fs.ModeDir {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// apply writes a setting and reads it back.
func apply(k kernel, dir int, s setting) error {
	got, err := k.set(dir, s.file, s.value)
	if s.optional && errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &SettingError{File: s.file, Want: s.value, Err: err}
	}
	if got != s.value+"\n" {
		return &SettingError{File: s.file, Want: s.value, Got: clip(got)}
	}
	return nil
}

// retry makes a system call again as long as signals break it off.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// gone tells that an error means: this group has been removed.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}
