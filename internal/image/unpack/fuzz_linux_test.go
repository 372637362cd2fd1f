package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/pack"
)

// again packs root/, unpacks the stream elsewhere, and returns the digest.
func (g *ground) again(t testing.TB, o Options) string {
	t.Helper()
	root, err := os.Open(filepath.Join(g.staging, RootName))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var stream bytes.Buffer
	if _, err := pack.Run(&stream, root, pack.Options{Bytes: 1 << 30, Entries: 1 << 20}); err != nil {
		t.Fatalf("what was unpacked cannot be packed: %v", err)
	}
	second := &ground{staging: filepath.Join(g.staging, "again")}
	if err := os.Mkdir(second.staging, 0o700); err != nil {
		t.Fatal(err)
	}
	o.Dir = false
	r, err := second.unpack(t, stream.Bytes(), o)
	if err != nil {
		t.Fatalf("what was packed cannot be unpacked: %v", err)
	}
	return r.Digest
}

// TestPackedAgain holds that a tree that was packed is the same tree.
func TestPackedAgain(t *testing.T) {
	g := newGround(t)
	r, err := g.unpack(t, archive(t, reg("usr/lib/\xffa", "1"), prog("usr/bin/p", "2"), hard("usr/bin/q", "usr/bin/p"), sym("bin", "usr/bin"), dir("empty/"),
		sym("h", "x"), hard("i", "h"), reg(strings.Repeat("long/", 60)+"f", "3")), small())
	if err != nil {
		t.Fatal(err)
	}
	if again := g.again(t, small()); again != r.Digest {
		t.Errorf("%s, and packed again %s", r.Digest, again)
	}
}

// empty makes the staging directory new.
func (g *ground) empty(t testing.TB) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(g.staging), os.Mkdir(g.staging, 0o700)); err != nil {
		t.Fatal(err)
	}
}

// FuzzUnpack holds of any bytes that nothing outside is touched, that an error
// has a kind, and that what was made of them is the same tree when it is packed
// and unpacked again.
func FuzzUnpack(f *testing.F) {
	for _, c := range hostile(f) {
		if len(c.data) < 64<<10 {
			f.Add(c.data)
		}
	}
	f.Add(archive(f, dir("d"), reg("d/f", "text"), sym("l", "../../outside"), hard("h", "d/f"), reg("l", "again"), hard("l", "h")))
	f.Add(archive(f, sym("etc", "/"), reg("a/b/c", ""), tar.Header{Typeflag: tar.TypeChar, Name: "a/b"}, prog("a/b", "")))
	g := makeGround(f) // one for all: to watch and to cease takes the kernel long
	f.Fuzz(func(t *testing.T, data []byte) {
		defer g.untouched(t)
		defer g.empty(t)
		o := Options{Bytes: 1 << 20, Entries: 200, Dir: true, Image: true, Mountpoints: len(data)%2 == 0}
		r, err := g.unpack(t, data, o)
		if err != nil {
			return
		}
		o.Entries *= 200 // directories that were made for a member are members now
		if again := g.again(t, o); again != r.Digest {
			t.Errorf("%s, and packed again %s", r.Digest, again)
		}
	})
}
