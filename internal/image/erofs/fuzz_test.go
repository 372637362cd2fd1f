package erofs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/fstree"
)

// memory is an image in memory.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) { return copy(m.b[off:], p), nil }

// A reader reads an image as Linux does, and is stricter: it takes nothing that
// the writer should not have written.
type reader struct {
	b     []byte
	meta  uint64
	lines []string
}

var errImage = errors.New("a fault of the image")

func fault(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errImage}, args...)...)
}

// read lists an image as a sample's lines are.
func read(b []byte) ([]string, error) {
	le, super := binary.LittleEndian, b[superOffset:blockSize]
	sum := le.Uint32(super[4:])
	zeroed := slices.Clone(super)
	copy(zeroed[4:8], make([]byte, 4))
	switch {
	case le.Uint32(super) != magic, le.Uint32(super[80:]) != 0, super[12] != blockBits:
		return nil, fault("superblock %x", super[:128])
	case sum != ^crc32.Checksum(zeroed, crc32.MakeTable(crc32.Castagnoli)):
		return nil, fault("checksum")
	case int(le.Uint32(super[36:]))*blockSize != len(b):
		return nil, fault("%d blocks of %d bytes", le.Uint32(super[36:]), len(b))
	}
	r := &reader{b: b, meta: uint64(le.Uint32(super[40:])) << blockBits}
	root := uint64(le.Uint16(super[14:]))
	err := r.inode(root, root, "")
	return r.lines, err
}

func (r *reader) inode(nid, parent uint64, path string) error {
	le, at := binary.LittleEndian, r.meta+nid<<slotBits
	ino := r.b[at : at+inodeSize]
	format, mode, size := le.Uint16(ino), le.Uint16(ino[4:]), le.Uint64(ino[8:])
	var data []byte
	block := uint64(le.Uint32(ino[16:])) << blockBits
	switch rest := size & (blockSize - 1); format {
	case formatPlain:
		if size > 0 {
			data = r.b[block : block+size]
		}
	case formatInline:
		inline := at + inodeSize
		if rest == 0 || inline>>blockBits != (inline+rest-1)>>blockBits {
			return fault("what is behind inode %d crosses a block", nid)
		}
		if size > rest {
			data = slices.Clone(r.b[block : block+size-rest])
		}
		data = append(data, r.b[inline:inline+rest]...)
	default:
		return fault("format %d", format)
	}
	what := ""
	switch mode & 0o170000 {
	case 0o100000:
		what = fmt.Sprintf("%x", sha256.Sum256(data))
	case 0o120000:
		what = string(data)
	}
	r.lines = append(r.lines, fmt.Sprintf("%q %o %d %d.%09d %d %q", path, mode, size, le.Uint64(ino[32:]), le.Uint32(ino[40:]), le.Uint32(ino[44:]), what))
	if mode&0o170000 != 0o40000 {
		return nil
	}
	return r.dir(data, nid, parent, path)
}

func (r *reader) dir(data []byte, nid, parent uint64, path string) error {
	le, last := binary.LittleEndian, ""
	for block := range slices.Chunk(data, blockSize) {
		n := int(le.Uint16(block[8:])) / direntSize
		for i := range n {
			d, end := block[i*direntSize:], len(block)
			if i+1 < n {
				end = int(le.Uint16(block[(i+1)*direntSize+8:]))
			}
			name := strings.TrimRight(string(block[le.Uint16(d[8:]):end]), "\x00")
			child := le.Uint64(d)
			if name <= last {
				return fault("%q after %q", name, last)
			}
			last = name
			switch {
			case name == "." && child == nid, name == ".." && child == parent:
			case name == "." || name == "..":
				return fault("%q is %d", name, child)
			default:
				if err := r.inode(child, nid, path+"/"+name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readBack holds that the reader finds a sample in its image.
func readBack(t *testing.T, s *sample) {
	t.Helper()
	m := &memory{}
	if err := s.write(m); err != nil {
		t.Fatal(err)
	}
	r, err := read(m.b)
	if want := s.lines(); err != nil || !slices.Equal(r, want) {
		t.Errorf("%v\ngot  %q\nwant %q", err, r, want)
	}
}

func TestReadBack(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) { readBack(t, s) })
	}
}

// grow makes a tree of bytes: each step is a kind, a length and a directory.
func grow(data []byte) *sample {
	s, dirs := newSample(), []string{""}
	for i := 0; len(data) >= 4; i++ {
		kind, length, below, step := data[0], int(data[1])|int(data[2])<<8, int(data[3]), data[:4]
		data = data[4:]
		name := dirs[below%len(dirs)] + strings.ReplaceAll(string([]byte{step[0] | 1}), "/", "_") + strings.Repeat("n", length%240) + strconv.Itoa(i)
		switch kind % 4 {
		case 0:
			s.file(name, strings.Repeat(string(rune('a'+i%20)), length%9000))
		case 1:
			s.symlink(name, strings.Repeat("t", 1+length%fstree.MaxTarget))
		case 2:
			s.put(name, fstree.NewDir())
			if strings.Count(name, "/") < fstree.MaxDepth-2 {
				dirs = append(dirs, name+"/")
			}
		case 3:
			n := s.file(name, "linked")
			n.Links = 2
			s.put(name+"'", n)
		}
	}
	return s
}

// FuzzTrees holds that the reader finds any tree in its image.
func FuzzTrees(f *testing.F) {
	f.Add([]byte("\x00\x00\x10\x00\x02\x05\x00\x00\x01\xff\x0f\x01\x03\x00\x00\x01"))
	f.Add([]byte(strings.Repeat("\x02\x01\x00\xff", 60)))
	f.Add([]byte(strings.Repeat("\x01\xbf\x0f\x00", 90)))
	f.Fuzz(func(t *testing.T, data []byte) {
		readBack(t, grow(data[:min(len(data), 1000)]))
	})
}
