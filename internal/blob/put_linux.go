package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A Hold keeps GC away: what is put under it stays until it is released, so
// that whoever puts can say meanwhile that it is to stay.
type Hold struct {
	store *Store
	lock  *os.File
}

// Hold waits for a GC that is under way, as long as ctx allows.
func (s *Store) Hold(ctx context.Context) (*Hold, error) {
	f, err := s.lock(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return &Hold{s, f}, nil
}

// Release ends the hold.
func (h *Hold) Release() error { return h.lock.Close() }

// lock takes the store's lock.
func (s *Store) lock(ctx context.Context, how int) (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	if err := flock(ctx, f, how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockEvery is how often a lock that another has is tried again.
const lockEvery = 5 * time.Millisecond

func flock(ctx context.Context, f *os.File, how int) error {
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil || err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		case <-again.C:
		}
	}
}

// Put gives data to a team and returns the digests, in order. When it returns
// nil all of it is durable; on an error some may be there, which GC removes
// unless it is kept. An error wraps ErrQuota or ErrBusy, or is the system's.
func (h *Hold) Put(ctx context.Context, team string, data [][]byte) ([]Digest, error) {
	p, err := h.store.newPut(ctx, team)
	if err != nil {
		return nil, err
	}
	defer p.close()
	digests := make([]Digest, len(data))
	for i, b := range data {
		digests[i] = Sum(b)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.stage(digests[i], int64(len(b)), func() (string, error) { return p.write(b) }); err != nil {
			return nil, err
		}
	}
	return digests, p.publish()
}

// A put is one Put under way. It holds the lock of its team, so that two do not
// go over the quota together.
type put struct {
	s      *Store
	dir    string   // of the team
	lock   *os.File // of the team
	sum    string   // the file of used
	used   Usage
	odd    bool // something of the team's is damaged: used may have it twice
	staged []staged
	known  map[Digest]bool // staged, or there already
}

// staged is a blob that is written and not yet in its place.
type staged struct {
	digest Digest
	path   string // in new; "" where the bytes are in data already
}

func (s *Store) newPut(ctx context.Context, team string) (*put, error) {
	dir, err := s.teamDir(team)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(s.dir, "new"), filepath.Join(s.dir, "data")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("blob: %w", err)
		}
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	p := &put{s: s, dir: dir, lock: lock, sum: s.sumPath(dir), known: map[Digest]bool{}}
	if err = flock(ctx, lock, unix.LOCK_EX); err == nil {
		p.used, err = s.used(dir)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *put) close() {
	for _, s := range p.staged {
		if s.path != "" {
			_ = os.Remove(s.path) // a second name of what is in its place, or of nothing
		}
	}
	p.lock.Close()
}

// stage notes one blob, unless the team has it. Where nobody has it, file is
// the name of a file of its bytes.
func (p *put) stage(d Digest, size int64, file func() (string, error)) error {
	if p.known[d] {
		return nil
	}
	p.known[d] = true
	ref := filepath.Join(p.dir, d.String())
	if has(ref, d) {
		return nil
	}
	if _, err := os.Lstat(ref); err == nil {
		p.odd = true
	}
	p.used.Blobs++
	p.used.Bytes += size
	if p.used.Blobs > p.s.limits.Blobs || p.used.Bytes > p.s.limits.Bytes {
		return fmt.Errorf("%w: at most %d blobs and %d bytes", ErrQuota, p.s.limits.Blobs, p.s.limits.Bytes)
	}
	if has(p.s.dataPath(d), d) {
		p.staged = append(p.staged, staged{digest: d})
		return nil
	}
	path, err := file()
	if path != "" {
		p.staged = append(p.staged, staged{d, path})
	}
	return err
}

// write writes a file of its own.
func (p *put) write(data []byte) (path string, err error) {
	path = filepath.Join(p.s.dir, "new", rand.Text())
	err = os.WriteFile(path, data, 0o600)
	p.s.step("written")
	return path, err
}

// has reports whether the blob at path is whole.
func has(path string, d Digest) bool {
	r, err := open(path, d)
	if err != nil {
		return false
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err == nil
}

// syncEach is up to how many files are synced one by one; more are synced with
// their file system.
const syncEach = 32

// publish makes what was staged durable and then puts it in its place.
func (p *put) publish() error {
	if len(p.staged) == 0 {
		return nil
	}
	var paths []string
	for _, s := range p.staged {
		if s.path != "" {
			paths = append(paths, s.path)
		}
	}
	if err := p.s.sync(paths); err != nil {
		return err
	}
	p.s.step("synced")
	if err := forget(p.sum); err != nil {
		return err
	}
	dirs := map[string]bool{p.dir: true, filepath.Dir(p.dir): true, filepath.Join(p.s.dir, "data"): true}
	for _, s := range p.staged {
		if err := p.place(s); err != nil {
			return err
		}
		dirs[p.s.dataDir(s.digest)] = true
	}
	paths = paths[:0]
	for dir := range dirs {
		paths = append(paths, dir)
	}
	err := p.s.sync(paths)
	p.s.step("published")
	if err == nil && !p.odd {
		p.s.note(p.sum, p.used)
		p.s.step("summed")
	}
	return err
}

// sync makes files, or the names in directories, durable.
func (s *Store) sync(paths []string) error {
	some := paths
	sync := (*os.File).Sync
	if len(paths) > syncEach {
		some, sync = paths[:1], func(f *os.File) error { return unix.Syncfs(int(f.Fd())) }
	}
	for _, path := range some {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("blob: %w", err)
		}
		if err := errors.Join(sync(f), f.Close()); err != nil {
			return fmt.Errorf("blob: %w", err)
		}
	}
	return nil
}

// place gives a blob its two names. A name that leads to other bytes was
// damaged, and leads to these now.
func (p *put) place(s staged) error {
	data, ref := p.s.dataPath(s.digest), filepath.Join(p.dir, s.digest.String())
	if s.path != "" {
		if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
			return err
		}
		if err := link(s.path, data, s.digest); err != nil {
			return err
		}
		p.s.step("placed")
	}
	err := link(data, ref, s.digest)
	p.s.step("granted")
	return err
}

func link(from, to string, d Digest) error {
	err := os.Link(from, to)
	if !errors.Is(err, fs.ErrExist) || has(to, d) {
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return err
	}
	if err := os.Remove(to); err != nil {
		return err
	}
	return os.Link(from, to)
}
