package images

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A tree goes when the last of its owners lets it go: several sets of records
// may name it, and none knows of the others. An owner is an empty file.

const ownersDir = "owners"

// setOwner writes an owner into the directory of a tree.
func setOwner(tree int, owner string) error {
	if err := unix.Mkdirat(tree, ownersDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	owners, err := beneath(tree, ownersDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(owners)
	fd, err := unix.Openat(owners, owner, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return unix.Fsync(owners)
}

// disown takes an owner off a tree, of which the caller has the lock, and
// reports whether others are left.
func (s *Store) disown(digest, owner string) (others bool, err error) {
	dir, err := s.inTree(digest, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	owners, err := beneath(dir, ownersDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(owners)
	names, err := namesIn(owners)
	if err != nil {
		return false, err
	}
	mine := false
	for _, name := range names {
		mine, others = mine || name == owner, others || name != owner
	}
	switch {
	case !others:
		return false, nil // it goes with the tree
	case !mine:
		return true, fmt.Errorf("tree %s: %w", digest, ErrAbsent)
	}
	return true, errors.Join(unix.Unlinkat(owners, owner, 0), unix.Fsync(owners))
}

// owned reports whether a tree has an owner.
func owned(trees int, digest, owner string) bool {
	var st unix.Stat_t
	return owner != "" && unix.Fstatat(trees, digest+"/"+ownersDir+"/"+owner, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
