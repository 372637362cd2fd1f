package blob

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Reader reads one blob, and digests it on the way: the last bytes are handed
// out when all of them are known to be those that were put. It is not safe for
// concurrent use.
type Reader struct {
	f    *os.File
	sum  hash.Hash
	want Digest
	size int64
	left int64
}

// Open opens a blob that the team has, by whatever means. The caller closes it.
// An error wraps ErrNotFound or ErrCorrupt, or is the system's.
func (s *Store) Open(team string, d Digest) (*Reader, error) {
	dir, err := s.teamDir(team)
	if err != nil {
		return nil, err
	}
	return open(filepath.Join(dir, d.String()), d)
}

// open opens a plain file.
func open(path string, d Digest) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("blob: %w", err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: not a regular file", ErrCorrupt)
	default:
		return &Reader{f: f, sum: sha256.New(), want: d, size: info.Size(), left: info.Size()}, nil
	}
	f.Close()
	return nil, err
}

// Size is how many bytes there are.
func (r *Reader) Size() int64 { return r.size }

// Close closes it.
func (r *Reader) Close() error { return r.f.Close() }

// Read implements io.Reader. An error wraps ErrCorrupt, or is the system's.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if r.damaged() {
			return 0, r.corrupt()
		}
		return 0, io.EOF
	}
	n, err := r.f.Read(p[:min(int64(len(p)), r.left)])
	r.sum.Write(p[:n])
	r.left -= int64(n)
	switch {
	case err == io.EOF, err == nil && r.left == 0 && r.damaged():
		return 0, r.corrupt()
	case err != nil:
		return 0, fmt.Errorf("blob: %w", err)
	}
	return n, nil
}

func (r *Reader) damaged() bool { return Digest(r.sum.Sum(nil)) != r.want }

func (r *Reader) corrupt() error { return fmt.Errorf("%w: %s", ErrCorrupt, r.want) }

// All reads the rest, of at most max bytes.
func (r *Reader) All(max int64) ([]byte, error) {
	if r.left > max {
		return nil, ErrTooLarge
	}
	data := make([]byte, r.left)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	if _, err := r.Read(nil); err != io.EOF {
		return nil, err
	}
	return data, nil
}
