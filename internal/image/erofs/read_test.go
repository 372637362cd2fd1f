package erofs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/fstree"
)

var plenty = Bounds{Entries: 1 << 20, Bytes: 1 << 32}

// listing is what a digest is taken of.
func listing(t testing.TB, root *fstree.Node) string {
	t.Helper()
	var b bytes.Buffer
	if err := fstree.List(&b, root); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (s *sample) bytesOf(t testing.TB) []byte {
	t.Helper()
	m := &memory{}
	if err := s.write(m); err != nil {
		t.Fatal(err)
	}
	return m.b
}

func readAll(b []byte, most Bounds) (*fstree.Node, error) {
	return Read(bytes.NewReader(b), int64(len(b)), most)
}

// TestReadFindsTheTree that was written.
func TestReadFindsTheTree(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			root, err := readAll(s.bytesOf(t), plenty)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := listing(t, root), listing(t, s.root); got != want {
				t.Errorf("got  %.500s\nwant %.500s", got, want)
			}
		})
	}
}

// few is a small tree with all there can be in one.
func few() *sample {
	s := newSample()
	s.file("a/b", "text")
	s.file("a/run", "odd")
	n := s.file("c", strings.Repeat("x", 4097))
	n.Links = 2
	s.put("d/c", n)
	s.symlink("l", "a/b")
	s.symlink("long", strings.Repeat("t", 4033))
	s.put("empty", fstree.NewDir())
	return s
}

// TestReadTakesNoOtherByte: an image that differs in one byte is refused, or is
// another tree, or has another time of modification.
func TestReadTakesNoOtherByte(t *testing.T) {
	s := few()
	b, want := s.bytesOf(t), listing(t, s.root)
	meta, taken := int(binary.LittleEndian.Uint32(b[superOffset+40:]))<<blockBits, 0
	for i := 0; i < len(b); i++ {
		if (i < superOffset || i > superOffset+100) && i < meta {
			i += 28 // of what has no meaning by its place some will do
		}
		b[i] ^= 0x81
		root, err := readAll(b, plenty)
		if err == nil && listing(t, root) == want {
			taken++
		}
		if err != nil && !errors.Is(err, ErrImage) {
			t.Errorf("byte %d: %v", i, err)
		}
		b[i] ^= 0x81
	}
	const inodes, times = 9, 12 // bytes of an inode's time
	if taken > inodes*times {
		t.Errorf("%d changes are not seen", taken)
	}
}

// TestReadRefuses what reads well, and what no writer has written.
func TestReadRefuses(t *testing.T) {
	good := few().bytesOf(t)
	le := binary.LittleEndian
	meta := int(le.Uint32(good[superOffset+40:])) << blockBits
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		most   Bounds
	}{
		"nothing":               {func([]byte) []byte { return nil }, plenty},
		"a part of a block":     {func(b []byte) []byte { return b[:len(b)-1] }, plenty},
		"one block less":        {func(b []byte) []byte { return b[:len(b)-blockSize] }, plenty},
		"one block more":        {func(b []byte) []byte { return append(b, make([]byte, blockSize)...) }, plenty},
		"no magic":              {func(b []byte) []byte { b[superOffset] = 0; return b }, plenty},
		"bytes before it":       {func(b []byte) []byte { b[0] = 1; return b }, plenty},
		"inodes beyond the end": {func(b []byte) []byte { le.PutUint32(b[superOffset+40:], 1<<31); return b }, plenty},
		"a directory of itself": {func(b []byte) []byte { // the first entry that is not a dot leads to the root
			le.PutUint64(b[meta+2*inodeSize+2*direntSize:], firstInode>>slotBits)
			return b
		}, plenty},
		"a huge directory": {func(b []byte) []byte { le.PutUint64(b[meta+inodeSize+8:], 1<<62); return b }, plenty},
		"a negative size":  {func(b []byte) []byte { le.PutUint64(b[meta+inodeSize+8:], 1<<63); return b }, plenty},
		"bytes behind a file": {func(b []byte) []byte {
			b[blockSize+100] = 'x' // behind "text"
			return b
		}, plenty},
		"too many entries": {func(b []byte) []byte { return b }, Bounds{Entries: 8, Bytes: 1 << 20}},
		"too many bytes":   {func(b []byte) []byte { return b }, Bounds{Entries: 100, Bytes: 4096 * 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if root, err := readAll(c.change(slices.Clone(good)), c.most); !errors.Is(err, ErrImage) {
				t.Errorf("%v, %v", root, err)
			}
		})
	}
	if _, err := readAll(good, Bounds{Entries: 10, Bytes: 4 * 4096}); err != nil {
		t.Errorf("within the bounds: %v", err)
	}
}

// FuzzRead holds that an image is refused, or that the other reader of these
// tests finds the very same in it.
func FuzzRead(f *testing.F) {
	good := few().bytesOf(f)
	meta := int(binary.LittleEndian.Uint32(good[superOffset+40:])) << blockBits
	f.Add([]byte{}, 0)
	f.Add([]byte{7}, meta)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00"), meta+inodeSize*2)
	f.Add(good[meta:meta+inodeSize], meta+2*inodeSize)
	f.Fuzz(func(t *testing.T, patch []byte, at int) {
		b := slices.Clone(good)
		if at < 0 || at > len(b) {
			return
		}
		copy(b[at:], patch)
		root, err := readAll(b, plenty)
		if err != nil {
			if !errors.Is(err, ErrImage) {
				t.Error(err)
			}
			return
		}
		lines, err := read(b)
		if want := (&sample{root: root}).lines(); err != nil || !slices.Equal(lines, want) {
			t.Errorf("%v\ngot  %q\nwant %q", err, want, lines)
		}
	})
}
