package unpack

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
)

// checkImage returns the digest of root.erofs, "" where there is none.
func checkImage(staging int, o Options) (string, error) {
	fd, err := openat2(staging, ImageName, unix.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fstree.Failed(fstree.KindDisk, ImageName, "open it", err)
	}
	f := os.NewFile(uintptr(fd), ImageName)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fstree.Failed(fstree.KindForm, ImageName, "look at it", errors.Join(err, errKind))
	}
	return readImage(f, st.Size, o)
}

// errKind is what is neither file, link nor directory, or has another mode than
// they have in a tree.
var errKind = errors.New("not what is in a tree")

// checkDir returns the digest of root/, "" where there is none.
func checkDir(staging int, o Options) (string, error) {
	c := checker{o: o, hash: sha256.New(), buf: make([]byte, 256<<10), files: map[uint64]*fstree.Node{}}
	root, err := c.dir(staging, RootName, "", 0)
	if errors.Is(err, fs.ErrNotExist) && c.entries == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return digestOf(root)
}

// A checker reads one directory.
type checker struct {
	o              Options
	entries, bytes int64
	hash           hash.Hash
	buf            []byte
	files          map[uint64]*fstree.Node // by inode, those with several names
}

// dir reads a directory and all that is below it. path is its name in the tree.
func (c *checker) dir(at int, name, path string, depth int) (*fstree.Node, error) {
	fail := func(doing string, err error) (*fstree.Node, error) {
		return nil, fstree.Failed(fstree.KindDisk, path, doing, err)
	}
	if depth > fstree.MaxDepth {
		return nil, fstree.Refuse(fstree.KindDepth, path, "it is too deep")
	}
	fd, err := openat2(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail("open it", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	n := fstree.NewDir()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if c.entries++; c.entries > c.o.Entries {
				return nil, fstree.Refuse(fstree.KindEntries, path, "there are more entries than there may be")
			}
			name = strings.Clone(name)
			if n.Entries[name], err = c.entry(fd, name, strings.TrimPrefix(path+"/"+name, "/"), depth+1); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return n, nil
		}
		if err != nil {
			return fail("read it", err)
		}
	}
}

func (c *checker) entry(dir int, name, path string, depth int) (*fstree.Node, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, fstree.Failed(fstree.KindDisk, path, "look at it", err)
	}
	switch {
	case st.Mode == unix.S_IFDIR|0o755:
		return c.dir(dir, name, path, depth)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return c.link(dir, name, path)
	case slices.Contains([]uint32{unix.S_IFREG | 0o644, unix.S_IFREG | 0o755}, st.Mode):
		return c.file(dir, name, path, &st)
	}
	return nil, fstree.Failed(fstree.KindForm, path, "look at it", errKind)
}

func (c *checker) link(dir int, name, path string) (*fstree.Node, error) {
	b := make([]byte, fstree.MaxTarget+1)
	got, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return nil, fstree.Failed(fstree.KindDisk, path, "read the link", err)
	}
	return &fstree.Node{Kind: fstree.Symlink, Target: string(b[:got])}, fstree.CheckTarget(path, string(b[:got]))
}

// file takes the digest of a file, once.
func (c *checker) file(dir int, name, path string, st *unix.Stat_t) (*fstree.Node, error) {
	if n := c.files[st.Ino]; n != nil {
		return n, nil
	}
	n := &fstree.Node{Kind: fstree.File, Exec: st.Mode&0o111 != 0, Size: st.Size}
	if st.Size > c.o.Bytes-c.bytes {
		return nil, fstree.Refuse(fstree.KindBytes, path, "it does not fit into the bytes that are left")
	}
	c.bytes += st.Size
	fd, err := openat2(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fstree.Failed(fstree.KindDisk, path, "open it", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	c.hash.Reset()
	read, err := io.CopyBuffer(struct{ io.Writer }{c.hash}, io.LimitReader(f, st.Size), c.buf)
	if err == nil && read != st.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fstree.Failed(fstree.KindDisk, path, "read it", err)
	}
	c.hash.Sum(n.Sum[:0])
	if st.Nlink > 1 {
		c.files[st.Ino] = n
	}
	return n, nil
}
