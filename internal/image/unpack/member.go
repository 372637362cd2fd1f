package unpack

import (
	"archive/tar"
	"io"
	"strings"

	"github.com/callcell/callcell/internal/image/fstree"
)

const block = 4 << 10

// member takes one member of the stream. An error that is no *fstree.Error is
// the stream's.
func (u *unpacker) member(hdr *tar.Header, r io.Reader) error {
	if err := u.count(hdr.Name); err != nil {
		return err
	}
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil // of it all that would matter here is of single members
	}
	path, err := fstree.Clean(hdr.Name)
	if err != nil {
		return err
	}
	if hasXattrs(hdr) {
		u.dropped[DroppedXattr]++
	}
	n := &fstree.Node{Links: 1}
	n.SetTime(hdr.ModTime.Unix(), hdr.ModTime.Nanosecond())
	switch hdr.Typeflag {
	case tar.TypeDir:
		return u.dir(path, n)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.regular(path, n, hdr, r)
	case tar.TypeSymlink:
		return u.symlink(path, n, hdr.Linkname)
	case tar.TypeLink:
		return u.hardlink(path, hdr.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return u.drop(path, DroppedDevice)
	case tar.TypeFifo:
		return u.drop(path, DroppedFIFO)
	default:
		return u.drop(path, DroppedOther)
	}
}

func hasXattrs(hdr *tar.Header) bool {
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") || strings.HasPrefix(key, "LIBARCHIVE.xattr.") {
			return true
		}
	}
	return false
}

// count takes one entry of what there may be.
func (u *unpacker) count(name string) error {
	if u.entries++; u.entries > u.o.Entries {
		return fstree.Refuse(fstree.KindEntries, name, "there are more entries than there may be")
	}
	return nil
}

// spend takes what is about to be written of what may be.
func (u *unpacker) spend(path string, bytes int64) error {
	if bytes > u.o.Bytes-u.bytes {
		return fstree.Refuse(fstree.KindBytes, path, "it does not fit into the bytes that are left")
	}
	u.bytes += bytes
	return nil
}

// drop leaves a member out. What had its name before is gone all the same.
func (u *unpacker) drop(path, reason string) error {
	u.dropped[reason]++
	dir, name, err := u.place(path)
	if err != nil {
		return err
	}
	u.gone[strings.Clone(path)] = true
	return u.remove(path, dir, name)
}

// parent returns the directory in which a member stands, and makes what is
// missing on the way.
func (u *unpacker) parent(path string) (*fstree.Node, string, error) {
	if path == "" {
		return nil, "", fstree.Refuse(fstree.KindName, ".", "the root is a directory")
	}
	dir, at := u.root, 0
	for {
		next := strings.IndexByte(path[at:], '/')
		if next < 0 {
			return dir, strings.Clone(path[at:]), nil // what is kept of a name is not the whole path
		}
		name := path[at : at+next]
		at += next + 1
		child := dir.Entries[name]
		switch {
		case child == nil:
			if err := u.count(path); err != nil {
				return nil, "", err
			}
			child = fstree.NewDir()
			if err := u.mkdir(path[:at-1], dir, strings.Clone(name), child); err != nil {
				return nil, "", err
			}
		case child.Kind != fstree.Dir:
			return nil, "", fstree.Refuse(fstree.KindParent, path, "it is below something that is no directory")
		}
		dir = child
	}
}

// place is parent for a member that is no directory.
func (u *unpacker) place(path string) (*fstree.Node, string, error) {
	dir, name, err := u.parent(path)
	if err == nil {
		delete(u.gone, path)
	}
	return dir, name, err
}

// mkdir makes a directory where nothing is.
func (u *unpacker) mkdir(path string, dir *fstree.Node, name string, n *fstree.Node) error {
	dir.Entries[name] = n
	if u.disk == nil {
		return nil
	}
	return u.disk.mkdir(path)
}

func (u *unpacker) dir(path string, like *fstree.Node) error {
	n := u.root
	if path != "" {
		dir, name, err := u.place(path)
		if err != nil {
			return err
		}
		if n = dir.Entries[name]; n == nil || n.Kind != fstree.Dir {
			if err := u.remove(path, dir, name); err != nil {
				return err
			}
			n = fstree.NewDir()
			if err := u.mkdir(path, dir, name, n); err != nil {
				return err
			}
		}
	}
	n.Sec, n.Nsec = like.Sec, like.Nsec
	return nil
}

// remove takes away what has a name, with all that is below it.
func (u *unpacker) remove(path string, dir *fstree.Node, name string) error {
	n := dir.Entries[name]
	if n == nil {
		return nil
	}
	if u.disk != nil {
		if err := u.disk.remove(path, n); err != nil {
			return err
		}
	}
	delete(dir.Entries, name)
	forget(n)
	return nil
}

// forget takes the names of files that go with a node.
func forget(n *fstree.Node) {
	n.Links--
	for _, child := range n.Entries {
		forget(child)
	}
}

func (u *unpacker) symlink(path string, n *fstree.Node, target string) error {
	if err := fstree.CheckTarget(path, target); err != nil {
		return err
	}
	if err := u.spend(path, 4*int64(len(target))); err != nil {
		return err
	}
	dir, name, err := u.place(path)
	if err != nil {
		return err
	}
	if err := u.remove(path, dir, name); err != nil {
		return err
	}
	n.Kind, n.Target = fstree.Symlink, strings.Clone(target) // and not the header that it is a part of
	dir.Entries[name] = n
	if u.disk == nil {
		return nil
	}
	return u.disk.symlink(path, n)
}

// hardlink gives a node one more name. What it names is looked up in the tree:
// no link is followed on the way.
func (u *unpacker) hardlink(path, target string) error {
	to, err := fstree.Clean(target)
	if err != nil {
		return err
	}
	n := u.lookup(to)
	switch {
	case n == nil && u.gone[to]:
		return u.drop(path, DroppedOther)
	case n == nil:
		return fstree.Refuse(fstree.KindLink, path, "it is a link to what is not there")
	case n.Kind == fstree.Dir:
		return fstree.Refuse(fstree.KindLink, path, "it is a hard link to a directory")
	case path == to:
		return nil
	case strings.HasPrefix(to, path+"/"):
		return fstree.Refuse(fstree.KindLink, path, "it takes the place of what it is a link to")
	}
	dir, name, err := u.place(path)
	if err != nil {
		return err
	}
	if err := u.remove(path, dir, name); err != nil {
		return err
	}
	dir.Entries[name] = n
	n.Links++
	if u.disk == nil {
		return nil
	}
	return u.disk.link(to, path)
}

// lookup returns the node of a path, or nil.
func (u *unpacker) lookup(path string) *fstree.Node {
	n := u.root
	if path == "" {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		if n.Kind != fstree.Dir {
			return nil
		}
		if n = n.Entries[name]; n == nil {
			return nil
		}
	}
	return n
}
