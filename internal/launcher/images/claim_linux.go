package images

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The files of a tree, all that an unpacker may leave; and ours.
const (
	rootDir   = "root"
	erofsFile = "root.erofs"
	listFile  = "tree.json"
	keptFile  = "kept"
)

// MaxDepth is how many names a path of a tree may have. A descriptor is open for
// each while it is claimed.
const MaxDepth = 128

// A claim is one walk over a staging. Nothing is running that could change what
// it looks at.
type claim struct {
	most  Size
	size  Size
	parts map[string]int64 // bytes on the disk of image and listing, of the size
	stop  func() bool
}

// top claims a staging's own entries.
func (c *claim) top(staging int, id string) error {
	fd, err := beneath(staging, id, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), id)
	defer f.Close()
	names, err := f.Readdirnames(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	seen := map[string]bool{}
	for _, name := range names {
		kind := uint32(unix.S_IFREG)
		switch name {
		case rootDir:
			kind = unix.S_IFDIR
		case erofsFile, listFile:
		default:
			return fmt.Errorf("%.80q: %w", name, ErrUnfit)
		}
		before := c.size.Bytes
		if err := c.entry(fd, name, kind); err != nil {
			return err
		}
		seen[name], c.parts[name] = true, c.size.Bytes-before
	}
	if !seen[listFile] || !seen[rootDir] && !seen[erofsFile] {
		return fmt.Errorf("no %s, or nothing that it is of: %w", listFile, ErrUnfit)
	}
	if seen[rootDir] {
		return c.dir(fd, rootDir, MaxDepth+1)
	}
	return nil
}

// entry makes one entry root's, and looks at what it is: of that kind, where it
// is not 0.
func (c *claim) entry(dir int, name string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	is := uint32(st.Mode & unix.S_IFMT)
	fits := is == kind || kind == 0 && (is == unix.S_IFDIR || is == unix.S_IFREG || is == unix.S_IFLNK)
	if !fits || is != unix.S_IFLNK && st.Mode&0o7000 != 0 {
		return fmt.Errorf("%.80q has type and mode %#o: %w", name, st.Mode, ErrUnfit)
	}
	c.size.Bytes += blocks(&st)
	if c.most.Bytes < c.size.Bytes {
		return fmt.Errorf("more than %d bytes: %w", c.most.Bytes, ErrUnfit)
	}
	return unix.Fchownat(dir, name, 0, 0, unix.AT_SYMLINK_NOFOLLOW)
}

// dir claims everything below one directory, itself being done.
func (c *claim) dir(at int, name string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("directories are more than %d deep: %w", MaxDepth, ErrUnfit)
	}
	c.size.Entries++
	fd, err := beneath(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "tree")
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		for _, n := range names {
			if err := c.below(fd, n, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.stop() {
			return ErrStopped
		}
	}
}

func (c *claim) below(dir int, name string, depth int) error {
	if c.size.Entries >= c.most.Entries {
		return fmt.Errorf("more than %d entries: %w", c.most.Entries, ErrUnfit)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := c.entry(dir, name, 0); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return c.dir(dir, name, depth-1)
	}
	c.size.Entries++
	return nil
}
