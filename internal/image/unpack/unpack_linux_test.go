package unpack

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMembers holds what becomes of each kind of member.
func TestMembers(t *testing.T) {
	long := strings.Repeat("n", 255)
	deep := strings.Repeat("d/", 100) + "f"
	for _, c := range []struct {
		name    string
		members []tar.Header
		want    []string
		dropped map[string]int64
	}{
		{"files, programs, directories, links", []tar.Header{dir("./"), dir("b/"), reg("b/f", "text"), prog("a", "run"), sym("l", "/etc/passwd")},
			[]string{"a rwx run", "b dir", "b/f rw- text", "l -> /etc/passwd"}, nil},
		{"directories that are not in the stream", []tar.Header{reg("x/y/z", "1")}, []string{"x dir", "x/y dir", "x/y/z rw- 1"}, nil},
		{"set-user-ID is dropped", []tar.Header{{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755}}, []string{"su rwx "}, map[string]int64{DroppedSetID: 1}},
		{"devices and pipes are dropped, and links to them", []tar.Header{{Typeflag: tar.TypeChar, Name: "dev/null"}, {Typeflag: tar.TypeBlock, Name: "sda"}, {Typeflag: tar.TypeFifo, Name: "p"}, hard("q", "p")},
			[]string{"dev dir"}, map[string]int64{DroppedDevice: 2, DroppedFIFO: 1, DroppedOther: 1}},
		{"extended attributes are dropped", []tar.Header{{Typeflag: tar.TypeReg, Name: "f", Mode: 0o600, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}},
			[]string{"f rw- "}, map[string]int64{DroppedXattr: 1}},
		{"a hard link is a link", []tar.Header{reg("a", "one"), hard("b/c", "a"), reg("a", "two")}, []string{"a rw- two", "b dir", "b/c rw- one"}, nil},
		{"a hard link to itself", []tar.Header{reg("a", "one"), hard("./a", "a")}, []string{"a rw- one"}, nil},
		{"a hard link to a link is that link", []tar.Header{sym("a", "../../outside/canary"), hard("b", "a")}, []string{"a -> ../../outside/canary", "b -> ../../outside/canary"}, nil},
		{"a file takes a link's place, and not its target's", []tar.Header{sym("a", "../../outside/canary"), reg("a", "mine")}, []string{"a rw- mine"}, nil},
		{"a link takes a directory's place", []tar.Header{reg("d/e/f", "1"), reg("d/g", "2"), sym("d", "../../outside")}, []string{"d -> ../../outside"}, nil},
		{"a directory takes a link's place", []tar.Header{sym("d", "../../outside"), dir("d"), reg("d/f", "1")}, []string{"d dir", "d/f rw- 1"}, nil},
		{"a directory that is there stays", []tar.Header{reg("d/f", "1"), dir("d/")}, []string{"d dir", "d/f rw- 1"}, nil},
		{"a device takes a file's place and is dropped", []tar.Header{reg("f", "1"), {Typeflag: tar.TypeChar, Name: "f"}}, nil, map[string]int64{DroppedDevice: 1}},
		{"names of bytes", []tar.Header{reg("\xff\xfe", "1"), reg("\u202e\n\x1b[2J", "2")}, []string{"\u202e\n\x1b[2J rw- 2", "\xff\xfe rw- 1"}, nil},
		{"case twins and Unicode twins", []tar.Header{reg("A", "1"), reg("a", "2"), reg("\u00e9", "3"), reg("e\u0301", "4")}, []string{"A rw- 1", "a rw- 2", "e\u0301 rw- 4", "\u00e9 rw- 3"}, nil},
		{"long names", []tar.Header{reg(long, "1"), sym("s", strings.Repeat("t", 4095))}, []string{long + " rw- 1", "s -> " + strings.Repeat("t", 4095)}, nil},
		{"deep", []tar.Header{reg(deep, "1")}, nil, nil},
		{"dots that are names", []tar.Header{reg("...", "1"), reg(".wh.x", "2"), reg("..a", "3")}, []string{"... rw- 1", "..a rw- 3", ".wh.x rw- 2"}, nil},
		{"what a Python start would run is data", []tar.Header{reg("lib/evil.pth", "import os; os.system('id')"), reg("lib/sitecustomize.py", "x")},
			[]string{"lib dir", "lib/evil.pth rw- import os; os.system('id')", "lib/sitecustomize.py rw- x"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t)
			r, err := g.unpack(t, archive(t, c.members...), small())
			if err != nil {
				t.Fatal(err)
			}
			if got := g.tree(t); c.name != "deep" && !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if !maps.Equal(r.Dropped, c.dropped) {
				t.Errorf("dropped %v, want %v", r.Dropped, c.dropped)
			}
			g.listed(t)
		})
	}
}

// TestDigest holds that the digest is the listing's, and of contents alone: not
// of the order, the format, times, owners or hard links of an archive.
func TestDigest(t *testing.T) {
	digest := func(t *testing.T, members ...tar.Header) string {
		g := newGround(t)
		r, err := g.unpack(t, archive(t, members...), small())
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(g.staging, ListingName))
		sum := sha256.Sum256(data)
		if err != nil || r.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("the digest %s is not the listing's (%v)", r.Digest, err)
		}
		return r.Digest
	}
	base := digest(t, dir("d"), reg("d/a", "1"), reg("b", "1"), sym("l", "x"))
	later := reg("b", "1")
	later.ModTime, later.Uid, later.Uname, later.Mode, later.Format = at().Add(time.Hour+time.Nanosecond), 1000, "ann", 0o600, tar.FormatPAX
	for _, c := range []struct {
		name    string
		members []tar.Header
		same    bool
	}{
		{"another order", []tar.Header{sym("l", "x"), reg("b", "1"), reg("d/a", "1")}, true},
		{"another format, time, owner, mode", []tar.Header{later, reg("./d//a", "1"), sym("l", "x")}, true},
		{"a hard link", []tar.Header{reg("d/a", "1"), hard("b", "d/a"), sym("l", "x")}, true},
		{"replaced on the way", []tar.Header{reg("l", "0"), reg("b/c", "1"), sym("l", "y"), sym("l", "x"), reg("d/a", "1"), reg("b", "1")}, true},
		{"other contents", []tar.Header{reg("d/a", "2"), reg("b", "1"), sym("l", "x")}, false},
		{"another target", []tar.Header{reg("d/a", "1"), reg("b", "1"), sym("l", "y")}, false},
		{"another name", []tar.Header{reg("d/a", "1"), reg("c", "1"), sym("l", "x")}, false},
		{"may be executed", []tar.Header{reg("d/a", "1"), prog("b", "1"), sym("l", "x")}, false},
		{"an empty directory more", []tar.Header{reg("d/a", "1"), reg("b", "1"), sym("l", "x"), dir("e")}, false},
		{"a file in place of the link", []tar.Header{reg("d/a", "1"), reg("b", "1"), reg("l", "x")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := digest(t, c.members...); (got == base) != c.same {
				t.Errorf("%s and %s: same is %v, want %v", base, got, got == base, c.same)
			}
		})
	}
}

// TestForms holds that the digest does not depend on what else is written, and
// that nothing is written that was not asked for.
func TestForms(t *testing.T) {
	data := archive(t, reg("d/a", strings.Repeat("x", 10000)), sym("l", "x"), hard("b", "d/a"))
	var digests []string
	for _, form := range []struct {
		dir, image bool
		want       []string
	}{
		{true, true, []string{RootName, ImageName, ListingName}},
		{true, false, []string{RootName, ListingName}},
		{false, true, []string{ImageName, ListingName}},
		{false, false, []string{ListingName}},
	} {
		g := newGround(t)
		o := small()
		o.Dir, o.Image = form.dir, form.image
		r, err := g.unpack(t, data, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Entries != 4 || r.Bytes != 10000 {
			t.Errorf("%+v, want 4 entries, 10000 bytes", r)
		}
		digests = append(digests, r.Digest)
		names, err := filepath.Glob(filepath.Join(g.staging, "*"))
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		if err != nil || !slices.Equal(names, form.want) {
			t.Errorf("%q, want %q (%v)", names, form.want, err)
		}
	}
	if len(slices.Compact(digests)) != 1 {
		t.Errorf("digests differ: %q", digests)
	}
}

// TestTimes holds that times are kept within what readers can tell.
func TestTimes(t *testing.T) {
	var members []tar.Header
	for name, when := range map[string]time.Time{"kept": time.Unix(1_234_567_890, 123_456_789), "before": time.Unix(-5, 3), "beyond": time.Unix(1<<50, 0)} {
		m := reg(name, name)
		m.ModTime, m.Format = when, tar.FormatPAX
		members = append(members, m)
	}
	old := dir("old")
	old.ModTime = time.Unix(77, 0)
	g := newGround(t)
	if _, err := g.unpack(t, archive(t, append(members, old, reg("old/new", "1"))...), small()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{"kept": time.Unix(1_234_567_890, 123_456_789), "before": time.Unix(0, 0), "beyond": time.Unix(253402300799, 0), "old": time.Unix(77, 0), "old/new": at()} {
		info, err := os.Lstat(filepath.Join(g.staging, RootName, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.ModTime(); !got.Equal(want) && name != "beyond" { // which some file systems cannot tell
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

// TestMountpoints holds that a cell can be mounted on any root.
func TestMountpoints(t *testing.T) {
	empty := []string{"dev dir", "etc dir", "etc/group rw- ", "etc/hostname rw- ", "etc/hosts rw- ", "etc/nsswitch.conf rw- ", "etc/passwd rw- ", "etc/resolv.conf rw- ",
		"opt dir", "opt/callcell dir", "proc dir", "run dir", "sys dir", "tmp dir", "work dir"}
	for _, c := range []struct {
		name    string
		members []tar.Header
		placed  int64
		passwd  string
	}{
		{"an empty root", nil, 0, ""},
		{"links in their place", []tar.Header{sym("etc", "../../outside"), sym("tmp", "/outside"), sym("opt", "/"), reg("run", "x")}, 4, ""},
		{"a link in place of a file", []tar.Header{sym("etc/resolv.conf", "../../outside/canary"), reg("etc/hosts/x", "a directory")}, 2, ""},
		{"files that are there stay", []tar.Header{reg("etc/passwd", "root")}, 0, "root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t)
			o := small()
			o.Mountpoints = true
			r, err := g.unpack(t, archive(t, c.members...), o)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(empty)
			want[6] += c.passwd
			if got := g.tree(t); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if r.Dropped[DroppedPlaced] != c.placed {
				t.Errorf("%d gave way, want %d", r.Dropped[DroppedPlaced], c.placed)
			}
		})
	}
}
