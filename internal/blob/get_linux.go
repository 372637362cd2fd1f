package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Get returns a blob that the team has, of at most max bytes. The bytes have
// been digested again. An error wraps ErrNotFound, ErrTooLarge or ErrCorrupt,
// or is the system's.
func (s *Store) Get(team string, d Digest, max int64) ([]byte, error) {
	dir, err := s.teamDir(team)
	if err != nil {
		return nil, err
	}
	data, err := read(filepath.Join(dir, d.String()), max)
	if err != nil {
		return nil, err
	}
	if Sum(data) != d {
		return nil, fmt.Errorf("%w: %s", ErrCorrupt, d)
	}
	return data, nil
}

// read reads a plain file.
func read(path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("blob: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	case info.Size() > max:
		return nil, ErrTooLarge
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return data, nil
}

// Usage returns what a team has.
func (s *Store) Usage(team string) (Usage, error) {
	dir, err := s.teamDir(team)
	if err != nil {
		return Usage{}, err
	}
	return usage(dir)
}

func usage(dir string) (u Usage, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // taken away meanwhile
		}
		u.Blobs++
		u.Bytes += info.Size()
	}
	return u, err
}

// GC takes from every team the blobs that keep does not have for it, and
// removes the bytes that no team has. It waits until nobody holds the store, as
// long as ctx allows. keep is asked once for each team there is; an error of it
// ends the GC, and nothing of that team is taken.
func (s *Store) GC(ctx context.Context, keep func(team string) (map[Digest]bool, error)) (r Report, err error) {
	lock, err := s.lock(ctx, unix.LOCK_EX)
	if err != nil {
		return r, err
	}
	defer lock.Close()
	teams, err := os.ReadDir(filepath.Join(s.dir, "teams"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, t := range teams {
		name, err := hex.DecodeString(strings.TrimPrefix(t.Name(), "t"))
		if err != nil || !strings.HasPrefix(t.Name(), "t") {
			continue // not ours
		}
		kept, err := keep(string(name))
		if err != nil {
			return r, err
		}
		if err := s.release(filepath.Join(s.dir, "teams", t.Name()), kept, &r); err != nil {
			return r, err
		}
	}
	if err := s.discard(); err != nil {
		return r, err
	}
	return r, s.sweep(&r)
}

// release takes away the references that are not kept.
func (s *Store) release(dir string, kept map[Digest]bool, r *Report) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var d Digest
		if d.UnmarshalText([]byte(e.Name())) == nil && kept[d] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
		r.Released++
		s.step("released")
	}
	return nil
}

// discard removes what writers that were killed have left.
func (s *Store) discard() error {
	dir := filepath.Join(s.dir, "new")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	return err
}

// sweep removes the bytes that have one name.
func (s *Store) sweep(r *Report) error {
	root := filepath.Join(s.dir, "data")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if st.Nlink > 1 {
			r.Kept++
			return nil
		}
		r.Blobs++
		r.Bytes += st.Size
		err = os.Remove(path)
		s.step("swept")
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
