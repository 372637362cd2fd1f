package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// A Staging is a tree in the making. Its methods are called one after another.
// It ends with Keep or Drop.
type Staging struct {
	store *Store
	id    string
	lock  int
	size  Size
	parts map[string]int64 // bytes of it that are the image's, and the listing's
	sum   string           // of the listing, HEX; "": it was not claimed
}

// Size is what a tree takes.
type Size struct {
	Bytes   int64 // on disk
	Entries int64 // of its directory, itself included; 0 where there is none
}

// Stage makes a staging that belongs to uid. id has passed wire.IsID. An id
// that another has is ErrTaken.
func (s *Store) Stage(id string, uid int) (*Staging, error) {
	st, dir, err := s.stage(id)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	err = unix.Mkdirat(dir, id, 0o700)
	if err == nil {
		err = unix.Fchownat(dir, id, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		return st, nil
	}
	if errors.Is(err, fs.ErrExist) { // of a launcher that is dead, and not swept yet
		Unlock(st.lock)
		return nil, fmt.Errorf("staging %s: %w", id, ErrTaken)
	}
	return nil, errors.Join(fmt.Errorf("staging %s: %w", id, err), st.Drop())
}

// stage locks an id and opens the directory of all stagings.
func (s *Store) stage(id string) (*Staging, int, error) {
	lock, err := s.lock(stagingDir+"/"+id, unix.F_WRLCK)
	if errors.Is(err, errLocked) {
		return nil, -1, fmt.Errorf("staging %s: %w", id, ErrTaken)
	}
	if err != nil {
		return nil, -1, err
	}
	dir, err := s.open(stagingDir, true)
	if err != nil {
		Unlock(lock)
		return nil, -1, err
	}
	return &Staging{store: s, id: id, lock: lock}, dir, nil
}

// Mount returns a detached mount of the staging alone, in which nothing is
// executed, and nothing changed where it is for reading. The descriptor is the
// caller's.
func (st *Staging) Mount(reading bool) (int, error) {
	dir, err := st.store.open(stagingDir, false)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	fd, err := beneath(dir, st.id, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	mount, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("staging: open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE}
	if reading {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(mount)
		return -1, fmt.Errorf("staging: mount attributes: %w", err)
	}
	return mount, nil
}

// Claim takes the staging from its unpacker, which has ended: everything is
// root's after it, and is what an unpacker may make, within the bounds; anybody
// who gets there may read it. most counts the bytes of all and the entries of
// the directory. What is more or else is ErrUnfit.
func (st *Staging) Claim(most Size) (Size, error) {
	dir, err := st.store.open(stagingDir, false)
	if err != nil {
		return Size{}, err
	}
	defer unix.Close(dir)
	if err := unix.Fchownat(dir, st.id, 0, 0, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Size{}, fmt.Errorf("claim: %w", err)
	}
	w := claim{most: most, parts: map[string]int64{}, stop: st.store.stop}
	if err := w.top(dir, st.id); err != nil {
		return Size{}, fmt.Errorf("claim: %w", err)
	}
	if st.sum, err = st.listed(dir); err != nil {
		return Size{}, fmt.Errorf("claim: %w", err)
	}
	st.size, st.parts = w.size, w.parts
	return w.size, nil
}

// listed opens what was claimed to who reads it, and returns the digest of the
// listing.
func (st *Staging) listed(stagings int) (string, error) {
	fd, err := beneath(stagings, st.id, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	list, err := beneath(fd, listFile, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(list), listFile)
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil { // the unpacker's limit of a file's size bounds it
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), unix.Fchmod(fd, 0o755)
}

// Digest is that of the listing, HEX, of a claimed staging: the only one under
// which it is kept. That the listing is the tree's is for the caller to see to.
func (st *Staging) Digest() string { return st.sum }

// Keep puts a claimed staging into the store, under its digest. It returns when
// the tree is on the disk. Where the tree is there already it is given the forms
// that it has not, and the rest of the staging is dropped. Another digest is
// ErrUnfit.
func (st *Staging) Keep(digest, owner string) error {
	if st.sum == "" || digest != st.sum {
		return fmt.Errorf("keep: the listing's digest is another: %w", ErrUnfit)
	}
	staging, err := st.store.open(stagingDir, false)
	if err != nil {
		return err
	}
	defer unix.Close(staging)
	trees, err := st.store.open(treesDir, true)
	if err != nil {
		return err
	}
	defer unix.Close(trees)
	if err := st.finish(staging, owner); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	err = unix.Renameat2(staging, st.id, trees, digest, unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(st.join(staging, digest, owner), st.Drop())
	}
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	Unlock(st.lock)
	return sync(trees, staging)
}

// finish writes what is known of the tree beside it, and everything to the disk.
func (st *Staging) finish(staging int, owner string) error {
	dir, err := beneath(staging, st.id, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, keptFile, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(note(fd, st.size), setOwner(dir, owner), unix.Syncfs(dir))
}

// note writes what a tree takes, and closes the file.
func note(fd int, size Size) error {
	f := os.NewFile(uintptr(fd), keptFile)
	_, err := fmt.Fprintf(f, "%d %d\n", size.Bytes, size.Entries)
	return errors.Join(err, f.Close())
}

// join gives a tree of the store an owner more, and those of its forms that the
// staging has and the tree has not: what was made as an image alone is a
// directory too from then on. Everything of the staging is on the disk.
func (st *Staging) join(stagings int, digest, owner string) error {
	lock, err := st.store.Use(digest) // nobody takes it out meanwhile
	if err != nil {
		return err
	}
	defer Unlock(lock)
	to, err := st.store.inTree(digest, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	from, err := beneath(stagings, st.id, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if err := st.addForms(from, to); err != nil {
		return err
	}
	return setOwner(to, owner)
}

// addForms moves the forms over that are not there.
func (st *Staging) addForms(from, to int) error {
	var more Size
	for _, form := range []struct {
		name string
		size Size
	}{{rootDir, Size{st.size.Bytes - st.parts[erofsFile] - st.parts[listFile], st.size.Entries}}, {erofsFile, Size{Bytes: st.parts[erofsFile]}}} {
		err := unix.Renameat2(from, form.name, to, form.name, unix.RENAME_NOREPLACE)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue // it is there, or it was not made
		}
		if err != nil {
			return err
		}
		more.Bytes, more.Entries = more.Bytes+form.size.Bytes, more.Entries+form.size.Entries
	}
	if more == (Size{}) {
		return nil
	}
	kept, _, err := keptOf(to)
	if err != nil {
		return err
	}
	const next = keptFile + ".next"
	fd, err := unix.Openat(to, next, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := note(fd, Size{kept.Bytes + more.Bytes, kept.Entries + more.Entries}); err != nil {
		return err
	}
	return errors.Join(unix.Renameat(to, next, to, keptFile), sync(to, from))
}

// Drop removes the staging and ends it. What cannot be removed now is swept.
func (st *Staging) Drop() error {
	defer Unlock(st.lock)
	dir, err := st.store.open(stagingDir, false)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return st.store.remove(dir, st.id)
}

// Sweep removes the stagings whose makers are dead.
func (s *Store) Sweep() error {
	dir, err := s.open(stagingDir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !wire.IsID(name) {
			continue // it is not ours
		}
		lock, err := s.lock(stagingDir+"/"+name, unix.F_WRLCK)
		if errors.Is(err, errLocked) {
			continue
		}
		if err == nil {
			err = s.remove(dir, name)
			Unlock(lock)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// namesIn returns the names in a directory of ours.
func namesIn(dir int) ([]string, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "names")
	defer f.Close()
	return f.Readdirnames(-1)
}
