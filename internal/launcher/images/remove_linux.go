package images

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// remove removes a staging, whatever is in it and however deep: directories that
// are not at the top are moved there first, so that none is ever opened but by
// one name. What is left after a failure, or after SIGKILL, is a staging still.
func (s *Store) remove(dir int, id string) error {
	fd, err := beneath(dir, id, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r := remover{top: fd, stop: s.stop}
	for {
		n, err := r.pass(fd)
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.Unlinkat(dir, id, unix.AT_REMOVEDIR)
		}
	}
}

type remover struct {
	top   int
	moved int // numbers the directories that were moved to the top
	stop  func() bool
}

// pass goes over a directory once and returns how many entries it met. At the
// top every directory is emptied and removed; elsewhere it is moved to the top.
func (r *remover) pass(dir int) (met int, err error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), "removed")
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		for _, name := range names {
			met++
			if err := r.entry(dir, name); err != nil {
				return met, err
			}
		}
		if errors.Is(err, io.EOF) {
			return met, nil
		}
		if err != nil {
			return met, err
		}
		if r.stop() {
			return met, ErrStopped
		}
	}
}

func (r *remover) entry(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	if dir != r.top {
		return r.lift(dir, name)
	}
	fd, err := beneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := r.pass(fd)
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
	}
}

// lift moves a directory to the top, under a name that none has there.
func (r *remover) lift(dir int, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(dir, name, r.top, "moved-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}
