package template

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root says what a root is made of beside what every root has. The descriptors
// are of directories of the host, and stay the caller's.
type Root struct {
	Tree   int // what the root is; -1: the slice of this host
	Added  int // what stands at AddedDir; -1: nothing
	Mounts []Mount
}

// Mount is a directory that is seen at Target, an absolute path that nothing
// else of the root is at, above or below.
type Mount struct {
	Dir    int
	Target string
	NoExec bool
}

// PointError is a tree in which something cannot be attached, or that cannot be
// attached itself. The path is the tree's own, and printed with care.
type PointError struct {
	Path string
	Why  string
}

// Error names path and fault.
func (e *PointError) Error() string { return fmt.Sprintf("%.300q: %s", "/"+e.Path, e.Why) }

// The bounds of a layout: entries of a directory that is taken apart, and what
// is attached in all. Every mount is copied for every cell.
const (
	maxEntries = 96
	maxBinds   = 96
)

// LayoutFDs is how many descriptors are open at most while one root is laid
// out.
const LayoutFDs = maxBinds + 64

// A Layout is a root that is laid out: what will be attached where. It holds
// what it attaches as mounts that are attached nowhere, and is made in the
// host's mount namespace; Build attaches them in the new one.
//
// The root itself is a file system of ours. The entries of a tree are attached
// to it one by one, its links made anew: so there is place for what the tree has
// no place for. Where that is further down (/mnt/models in a tree without it),
// the directory above it is taken apart in the same way, and only there.
type Layout struct {
	tree   bool
	dirs   []string // of ours, with the upper ones first
	links  [][2]string
	binds  []bind
	points []bind // attached in the end, over what is there
}

// A bind is a mount and where it is attached.
type bind struct {
	at    string // relative to the root
	mount int    // -1: a file of ours, see covers
	dir   bool
}

// Lay makes the layout of a root. The error is a *PointError where the tree is
// at fault.
func Lay(r Root) (*Layout, error) {
	l := &Layout{tree: r.Tree >= 0}
	err := l.lay(r)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("template: %w", err)
	}
	return l, nil
}

// Close lets go of the mounts. It is idempotent.
func (l *Layout) Close() {
	for _, b := range slices.Concat(l.binds, l.points) {
		if b.mount >= 0 {
			unix.Close(b.mount)
		}
	}
	l.binds, l.points = nil, nil
}

func (l *Layout) lay(r Root) error {
	if l.tree {
		for _, name := range covered() {
			l.points = append(l.points, bind{at: name, mount: -1})
		}
	}
	if r.Added >= 0 {
		if err := l.point(AddedDir[1:], r.Added, false); err != nil {
			return err
		}
	}
	for _, m := range r.Mounts {
		if err := l.point(m.Target[1:], m.Dir, m.NoExec); err != nil {
			return err
		}
	}
	if !l.tree {
		return nil
	}
	return l.expand(r.Tree, "")
}

func (l *Layout) point(at string, dir int, noexec bool) error {
	mount, err := detach(dir, noexec)
	if err == nil {
		l.points = append(l.points, bind{at: at, mount: mount, dir: true})
	}
	return err
}

// detach returns a read-only mount of a file or directory, without what is
// mounted below it, that is attached nowhere.
func detach(fd int, noexec bool) (int, error) {
	mount, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if noexec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(mount)
		return -1, fmt.Errorf("make read-only: %w", err)
	}
	return mount, nil
}

// expand takes one directory of the tree apart. What of the tree is at the place
// of something of ours is passed over.
func (l *Layout) expand(dir int, at string) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	if len(names) > maxEntries {
		return &PointError{at, fmt.Sprintf("more than %d entries: there is no place to attach something in it", maxEntries)}
	}
	for _, name := range names {
		if at == "" && slices.Contains(reserved(), name) {
			continue
		}
		if err := l.entry(dir, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Layout) entry(dir int, name, at string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		return l.entryDir(dir, name, at)
	}
	for _, p := range l.points {
		if p.at == at && !p.dir {
			return nil // ours is in its place
		}
		if within(p.at, at) {
			return &PointError{at, "no directory, and /" + p.at + " is to be attached there"}
		}
	}
	switch kind {
	case unix.S_IFLNK:
		text, err := readlink(dir, name)
		l.links = append(l.links, [2]string{text, at})
		return err
	case unix.S_IFREG:
		fd, err := beneath(dir, name, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return l.bind(fd, at, false)
	}
	return nil // no tree has anything else
}

// entryDir attaches a directory as it is, or takes it apart where it lacks the
// place of something that is attached below it.
func (l *Layout) entryDir(dir int, name, at string) error {
	fd, err := beneath(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	whole := true
	for _, p := range l.points {
		switch {
		case p.at == at && !p.dir:
			return &PointError{at, "a directory, where a file of ours is attached"}
		case p.at != at && within(p.at, at):
			there, err := has(fd, p.at[len(at)+1:], p)
			if err != nil {
				return err
			}
			whole = whole && there
		}
	}
	if whole {
		return l.bind(fd, at, true)
	}
	l.dirs = append(l.dirs, at)
	return l.expand(fd, at)
}

// has reports whether a directory has the place of a point.
func has(dir int, name string, p bind) (bool, error) {
	flags := uint64(unix.O_PATH)
	if p.dir {
		flags |= unix.O_DIRECTORY
	}
	fd, err := beneath(dir, name, flags)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return false, &PointError{p.at, "a link is in the way, or something that is no directory"}
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case p.dir || kind == unix.S_IFREG:
		return true, nil
	case kind == unix.S_IFDIR:
		return false, &PointError{p.at, "a directory, where a file of ours is attached"}
	}
	return false, nil // a link, in the place of which ours is: the directory is taken apart
}

func (l *Layout) bind(fd int, at string, dir bool) error {
	if len(l.binds) == maxBinds {
		return &PointError{at, fmt.Sprintf("more than %d entries in the directories that are taken apart", maxBinds)}
	}
	mount, err := detach(fd, false)
	if err == nil {
		l.binds = append(l.binds, bind{at, mount, dir})
	}
	return err
}

// within reports whether a path is another or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// beneath opens a name below a directory: no link is followed anywhere on the
// way, nothing above is reached.
func beneath(dir int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// list returns the names in a directory, in order, and one more than maxEntries
// at most.
func list(dir int) ([]string, error) {
	fd, err := beneath(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "tree")
	defer f.Close()
	names, err := f.Readdirnames(maxEntries + len(reserved()) + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func readlink(dir int, name string) (string, error) {
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	if n == 0 || n == len(b) {
		return "", &PointError{name, "a link that leads nowhere"}
	}
	return string(b[:n]), nil
}
