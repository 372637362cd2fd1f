// Package guarded reads files on which the safety of the host rests: their
// content is obeyed, so nobody but root and the running user may have been
// able to write it. It is small, because the privileged launcher uses it too.
//
// A file is refused where it, or a directory on the way to it (as the path is
// spelt, and as it is with links resolved), belongs to another user or can be
// written by a group or by everybody. A directory with the sticky bit, such as
// /tmp, may be written by all: nobody can replace in it what is not theirs.
package guarded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

var (
	// ErrUnsafe is a file that others could have written.
	ErrUnsafe = errors.New("others can write it")
	// ErrSize is a file over its cap.
	ErrSize = errors.New("too large")
	// ErrKind is something that is not a regular file.
	ErrKind = errors.New("not a regular file")
	// ErrPath is a path that is not absolute.
	ErrPath = errors.New("not an absolute path")
)

// Error says which file or directory is at fault, and how to mend it.
type Error struct {
	Path string
	Hint string
	Err  error // one of this package's, or the system's
}

// Error names the path and the fault.
func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }

// Read returns the content of the file, at most max bytes of it. It is an
// error that is fs.ErrNotExist where there is no such file, and a *Error in
// every case.
func Read(path string, max int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, &Error{Path: f.Name(), Err: bare(err)}
	}
	if int64(len(data)) > max {
		return nil, &Error{Path: f.Name(), Err: ErrSize, Hint: fmt.Sprintf("at most %d bytes", max)}
	}
	return data, nil
}

// Open opens the file for reading, once it and its directories have passed.
// Its errors are those of Read.
func Open(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, &Error{Path: path, Err: ErrPath, Hint: "name the file from / on"}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, &Error{Path: path, Err: bare(err)}
	}
	for _, spelling := range []string{filepath.Clean(path), real} {
		if err := checkParents(spelling); err != nil {
			return nil, err
		}
	}
	f, err := open(real)
	if err != nil {
		return nil, &Error{Path: real, Err: bare(err)}
	}
	if err := checkOpen(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkOpen(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return &Error{Path: f.Name(), Err: bare(err)}
	}
	if !info.Mode().IsRegular() {
		return &Error{Path: f.Name(), Err: ErrKind}
	}
	return check(f.Name(), info)
}

func checkParents(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return &Error{Path: dir, Err: bare(err)}
		}
		if err := check(dir, info); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// check holds what was found at path to the rule of the package doc.
func check(path string, info os.FileInfo) error {
	uid, ok := owner(info)
	if !ok {
		return &Error{Path: path, Err: fmt.Errorf("owner: %w", errors.ErrUnsupported)}
	}
	if uid != 0 && uid != os.Geteuid() {
		return &Error{Path: path, Err: fmt.Errorf("it belongs to uid %d: %w", uid, ErrUnsafe), Hint: "chown it to root or to who runs this"}
	}
	if info.Mode().Perm()&0o022 != 0 && (!info.IsDir() || info.Mode()&os.ModeSticky == 0) {
		return &Error{Path: path, Err: fmt.Errorf("mode %04o: %w", info.Mode().Perm(), ErrUnsafe), Hint: "chmod go-w " + path}
	}
	return nil
}

// bare takes the path off an error, for Error has it.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
