package template

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// writeCovers writes the files of ours, those that cover a tree's too.
func (b *builder) writeCovers() error {
	if err := os.Mkdir(b.at(coverDir), 0o755); err != nil {
		return err
	}
	for _, f := range ours() {
		name := f.name
		switch {
		case slices.Contains(covered(), name):
			name = path.Join(coverDir, path.Base(name))
		case within(name, "etc"):
			continue // the tree has its own, or none
		}
		if err := b.write(name, []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// takeTree attaches the entries of the tree, and makes its links.
func (b *builder) takeTree() error {
	for _, d := range b.layout.dirs {
		if err := os.Mkdir(b.at(d), 0o755); err != nil {
			return err
		}
	}
	for _, t := range b.layout.binds {
		if err := b.makePoint(t); err != nil {
			return err
		}
		if err := unix.MoveMount(t.mount, "", unix.AT_FDCWD, b.at(t.at), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "attach", Path: "/" + t.at, Err: err}
		}
	}
	return b.makeLinks(b.layout.links)
}

// makePoint makes what something is attached to, in a directory of ours.
func (b *builder) makePoint(t bind) error {
	if t.dir {
		return os.MkdirAll(b.at(t.at), 0o755)
	}
	if err := os.MkdirAll(path.Dir(b.at(t.at)), 0o755); err != nil {
		return err
	}
	return b.write(t.at, nil, 0o644)
}

// attachPoints attaches what is over the tree, or beside the slice. What it is
// attached to is in the tree, or is made: the layout has seen to it that no link
// is on the way.
func (b *builder) attachPoints() error {
	root, err := unix.Open(b.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, t := range b.layout.points {
		if err := b.attachPoint(root, t); err != nil {
			return &os.PathError{Op: "attach", Path: "/" + t.at, Err: err}
		}
	}
	return nil
}

func (b *builder) attachPoint(root int, t bind) error {
	at, err := beneath(root, t.at, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		if err := b.makePoint(t); err != nil {
			return err
		}
		at, err = beneath(root, t.at, unix.O_PATH)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount := t.mount
	if mount < 0 {
		if mount, err = b.cover(path.Base(t.at)); err != nil {
			return err
		}
		defer unix.Close(mount)
	}
	return unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// cover returns a mount of one of the files that cover a tree's.
func (b *builder) cover(name string) (int, error) {
	fd, err := unix.Open(b.at(path.Join(coverDir, name)), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return detach(fd, false)
}
