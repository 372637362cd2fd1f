package launcher

import (
	"os"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// TestUnpackIsHeldToWhatItGets: numbers within the launcher's own, and two ends
// of pipes.
func TestUnpackIsHeldToWhatItGets(t *testing.T) {
	c := dial(t, withStandIn(t, "image.bytes = 1Mi", "image.entries = 100"))
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	good := []int{int(inR.Fd()), int(outW.Fd())}
	ok := wire.Unpack{ID: treeID(1), Bytes: 1 << 20, Entries: 100, Dir: true}
	for name, change := range map[string]func(m *wire.Unpack){
		"no id": func(m *wire.Unpack) { m.ID = "" }, "a path": func(m *wire.Unpack) { m.ID = "../" + m.ID[3:] },
		"no bytes": func(m *wire.Unpack) { m.Bytes = 0 }, "many bytes": func(m *wire.Unpack) { m.Bytes++ }, "few": func(m *wire.Unpack) { m.Bytes = -1 << 63 },
		"no entries": func(m *wire.Unpack) { m.Entries = 0 }, "many entries": func(m *wire.Unpack) { m.Entries++ }, "no form": func(m *wire.Unpack) { m.Dir = false },
	} {
		m := ok
		change(&m)
		t.Run(name, func(t *testing.T) { c.refused(t, wire.KindSpec, &m, good...) })
	}
	place := opened(t, "/")
	for name, fds := range map[string][]int{
		"none": nil, "one": good[:1], "three": {good[0], good[1], good[1]}, "the other ends": {int(inW.Fd()), int(outR.Fd())}, "a file": {opened(t, "/etc/passwd"), good[1]},
		"a device": {opened(t, os.DevNull), good[1]}, "a directory": {place, good[1]}, "a sealed file": {int(memfd(t, []byte("x")).Fd()), good[1]},
	} {
		t.Run(name, func(t *testing.T) { c.refused(t, wire.KindSpec, &ok, fds...) })
	}
	for _, bad := range []string{"", "..", strings.Repeat("A", 64), strings.Repeat("a", 63) + "/"} {
		c.refused(t, wire.KindSpec, &wire.Keep{ID: treeID(1), Digest: bad, Owner: treeOwner})
		c.refused(t, wire.KindSpec, &wire.Remove{Digest: bad, Owner: treeOwner})
		c.refused(t, wire.KindSpec, &wire.OpenTree{Digest: bad, File: wire.TreeListing})
	}
	for _, bad := range []string{"", "..", "A", "g", strings.Repeat("a", 65), "a/b"} {
		c.refused(t, wire.KindSpec, &wire.Keep{ID: treeID(1), Digest: strings.Repeat("a", 64), Owner: bad})
		c.refused(t, wire.KindSpec, &wire.Remove{Digest: strings.Repeat("a", 64), Owner: bad})
	}
	for _, bad := range []string{"..", "A", "../../etc"} {
		c.refused(t, wire.KindSpec, &wire.Trees{Owner: bad})
	}
	for _, body := range []wire.Body{&wire.Keep{ID: treeID(1), Digest: strings.Repeat("a", 64), Owner: treeOwner}, &wire.Keep{ID: "../x", Digest: strings.Repeat("a", 64), Owner: treeOwner}, &wire.Drop{ID: treeID(1)}, &wire.Drop{}} {
		c.refused(t, wire.KindState, body)
	}
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}
