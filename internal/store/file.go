package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callcell/callcell/internal/audit"
)

// prepareFile makes sure that path is a plain file that nobody else can read
// or write, in a directory that nobody else can write, and creates what is
// missing. SQLite gives its -wal and -shm files the same mode.
//
// An existing file is looked at and not opened: closing a descriptor of it
// would drop the locks that this process holds on it.
func prepareFile(path string) error {
	dir := filepath.Dir(path)
	if err := prepareDir(dir); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path, dir); err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrExist) { // another process was first
			info, err = os.Lstat(path)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", audit.ErrUnwritable, err)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return &InsecureError{Path: path, What: "is a symbolic link", Hint: "name the file itself"}
	case !info.Mode().IsRegular():
		return &InsecureError{Path: path, What: "is not a regular file", Hint: "name another one"}
	case info.Mode().Perm()&0o077 != 0:
		return &InsecureError{Path: path, What: "is open to others", Hint: "chmod 600 " + path}
	case !ownedByUs(info):
		return &InsecureError{Path: path, What: "belongs to another user", Hint: "run as that user", Foreign: true}
	}
	return nil
}

func prepareDir(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = syncDir(filepath.Dir(dir))
		}
		if err == nil {
			info, err = os.Stat(dir)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", audit.ErrUnwritable, err)
	case !info.IsDir():
		return &InsecureError{Path: dir, What: "is not a directory", Hint: "name another one"}
	case info.Mode().Perm()&0o022 != 0:
		return &InsecureError{Path: dir, What: "can be written by others", Hint: "use a directory of your own, chmod 700"}
	case !ownedByUs(info) && !ownedByRoot(info):
		return &InsecureError{Path: dir, What: "belongs to another user", Hint: "use a directory of your own", Foreign: true}
	}
	return nil
}

// create makes the empty file and its directory entry durable.
func create(path, dir string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
