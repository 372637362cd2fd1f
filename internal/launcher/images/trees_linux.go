package images

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// Tree is one tree of the store.
type Tree struct {
	Digest string
	Size
	Dir, EROFS bool
	Kept       int64 // seconds since 1970
	Owned      bool  // by who asks
}

// Trees lists the store, by digest, for an owner or for nobody.
func (s *Store) Trees(owner string) ([]Tree, error) {
	dir, err := s.open(treesDir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	var all []Tree
	for _, name := range names {
		if !wire.IsDigest(name) {
			continue // it is not ours
		}
		t, err := tree(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("tree %s: %w", name, err)
		}
		t.Owned = owned(dir, name, owner)
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Tree) int { return cmp.Compare(a.Digest, b.Digest) })
	return all, nil
}

func tree(trees int, digest string) (Tree, error) {
	t := Tree{Digest: digest}
	dir, err := beneath(trees, digest, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return t, err
	}
	defer unix.Close(dir)
	if t.Size, t.Kept, err = keptOf(dir); err != nil {
		return t, err
	}
	var st unix.Stat_t
	t.Dir = unix.Fstatat(dir, rootDir, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	t.EROFS = unix.Fstatat(dir, erofsFile, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	return t, nil
}

// keptOf is what a tree takes, and since when it is there.
func keptOf(tree int) (size Size, since int64, err error) {
	fd, err := beneath(tree, keptFile, unix.O_RDONLY)
	if err != nil {
		return size, 0, err
	}
	f := os.NewFile(uintptr(fd), keptFile)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return size, 0, err
	}
	if _, err := fmt.Sscanf(string(text), "%d %d\n", &size.Bytes, &size.Entries); err != nil {
		return size, 0, fmt.Errorf("%s: %w", keptFile, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return size, st.Mtim.Sec, err
}

// Open opens a file of a tree for reading. One that is not there is ErrAbsent.
func (s *Store) Open(digest string, file wire.TreeFile) (fd int, size int64, err error) {
	name := map[wire.TreeFile]string{wire.TreeListing: listFile, wire.TreeEROFS: erofsFile}[file]
	fd, err = s.inTree(digest, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrUnfit
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("tree %s: %s: %w", digest, name, err)
	}
	return fd, st.Size, nil
}

// Root opens the directory of a tree, as a place alone. A tree that is not there
// as a directory is ErrAbsent.
func (s *Store) Root(digest string) (int, error) {
	return s.inTree(digest, rootDir, unix.O_PATH|unix.O_DIRECTORY)
}

func (s *Store) inTree(digest, name string, flags uint64) (int, error) {
	dir, err := s.open(treesDir, false)
	if err == nil {
		defer unix.Close(dir)
		var fd int
		if fd, err = beneath(dir, digest+"/"+name, flags); err == nil {
			return fd, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrAbsent
	}
	return -1, fmt.Errorf("tree %s: %s: %w", digest, name, err)
}

// Use keeps a tree from being removed, by any launcher, until the lock that it
// returns is given back with Unlock.
func (s *Store) Use(digest string) (int, error) {
	fd, err := s.lockTree(digest, unix.F_RDLCK)
	if errors.Is(err, errLocked) {
		return -1, fmt.Errorf("tree %s is being removed: %w", digest, ErrAbsent)
	}
	return fd, err
}

// Remove takes an owner off a tree, and the tree out of the store where it has no
// other. One that is in use is ErrBusy, one that is not there, or is not the
// owner's, is ErrAbsent. Where it ends early with another error the tree is
// gone from the store, and what is left of it is swept.
func (s *Store) Remove(digest, owner string) error {
	lock, err := s.lockTree(digest, unix.F_WRLCK)
	if errors.Is(err, errLocked) {
		return fmt.Errorf("tree %s: %w", digest, ErrBusy)
	}
	if err != nil {
		return err
	}
	if others, err := s.disown(digest, owner); others || err != nil {
		Unlock(lock)
		return err
	}
	st, err := s.takeOut(digest)
	Unlock(lock) // whoever keeps it anew has another
	if err != nil {
		return fmt.Errorf("tree %s: %w", digest, err)
	}
	return st.Drop()
}

// takeOut makes a tree a staging.
func (s *Store) takeOut(digest string) (*Staging, error) {
	trees, err := s.open(treesDir, true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(trees)
	st, staging, err := s.stage(newID())
	if err != nil {
		return nil, err
	}
	defer unix.Close(staging)
	err = unix.Renameat2(trees, digest, staging, st.id, unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrAbsent
	}
	if err == nil {
		err = sync(trees, staging)
	}
	if err != nil {
		Unlock(st.lock)
		return nil, err
	}
	return st, nil
}

// newID returns an id that nobody has.
func newID() string {
	b := make([]byte, 18)
	for n := 0; n < len(b); { // a signal may come between
		m, err := unix.Getrandom(b[n:], 0)
		if err != nil && err != unix.EINTR {
			panic("images: getrandom: " + err.Error()) // a kernel without it does not start us
		}
		n += max(m, 0)
	}
	return hex.EncodeToString(b)
}
