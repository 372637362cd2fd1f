package erofs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/callcell/callcell/internal/image/fstree"
)

// ErrImage is what no Writer has written.
var ErrImage = errors.New("not an image as it is written here")

// Bounds are the most that is read of an image.
type Bounds struct {
	Entries int64 // names in it
	Bytes   int64 // of its files, each once however many names it has
}

// Read returns the tree of an image of size bytes, with the digests of its
// files. The image may be anybody's: what a Writer would not have written byte
// for byte, for that tree and those contents, is ErrImage, and so is what is
// over the bounds. Two readers of what it takes cannot find two trees. Blocks
// that belong to nothing are not looked at. Other errors are image's.
func Read(image io.ReaderAt, size int64, most Bounds) (*fstree.Node, error) {
	r := &reading{image: image, most: most, nodes: map[uint64]*fstree.Node{}, at: -1, buf: make([]byte, 256<<10)}
	blocks, err := r.super(size)
	if err != nil {
		return nil, err
	}
	n, err := r.node(firstInode>>slotBits, 0)
	if err != nil {
		return nil, err
	}
	if n.Kind != fstree.Dir {
		return nil, misshapen("its root is no directory")
	}
	return n, r.compare(n, blocks)
}

func misshapen(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrImage}, args...)...)
}

// A reading is one Read.
type reading struct {
	image          io.ReaderAt
	most           Bounds
	meta           int64 // where inodes are counted from, in bytes
	end            int64 // of the image
	entries, bytes int64 // so far
	nodes          map[uint64]*fstree.Node
	at             int64 // of the block of inodes that was read last; -1: none
	block          [blockSize]byte
	buf            []byte
}

// super looks for where things are. The rest of the superblock is compared in
// the end.
func (r *reading) super(size int64) (blocks int64, err error) {
	if size < 2*blockSize || size&(blockSize-1) != 0 || size>>blockBits > math.MaxUint32 {
		return 0, misshapen("%d bytes", size)
	}
	b, err := r.read(0, blockSize)
	if err != nil {
		return 0, err
	}
	super, le := b[superOffset:], binary.LittleEndian
	r.meta, r.end = int64(le.Uint32(super[40:]))<<blockBits, size
	if le.Uint32(super) != magic || int64(le.Uint32(super[36:])) != size>>blockBits || r.meta < blockSize || r.meta >= size {
		return 0, misshapen("its superblock")
	}
	if !zero(b[:superOffset]) {
		return 0, misshapen("bytes before its superblock")
	}
	return size >> blockBits, nil
}

// read reads n bytes, of which there must be as many before the end.
func (r *reading) read(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || r.end > 0 && at > r.end-n {
		return nil, misshapen("%d bytes at %d", n, at)
	}
	b := make([]byte, n)
	_, err := r.image.ReadAt(b, at)
	if err == io.EOF && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// inode returns the bytes of an inode, up to the end of its block.
func (r *reading) inode(nid uint64) ([]byte, error) {
	if nid < firstInode>>slotBits || nid > uint64(r.end-r.meta-inodeSize)>>slotBits {
		return nil, misshapen("an inode %d", nid)
	}
	at := r.meta + int64(nid)<<slotBits
	if block := at &^ (blockSize - 1); block != r.at {
		r.at = -1
		if _, err := r.image.ReadAt(r.block[:], block); err != nil {
			return nil, err
		}
		r.at = block
	}
	b := r.block[at&(blockSize-1):]
	if len(b) < inodeSize {
		return nil, misshapen("an inode over the end of a block")
	}
	return b, nil
}

// node reads an inode and what is below it. A file that was read is the same
// node again.
func (r *reading) node(nid uint64, depth int) (*fstree.Node, error) {
	if n := r.nodes[nid]; n != nil {
		if n.Kind == fstree.Dir {
			return nil, misshapen("a directory with two names")
		}
		n.Links++
		return n, nil
	}
	b, err := r.inode(nid)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := &fstree.Node{Links: 1}
	n.SetTime(int64(le.Uint64(b[32:])), int(le.Uint32(b[40:])))
	size, block := int64(le.Uint64(b[8:])), int64(le.Uint32(b[16:]))<<blockBits
	if size < 0 || size > r.end {
		return nil, misshapen("a size of %d", size)
	}
	r.nodes[nid] = n
	switch le.Uint16(b[4:]) {
	case 0o100644, 0o100755:
		n.Kind, n.Exec = fstree.File, le.Uint16(b[4:]) == 0o100755
		return n, r.file(n, size, block)
	case 0o120777:
		n.Kind = fstree.Symlink
		data, err := r.data(b, size, block, fstree.MaxTarget)
		n.Target = string(data)
		return n, err
	case 0o40755:
		n.Kind, n.Entries = fstree.Dir, map[string]*fstree.Node{}
		data, err := r.data(b, size, block, r.mostOfDir())
		if err != nil {
			return nil, err
		}
		return n, r.dir(n, data, depth)
	}
	return nil, misshapen("a mode of %#o", le.Uint16(b[4:]))
}

// mostOfDir bounds a directory's data: blocks are more than half full.
func (r *reading) mostOfDir() int64 {
	return min(r.end, 2*(r.most.Entries+2)*(direntSize+fstree.MaxName)+blockSize)
}

// data is what a directory or a link has, in blocks and behind its inode b.
func (r *reading) data(b []byte, size, block, most int64) ([]byte, error) {
	behind := int64(tail(size))
	if size == 0 || size > most || int(behind) > len(b)-inodeSize {
		return nil, misshapen("a size of %d", size)
	}
	if size == behind {
		return bytes.Clone(b[inodeSize : inodeSize+behind]), nil
	}
	last := bytes.Clone(b[inodeSize : inodeSize+behind]) // b is of the block that was read last
	data, err := r.read(block, size-behind)
	return append(data, last...), err
}

// file takes the digest of a file's bytes, with zeros behind them up to the end
// of the block.
func (r *reading) file(n *fstree.Node, size, block int64) error {
	n.Size, n.Block = size, uint32(block>>blockBits)
	sum := sha256.New()
	if size > 0 {
		padded := (size + blockSize - 1) &^ (blockSize - 1)
		if r.bytes += padded; r.bytes > r.most.Bytes {
			return misshapen("more than %d bytes", r.most.Bytes)
		}
		if block < blockSize || block > r.meta-padded {
			return misshapen("a file at %d", block)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{io.NewSectionReader(r.image, block, size)}, r.buf); err != nil {
			return err
		}
		rest, err := r.read(block+size, padded-size)
		if err != nil {
			return err
		}
		if !zero(rest) {
			return misshapen("bytes behind a file's end")
		}
	}
	sum.Sum(n.Sum[:0])
	return nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// dir reads the names of a directory, and what they are.
func (r *reading) dir(n *fstree.Node, data []byte, depth int) error {
	if depth > fstree.MaxDepth {
		return misshapen("it is more than %d deep", fstree.MaxDepth)
	}
	for len(data) > 0 {
		b := data[:min(blockSize, len(data))]
		data = data[len(b):]
		if err := r.names(n, b, depth); err != nil {
			return err
		}
	}
	return nil
}

// names reads one block of a directory.
func (r *reading) names(n *fstree.Node, b []byte, depth int) error {
	if len(b) < direntSize {
		return misshapen("a directory of %d bytes", len(b))
	}
	le := binary.LittleEndian
	all := int(le.Uint16(b[8:]))
	if all == 0 || all%direntSize != 0 || all > len(b) {
		return misshapen("names at %d", all)
	}
	for at := 0; at < all; at += direntSize {
		from, to := int(le.Uint16(b[at+8:])), len(b)
		if at+direntSize < all {
			to = int(le.Uint16(b[at+direntSize+8:]))
		}
		if from < all || from > to || to > len(b) {
			return misshapen("a name from %d to %d", from, to)
		}
		name := strings.TrimRight(string(b[from:to]), "\x00")
		if name == "." || name == ".." {
			continue
		}
		if err := r.entry(n, name, le.Uint64(b[at:]), depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) entry(dir *fstree.Node, name string, nid uint64, depth int) error {
	if r.entries++; r.entries > r.most.Entries {
		return misshapen("more than %d entries", r.most.Entries)
	}
	if clean, err := fstree.Clean(name); err != nil || clean != name || strings.Contains(name, "/") || dir.Entries[name] != nil {
		return misshapen("a name of %d bytes", len(name))
	}
	n, err := r.node(nid, depth+1)
	dir.Entries[name] = n
	return err
}

// compare writes all but the contents of files again, and compares.
func (r *reading) compare(root *fstree.Node, blocks int64) error {
	p := planOf(root)
	start := r.meta - p.inBlocks()<<blockBits
	if start < blockSize {
		return misshapen("its directories")
	}
	c := &comparing{image: r.image, at: start, end: r.end}
	w := &Writer{f: c, buf: bufio.NewWriterSize(c, 64<<10), off: start}
	if err := w.finish(p); err != nil {
		return err
	}
	if c.at != r.end || int64(w.Block()) != blocks {
		return misshapen("%d bytes at its end", r.end-c.at)
	}
	return nil
}

// A comparing is a File that is there already: what is written to it must be
// what it has.
type comparing struct {
	image   io.ReaderAt
	at, end int64
	buf     []byte
}

func (c *comparing) Write(p []byte) (int, error) {
	n, err := c.WriteAt(p, c.at)
	c.at += int64(n)
	return n, err
}

// WriteAt is as io.WriterAt has it.
func (c *comparing) WriteAt(p []byte, off int64) (int, error) {
	if off > c.end-int64(len(p)) {
		return 0, misshapen("it ends too early")
	}
	if len(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	if _, err := c.image.ReadAt(c.buf[:len(p)], off); err != nil && err != io.EOF {
		return 0, err
	}
	if !bytes.Equal(p, c.buf[:len(p)]) {
		return 0, misshapen("what is near %d", off)
	}
	return len(p), nil
}
