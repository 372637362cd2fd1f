package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Get returns a blob that the team has, of at most max bytes. The bytes have
// been digested again. An error wraps ErrNotFound, ErrTooLarge or ErrCorrupt,
// or is the system's.
func (s *Store) Get(team string, d Digest, max int64) ([]byte, error) {
	r, err := s.Open(team, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.All(max)
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

// GC takes from every team the blobs that it does not keep and that keep does
// not have for it, and removes the bytes that no team has. It waits until nobody
// holds the store, as long as ctx allows. keep is asked once for each team there
// is; an error of it ends the GC, and nothing of that team is taken.
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
		marked, err := s.marked(string(name))
		if err != nil {
			return r, err
		}
		kept, err := keep(string(name))
		if err != nil {
			return r, err
		}
		maps.Copy(marked, kept)
		if err := s.release(filepath.Join(s.dir, "teams", t.Name()), marked, &r); err != nil {
			return r, err
		}
	}
	if err := errors.Join(s.discard(), s.abandoned()); err != nil {
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
		if err := forget(s.sumPath(dir)); err != nil {
			return err
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
