package unpack

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/image/fstree"
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
		{"a link takes a directory's place", []tar.Header{reg("d/e/f", "1"), reg("d/g", "2"), sym("d", "../outside")}, []string{"d -> ../outside"}, nil},
		{"a directory takes a link's place", []tar.Header{sym("d", "../outside"), dir("d"), reg("d/f", "1")}, []string{"d dir", "d/f rw- 1"}, nil},
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

// TestHostile holds that the archive is refused as a whole, with the member's
// name where one is at fault.
func TestHostile(t *testing.T) {
	file := func(name string) []byte { return join(raw('0', name, "", "x", 1), end()) }
	deep := strings.Repeat("d/", fstree.MaxDepth) + "f"
	whole := archive(t, reg("a", strings.Repeat("x", 5000)))
	for _, c := range []struct {
		name string
		data []byte
		kind fstree.ErrKind
	}{
		{"an absolute name", file("/tmp/born"), fstree.KindName},
		{"dots upwards", file("../outside/born"), fstree.KindName},
		{"dots upwards in the middle", file("a/../../outside/born"), fstree.KindName},
		{"dots upwards that stay within", file("a/../b"), fstree.KindName},
		{"no name", file(""), fstree.KindName},
		{"a file in place of the root", file("./"), fstree.KindName},
		{"a link in place of the root", archive(t, sym(".", "/")), fstree.KindName},
		{"a name of 256 bytes", archive(t, reg(strings.Repeat("n", 256), "")), fstree.KindName},
		{"a path of 4096 bytes", archive(t, reg(strings.Repeat(strings.Repeat("n", 127)+"/", 32)+"f", "")), fstree.KindName},
		{"129 directories", archive(t, reg(deep, "")), fstree.KindDepth},
		{"a link, then a file through it", archive(t, sym("d", "../outside"), reg("d/born", "x")), fstree.KindParent},
		{"an absolute link, then a directory through it", archive(t, sym("d", "/var/tmp"), dir("d/a/b")), fstree.KindParent},
		{"a link to itself, then a file through it", archive(t, sym("d", "."), reg("d/d/d/f", "x")), fstree.KindParent},
		{"a link two levels up", archive(t, sym("hop", "../outside"), reg("hop/newdir/deep/f", "x")), fstree.KindParent},
		{"a file below a file", archive(t, reg("f", "x"), reg("f/g", "x")), fstree.KindParent},
		{"a file below a device", archive(t, tar.Header{Typeflag: tar.TypeChar, Name: "z"}, sym("z", "../outside"), reg("z/f", "x")), fstree.KindParent},
		{"a hard link to the host's file", archive(t, hard("h", "/etc/passwd")), fstree.KindName},
		{"a hard link upwards", archive(t, hard("h", "../outside/canary")), fstree.KindName},
		{"a hard link through a link", archive(t, sym("d", "../outside"), hard("h", "d/canary")), fstree.KindLink},
		{"a hard link to a directory", archive(t, dir("d"), hard("h", "d")), fstree.KindLink},
		{"a hard link to the root", archive(t, hard("h", ".")), fstree.KindLink},
		{"a hard link to what comes later", archive(t, hard("h", "f"), reg("f", "x")), fstree.KindLink},
		{"a hard link over what it links to", archive(t, reg("d/f", "x"), hard("d", "d/f")), fstree.KindLink},
		{"a link without a target", join(raw('2', "l", "", "", 0), end()), fstree.KindLink},
		{"a target of 4096 bytes", archive(t, sym("l", strings.Repeat("t", 4096))), fstree.KindLink},
		{"a size of 8 GiB", join(raw('0', "f", "", "x", 1<<33-1), end()), fstree.KindBytes},
		{"a size beyond 63 bits", join(raw('0', "f", "", "x", -1), end()), fstree.KindMalformed},
		{"more bytes than there may be", archive(t, reg("a", strings.Repeat("x", 9<<20)), reg("b", strings.Repeat("x", 9<<20))), fstree.KindBytes},
		{"more bytes than there may be, of replaced files", archive(t, reg("a", strings.Repeat("x", 9<<20)), reg("a", strings.Repeat("x", 9<<20))), fstree.KindBytes},
		{"a sparse file of 1 TiB", sparse("s", 1<<40), fstree.KindBytes},
		{"a sparse file of 8 EiB", sparse("s", 1<<63-1), fstree.KindBytes},
		{"a sparse file of less than nothing", sparse("s", -1), fstree.KindMalformed},
		{"endless extended headers", bytes.Repeat(pax("x="+strings.Repeat("y", 900<<10)), 40), fstree.KindBytes},
		{"more entries than there may be", many(2000), fstree.KindEntries},
		{"more directories than there may be", archive(t, manyDeep(20)...), fstree.KindEntries},
		{"a stream without an end mark", whole[:len(whole)-endMark], fstree.KindTruncated},
		{"half an end mark", whole[:len(whole)-endMark/2], fstree.KindTruncated},
		{"zeros of a file for an end mark", join(raw('0', "z", "", "", 4096), make([]byte, 4096)), fstree.KindTruncated},
		{"a stream cut in a header", whole[:300], fstree.KindTruncated},
		{"a stream cut in a file", whole[:4096], fstree.KindTruncated},
		{"a second archive after the first", join(whole, whole), fstree.KindTrailing},
		{"something after the end mark", join(whole, make([]byte, 20000), []byte("x")), fstree.KindTrailing},
		{"no tar stream", []byte(strings.Repeat("no tar", 1000)), fstree.KindMalformed},
		{"a compressed stream", join([]byte("\x1f\x8b\x08"), make([]byte, 2000)), fstree.KindMalformed},
		{"nothing", nil, fstree.KindTruncated},
		{"a checksum that lies", join(append([]byte("X"), raw('0', "f", "", "x", 1)[1:]...), end()), fstree.KindMalformed},
		{"a NUL in an extended name", join(pax("path\x00=", "path=a\x00b"), file("f")), fstree.KindMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t)
			_, err := g.unpack(t, c.data, small())
			e := (*fstree.Error)(nil)
			if !errors.As(err, &e) || e.Kind != c.kind {
				t.Fatalf("got %v (%+v), want %q", err, e, c.kind)
			}
			if (c.kind == fstree.KindName || c.kind == fstree.KindParent || c.kind == fstree.KindLink) && e.Entry == "" && c.name != "no name" {
				t.Errorf("%v does not say which member", err)
			}
		})
	}
}

// pax returns an extended header of records, key=value each.
func pax(records ...string) []byte {
	var body strings.Builder
	for _, r := range records {
		n := len(r) + 3
		for d := 10; d <= n+1; d *= 10 {
			n++
		}
		body.WriteString(itoa(n) + " " + r + "\n")
	}
	return raw('x', "pax", "", body.String(), int64(body.Len()))
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// sparse is a file of a size that holds nothing.
func sparse(name string, size int64) []byte {
	records := []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=" + name, "GNU.sparse.realsize=" + tarInt(size)}
	return join(pax(records...), raw('0', "x", "", "1\n"+tarInt(max(size, 0))+"\n0\n", 512), end())
}

func tarInt(n int64) string {
	if n < 0 {
		return "-" + tarInt(-n)
	}
	return itoa64(n)
}

func itoa64(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa64(n/10) + string(rune('0'+n%10))
}

func many(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(raw('0', "f"+itoa(i), "", "", 0))
	}
	b.Write(end())
	return b.Bytes()
}

func manyDeep(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, reg(itoa(i)+"/"+strings.Repeat("d/", 60)+"f", ""))
	}
	return all
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
		{"links in their place", []tar.Header{sym("etc", "../outside"), sym("tmp", "/outside"), sym("opt", "/"), reg("run", "x")}, 4, ""},
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
