package erofs

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/image/fstree"
)

// A plan is where everything of a tree will stand, made before any of it is
// written: a directory has the numbers of what is in it.
type plan struct {
	next  int64 // the next free byte from meta_blkaddr on
	order []placed
}

// placed is one inode in its place.
type placed struct {
	node   *fstree.Node
	parent *fstree.Node // of a directory
	block  uint32       // the first of its blocks, where it has any
	size   int64        // of its data
	subs   uint32       // directories in a directory
}

// planOf places a tree.
func planOf(root *fstree.Node) *plan {
	entries, _ := fstree.Count(root)
	p := &plan{next: firstInode, order: make([]placed, 0, entries+1)}
	p.add(root, root)
	return p
}

// inBlocks is how many blocks directories and links take.
func (p *plan) inBlocks() (n int64) {
	for i := range p.order {
		if at := &p.order[i]; at.node.Kind != fstree.File {
			n += (at.size - int64(tail(at.size)) + blockSize - 1) >> blockBits
		}
	}
	return n
}

func (p *plan) add(n, parent *fstree.Node) {
	at := placed{node: n, parent: parent, block: noBlock}
	switch n.Kind {
	case fstree.File:
		at.size = n.Size
		if n.Size > 0 {
			at.block = n.Block
		}
	case fstree.Symlink:
		at.size = int64(len(n.Target))
	case fstree.Dir:
		at.size = dirSize(n)
	}
	need := int64(inodeSize)
	if n.Kind != fstree.File {
		need += int64(tail(at.size))
	}
	if p.next&(blockSize-1)+need > blockSize { // neither an inode nor what is behind it crosses a block
		p.next = (p.next + blockSize - 1) &^ (blockSize - 1)
	}
	n.Mark = uint32(p.next >> slotBits)
	p.next += (need + slotSize - 1) &^ (slotSize - 1)
	p.order = append(p.order, at)
	if n.Kind == fstree.Dir {
		p.children(len(p.order)-1, n)
	}
}

func (p *plan) children(at int, dir *fstree.Node) {
	for _, name := range dir.Names() {
		child := dir.Entries[name]
		if child.Kind == fstree.Dir {
			p.order[at].subs++
		}
		if child.Mark == 0 { // not the second name of a file
			p.add(child, dir)
		}
	}
}

// tail is how much of an inode's data stands behind it: what does not fill a
// block, where there is room for it in a block with the inode.
func tail(size int64) int {
	if rest := int(size & (blockSize - 1)); rest <= blockSize-inodeSize {
		return rest
	}
	return 0
}

// blocks writes what directories and links have in blocks.
func (w *Writer) blocks(p *plan) {
	for i := range p.order {
		at := &p.order[i]
		n := at.node
		if n.Kind == fstree.File || at.size < blockSize && tail(at.size) > 0 {
			continue
		}
		at.block = w.Block()
		if n.Kind == fstree.Symlink {
			w.Write([]byte(n.Target))
		} else {
			eachBlock(n, at.parent, func(b []byte) {
				if len(b) == blockSize || tail(at.size) == 0 {
					w.Write(b)
				}
			})
		}
		w.Pad()
	}
}

// inodes writes the inodes, each with what stands behind it.
func (w *Writer) inodes(p *plan) {
	start := w.off
	for i := range p.order {
		at := &p.order[i]
		n := at.node
		w.zeros(int(start + int64(n.Mark)<<slotBits - w.off))
		w.Write(at.inode(uint32(i + 1)))
		switch {
		case n.Kind == fstree.File || tail(at.size) == 0:
		case n.Kind == fstree.Symlink:
			w.Write([]byte(n.Target))
		default:
			eachBlock(n, at.parent, func(b []byte) {
				if len(b) < blockSize {
					w.Write(b)
				}
			})
		}
	}
}

// inode returns the 64 bytes of an inode with the number that programs see
// where numbers have 32 bits:
//
//	format u16, xattrs u16, mode u16, 0 u16, size u64, block u32, ino u32,
//	uid u32, gid u32, mtime u64, mtime_nsec u32, nlink u32, 0 [16]
func (at *placed) inode(ino uint32) []byte {
	const isFile, isDir, isLink = 0o100000, 0o40000, 0o120000
	n, b, le := at.node, make([]byte, inodeSize), binary.LittleEndian
	format, mode, links := uint16(formatInline), uint16(0), n.Links
	switch {
	case n.Kind == fstree.Dir:
		mode, links = isDir|0o755, 2+at.subs
	case n.Kind == fstree.Symlink:
		mode = isLink | 0o777
	case n.Exec:
		mode = isFile | 0o755
	default:
		mode = isFile | 0o644
	}
	if n.Kind == fstree.File || tail(at.size) == 0 {
		format = formatPlain
	}
	le.PutUint16(b[0:], format)
	le.PutUint16(b[4:], mode)
	le.PutUint64(b[8:], uint64(at.size))
	le.PutUint32(b[16:], at.block)
	le.PutUint32(b[20:], ino)
	le.PutUint64(b[32:], uint64(n.Sec))
	le.PutUint32(b[40:], n.Nsec)
	le.PutUint32(b[44:], links)
	return b
}

// dirSize is the size of a directory's data: full blocks, and what the last
// one has.
func dirSize(dir *fstree.Node) (size int64) {
	eachGroup(listed(dir, dir), func(group []dirent, used int) { size += int64(used) })
	return size
}

// A dirent is one name of a directory.
type dirent struct {
	name string
	node *fstree.Node
}

// listed are the names of a directory, with "." and ".." among them, in the
// order of their bytes: readers search in it by halves.
func listed(dir, parent *fstree.Node) []dirent {
	all := make([]dirent, 0, len(dir.Entries)+2)
	all = append(all, dirent{".", dir}, dirent{"..", parent})
	for name, n := range dir.Entries {
		all = append(all, dirent{name, n})
	}
	slices.SortFunc(all, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return all
}

// eachGroup calls f for each block's share of a directory's names, with the
// bytes of it that are used: all of them in every block but the last.
func eachGroup(all []dirent, f func(group []dirent, used int)) {
	for len(all) > 0 {
		n, used := 0, 0
		for n < len(all) && used+direntSize+len(all[n].name) <= blockSize {
			used += direntSize + len(all[n].name)
			n++
		}
		if n < len(all) {
			used = blockSize
		}
		f(all[:n], used)
		all = all[n:]
	}
}

// eachBlock calls f with each block of a directory's data, the last one as
// long as it is:
//
//	nid u64, nameoff u16, type u8, 0 u8   for each name
//	name...                               zeros where more blocks follow
func eachBlock(dir, parent *fstree.Node, f func(b []byte)) {
	types := map[fstree.Kind]byte{fstree.File: 1, fstree.Dir: 2, fstree.Symlink: 7}
	le := binary.LittleEndian
	eachGroup(listed(dir, parent), func(group []dirent, used int) {
		b, nameAt := make([]byte, used), direntSize*len(group)
		for i, d := range group {
			at := b[direntSize*i:]
			le.PutUint64(at, uint64(d.node.Mark))
			le.PutUint16(at[8:], uint16(nameAt))
			at[10] = types[d.node.Kind]
			nameAt += copy(b[nameAt:], d.name)
		}
		f(b)
	})
}
