package anchor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// File keeps checkpoints in a file, a line each: opened to be appended to, and
// synced before a line counts as kept. It is of use on storage that whoever
// holds the log cannot write otherwise: another machine's, write-once, or with
// the file system's append-only attribute.
type File struct{ path string }

// NewFile returns a File. The path must be absolute; an error wraps ErrPlace.
func NewFile(path string) (*File, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("%w: file %q: want an absolute path in its shortest form", ErrPlace, path)
	}
	return &File{path}, nil
}

// Name implements Anchor.
func (f *File) Name() string { return "file " + f.path }

// Send implements Anchor. A line that a crash has cut off is ended first, so
// that it spoils no other.
func (f *File) Send(ctx context.Context, line []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := openFile(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrPlace, f.path)
	}
	text := append(bytes.Clone(line), '\n')
	last := []byte{'\n'}
	if size := info.Size(); size > 0 {
		if _, err := file.ReadAt(last, size-1); err != nil && !errors.Is(err, syscall.EBADF) && !errors.Is(err, io.EOF) {
			return err // EBADF: it may be written only, and nobody can look
		}
	}
	if last[0] != '\n' {
		text = append([]byte{'\n'}, text...)
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

// openFile opens the file to be appended to, and read where that is allowed.
func openFile(path string) (*os.File, error) {
	const flags = os.O_APPEND | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if errors.Is(err, os.ErrPermission) {
		file, err = os.OpenFile(path, os.O_WRONLY|flags, 0o600)
	}
	return file, err
}
