package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Take reads a blob from r to its end and keeps it for the team. It is durable
// when Take returns nil. Nothing of it is held in memory, and while it comes
// nobody waits: neither GC nor another of the team. An error wraps ErrTooLarge
// where there are more than max bytes, ErrQuota or ErrBusy, or is r's or the
// system's; then the team has nothing that it did not have.
func (s *Store) Take(ctx context.Context, team string, r io.Reader, max int64) (Kept, error) {
	in, err := s.receive()
	if err != nil {
		return Kept{}, err
	}
	defer in.close()
	d, size, err := in.fill(r, max)
	if err != nil {
		return Kept{}, err
	}
	s.step("received")
	hold, err := s.Hold(ctx)
	if err != nil {
		return Kept{}, err
	}
	k, err := hold.adopt(ctx, team, in.path, d, size)
	return k, errors.Join(err, hold.Release())
}

// Keep gives data to a team and keeps it, see Hold.Put.
func (s *Store) Keep(ctx context.Context, team string, data [][]byte) ([]Digest, error) {
	hold, err := s.Hold(ctx)
	if err != nil {
		return nil, err
	}
	digests, err := hold.Put(ctx, team, data)
	if err == nil {
		err = s.mark(team, digests)
	}
	return digests, errors.Join(err, hold.Release())
}

// incoming is a blob that is on its way in. Its file is locked, so that a GC
// knows it from what a process has left that was killed.
type incoming struct {
	path string
	f    *os.File
}

func (s *Store) receive() (*incoming, error) {
	dir := filepath.Join(s.dir, "incoming")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	for {
		path := filepath.Join(dir, rand.Text())
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("blob: %w", err)
		}
		var st unix.Stat_t
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			err = unix.Fstat(int(f.Fd()), &st)
		}
		if err == nil && st.Nlink == 1 {
			return &incoming{path, f}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("blob: %w", errors.Join(err, os.Remove(path)))
		}
		// a GC took it for one that was left, before it was locked
	}
}

// fill reads the blob, and makes it durable.
func (in *incoming) fill(r io.Reader, max int64) (d Digest, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(in.f, h), io.LimitReader(r, max+1))
	switch {
	case err != nil:
		return d, 0, err
	case size > max:
		return d, 0, ErrTooLarge
	}
	return Digest(h.Sum(nil)), size, in.f.Sync()
}

func (in *incoming) close() {
	_ = os.Remove(in.path) // a second name of what is in its place, or of nothing
	in.f.Close()
}

// adopt gives the file of a blob to a team, and keeps it.
func (h *Hold) adopt(ctx context.Context, team, path string, d Digest, size int64) (Kept, error) {
	p, err := h.store.newPut(ctx, team)
	if err != nil {
		return Kept{}, err
	}
	defer p.close()
	if err := p.stage(d, size, func() (string, error) { return path, nil }); err != nil {
		return Kept{}, err
	}
	if err := errors.Join(ctx.Err(), p.publish()); err != nil {
		return Kept{}, err
	}
	if err := h.store.mark(team, []Digest{d}); err != nil {
		return Kept{}, err
	}
	return h.store.stat(team, d)
}

// mark notes that blobs which a team has are to stay. The store is held.
func (s *Store) mark(team string, digests []Digest) error {
	dir, err := s.markDir(team)
	if err != nil {
		return err
	}
	now := time.Now()
	dirs := map[string]bool{dir: true, filepath.Dir(dir): true}
	for _, d := range digests {
		path := markPath(dir, d)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("blob: %w", err)
		}
		dirs[filepath.Dir(path)] = true
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return fmt.Errorf("blob: %w", err)
		}
		if err := os.Chtimes(path, now, now); err != nil { // it may have been there
			return fmt.Errorf("blob: %w", err)
		}
		s.step("marked")
	}
	return s.sync(slices.Collect(maps.Keys(dirs)))
}

// markPath is the mark of a blob in the directory of a team's. There is one more
// for each first byte of a digest, so that a page is read without all others.
func markPath(dir string, d Digest) string { return filepath.Join(dir, d.String()[:2], d.String()) }

// Kept returns the blobs that a team keeps, by digest, after one and at most so
// many; the zero digest is before all others.
func (s *Store) Kept(team string, after Digest, most int) ([]Kept, error) {
	dir, err := s.markDir(team)
	if err != nil {
		return nil, err
	}
	list := []Kept{}
	for first := int(after[0]); first < 256 && len(list) < most; first++ {
		digests, err := marks(dir, byte(first))
		if err != nil {
			return nil, err
		}
		for _, d := range digests {
			if len(list) == most || after != (Digest{}) && bytes.Compare(d[:], after[:]) <= 0 {
				continue
			}
			if k, err := s.stat(team, d); err == nil {
				list = append(list, k)
			} else if !errors.Is(err, ErrNotFound) {
				return nil, err
			} // else it was let go of meanwhile
		}
	}
	return list, nil
}

// marks returns the digests with that first byte that are marked, in order.
func marks(dir string, first byte) (list []Digest, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, hex.EncodeToString([]byte{first}))) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob: %w", err)
	}
	for _, e := range entries {
		var d Digest
		if d.UnmarshalText([]byte(e.Name())) == nil && d[0] == first { // else it is not ours
			list = append(list, d)
		}
	}
	return list, nil
}

// stat says what is known of a blob that a team keeps.
func (s *Store) stat(team string, d Digest) (Kept, error) {
	marks, err := s.markDir(team)
	if err != nil {
		return Kept{}, err
	}
	dir, err := s.teamDir(team)
	if err != nil {
		return Kept{}, err
	}
	mark, err := os.Lstat(markPath(marks, d))
	var ref os.FileInfo
	if err == nil {
		ref, err = os.Lstat(filepath.Join(dir, d.String()))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Kept{}, ErrNotFound
	case err != nil:
		return Kept{}, fmt.Errorf("blob: %w", err)
	case s.old(mark):
		return Kept{}, ErrNotFound
	}
	k := Kept{Digest: d, Bytes: ref.Size(), At: mark.ModTime()}
	if s.limits.Keep > 0 {
		k.Until = k.At.Add(s.limits.Keep)
	}
	return k, nil
}

// old reports whether a mark means nothing any more.
func (s *Store) old(mark os.FileInfo) bool {
	return s.limits.Keep > 0 && time.Since(mark.ModTime()) > s.limits.Keep
}

// OpenKept opens a blob that the team keeps. The caller closes it. The error
// wraps ErrNotFound, also for one that the team has by other means alone.
func (s *Store) OpenKept(team string, d Digest) (*Reader, Kept, error) {
	k, err := s.stat(team, d)
	if err != nil {
		return nil, k, err
	}
	r, err := s.Open(team, d)
	return r, k, err
}

// LetGo ends the keeping of a blob. Its bytes go with the next GC, unless
// something else needs them. An error wraps ErrNotFound, or is the system's.
func (s *Store) LetGo(team string, d Digest) (Kept, error) {
	k, err := s.stat(team, d)
	if err != nil {
		return k, err
	}
	dir, err := s.markDir(team)
	if err == nil {
		err = os.Remove(markPath(dir, d))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, ErrNotFound
	case err != nil:
		return k, fmt.Errorf("blob: %w", err)
	}
	return k, s.sync([]string{filepath.Dir(markPath(dir, d))})
}

// marked returns what a team keeps, and forgets what it has kept for long
// enough. Nobody holds the store.
func (s *Store) marked(team string) (map[Digest]bool, error) {
	kept := map[Digest]bool{}
	dir, err := s.markDir(team)
	if err != nil {
		return nil, err
	}
	for first := range 256 {
		digests, odd := marks(dir, byte(first))
		err = errors.Join(err, odd)
		for _, d := range digests {
			info, odd := os.Lstat(markPath(dir, d))
			if odd != nil {
				continue // let go of meanwhile
			}
			if s.old(info) {
				err = errors.Join(err, os.Remove(markPath(dir, d)))
				continue
			}
			kept[d] = true
		}
	}
	return kept, err
}

// abandoned removes what writers that were killed have left of what they
// received.
func (s *Store) abandoned() error {
	dir := filepath.Join(s.dir, "incoming")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		f, odd := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if odd != nil {
			continue // it has come to its place
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if odd := os.Remove(path); !errors.Is(odd, fs.ErrNotExist) {
				err = errors.Join(err, odd)
			}
		}
		f.Close()
	}
	return err
}
