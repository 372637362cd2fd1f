package erofs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/callcell/callcell/internal/image/fstree"
)

// ErrTooLarge is returned for more than 2^32 blocks of 4 KiB.
var ErrTooLarge = errors.New("erofs: more than 16 TiB")

// A Writer writes one image: Write and Pad for each file, then Finish. It is
// for one goroutine.
type Writer struct {
	f   File
	buf *bufio.Writer
	off int64 // bytes given to buf
	err error // the first one
}

// File is where an image is written: from its start on, and once more there at
// the end.
type File interface {
	io.Writer
	io.WriterAt
}

// NewWriter begins an image in an empty file.
func NewWriter(f File) *Writer {
	w := &Writer{f: f, buf: bufio.NewWriterSize(f, 1<<20)}
	w.zeros(blockSize)
	return w
}

// Block returns the block in which the next file begins. It may be called
// before the file's first Write, and means nothing between a Write and Pad.
func (w *Writer) Block() uint32 { return uint32(w.off >> blockBits) }

// Write appends bytes of the file that is being written.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.off+int64(len(p)) > 1<<(32+blockBits)-blockSize {
		w.err = ErrTooLarge
		return 0, w.err
	}
	n, err := w.buf.Write(p)
	w.off += int64(n)
	w.err = err
	return n, err
}

// Pad ends a file.
func (w *Writer) Pad() error {
	w.zeros(int(-w.off & (blockSize - 1)))
	return w.err
}

func (w *Writer) zeros(n int) {
	var block [blockSize]byte
	w.Write(block[:n]) // its error is kept
}

// Finish writes the tree, whose files have the Block of their bytes, and ends
// the image. Mark of every node must be 0, and is set. The file is not synced.
func (w *Writer) Finish(root *fstree.Node) error { return w.finish(planOf(root)) }

func (w *Writer) finish(p *plan) error {
	w.blocks(p)
	meta := w.Block()
	w.inodes(p)
	if err := w.Pad(); err != nil {
		return err
	}
	if err := w.buf.Flush(); err != nil {
		return err
	}
	_, err := w.f.WriteAt(super(p, meta, w.Block()), superOffset)
	return err
}

// super returns the superblock and the rest of its block.
func super(p *plan, meta, blocks uint32) []byte {
	b := make([]byte, blockSize-superOffset)
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint32(b[8:], compatible)
	b[12] = blockBits
	le.PutUint16(b[14:], firstInode>>slotBits)   // the root's number
	le.PutUint64(b[16:], uint64(len(p.order)))   // inodes
	le.PutUint32(b[36:], blocks)                 //
	le.PutUint32(b[40:], meta)                   // where inodes are counted from
	sum := crc32.MakeTable(crc32.Castagnoli)     //
	le.PutUint32(b[4:], ^crc32.Checksum(b, sum)) // over all of it, this field 0
	return b
}
