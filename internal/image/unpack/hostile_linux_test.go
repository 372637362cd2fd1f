package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/fstree"
)

// A hostileCase is an archive that no tree can be made of, and why.
type hostileCase struct {
	name string
	data []byte
	kind fstree.ErrKind
}

func hostile(t testing.TB) []hostileCase {
	file := func(name string) []byte { return join(raw('0', name, "", "x", 1), end()) }
	deep := strings.Repeat("d/", fstree.MaxDepth) + "f"
	whole := archive(t, reg("a", strings.Repeat("x", 5000)))
	return []hostileCase{
		{"an absolute name", file("/tmp/born"), fstree.KindName},
		{"dots upwards", file("../../outside/born"), fstree.KindName},
		{"dots upwards in the middle", file("a/../../../outside/born"), fstree.KindName},
		{"dots upwards that stay within", file("a/../b"), fstree.KindName},
		{"no name", file(""), fstree.KindName},
		{"a file in place of the root", file("./"), fstree.KindName},
		{"a link in place of the root", archive(t, sym(".", "/")), fstree.KindName},
		{"a name of 256 bytes", archive(t, reg(strings.Repeat("n", 256), "")), fstree.KindName},
		{"a path of 4096 bytes", archive(t, reg(strings.Repeat(strings.Repeat("n", 127)+"/", 32)+"f", "")), fstree.KindName},
		{"129 directories", archive(t, reg(deep, "")), fstree.KindDepth},
		{"a link, then a file through it", archive(t, sym("d", "../../outside"), reg("d/born", "x")), fstree.KindParent},
		{"an absolute link, then a directory through it", archive(t, sym("d", "/var/tmp"), dir("d/a/b")), fstree.KindParent},
		{"a link to itself, then a file through it", archive(t, sym("d", "."), reg("d/d/d/f", "x")), fstree.KindParent},
		{"a link two levels up", archive(t, sym("hop", "../../outside"), reg("hop/newdir/deep/f", "x")), fstree.KindParent},
		{"a file below a file", archive(t, reg("f", "x"), reg("f/g", "x")), fstree.KindParent},
		{"a file below a device", archive(t, tar.Header{Typeflag: tar.TypeChar, Name: "z"}, sym("z", "../../outside"), reg("z/f", "x")), fstree.KindParent},
		{"a hard link to the host's file", archive(t, hard("h", "/etc/passwd")), fstree.KindName},
		{"a hard link upwards", archive(t, hard("h", "../../outside/canary")), fstree.KindName},
		{"a hard link through a link", archive(t, sym("d", "../../outside"), hard("h", "d/canary")), fstree.KindLink},
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
		{"more bytes than there may be, of links", archive(t, append(slices.Repeat([]tar.Header{sym("l", strings.Repeat("t", 4095))}, 900), reg("f", strings.Repeat("x", 3<<20)))...), fstree.KindBytes},
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
	}
}

// TestHostile holds that the archive is refused as a whole, with the member's
// name where one is at fault.
func TestHostile(t *testing.T) {
	for _, c := range hostile(t) {
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
		body.WriteString(strconv.Itoa(n) + " " + r + "\n")
	}
	return raw('x', "pax", "", body.String(), int64(body.Len()))
}

// sparse is a file of a size that holds nothing.
func sparse(name string, size int64) []byte {
	records := []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=" + name, "GNU.sparse.realsize=" + strconv.FormatInt(size, 10)}
	return join(pax(records...), raw('0', "x", "", "1\n"+strconv.FormatInt(max(size, 0), 10)+"\n0\n", 512), end())
}

func many(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(raw('0', "f"+strconv.Itoa(i), "", "", 0))
	}
	b.Write(end())
	return b.Bytes()
}

func manyDeep(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, reg(strconv.Itoa(i)+"/"+strings.Repeat("d/", 60)+"f", ""))
	}
	return all
}
