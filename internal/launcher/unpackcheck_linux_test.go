package launcher

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// TestCheckPlan: the check of an unpacker's work is made as an unpacker is, of a
// staging that nobody can change.
func TestCheckPlan(t *testing.T) {
	p := &unpackPlan{jail: pinnedJail(), ceilings: conf.Default().Image, request: *request(1), checks: true}
	unpacker := &unpackPlan{jail: pinnedJail(), ceilings: conf.Default().Image, request: *request(1)}
	mine, its := p.compile(), unpacker.compile()
	defer mine.Release()
	defer its.Release()
	list, other := mine.Lines(), its.Lines()
	if len(list) != len(other) {
		t.Fatalf("%d entries, and %d of an unpacker", len(list), len(other))
	}
	for i := range list {
		if list[i].Name != other[i].Name {
			t.Errorf("%s, and %s of an unpacker", list[i].Name, other[i].Name)
		}
	}
	if got, want := strings.Join(p.argv(), " "), "callcell-image check -bytes=67108864 -entries=10032"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKeptUnderItsDigest: a front that names another is refused, and nothing is
// left.
func TestKeptUnderItsDigest(t *testing.T) {
	c := dial(t, newPlace(t))
	other := c.tree(t, request(1), tarOf(t, member{name: "x", text: "other"}))
	for _, digest := range []string{other, strings.Repeat("a", 64)} {
		u := c.unpack(t, request(2))
		_, err := u.stream.Write(tarOf(t, member{name: "x", text: "text"}))
		must(t, err)
		if got, ok := u.end(t).(*wire.Unpacked); !ok || got.Status != 0 {
			t.Fatalf("%+v", got)
		}
		f := c.refused(t, wire.KindTree, &wire.Keep{ID: treeID(2), Digest: digest, Owner: treeOwner})
		if !strings.Contains(f.Step, "digest") {
			t.Errorf("%+v", f)
		}
	}
	if left := c.inStore(t); len(left) != 1 {
		t.Errorf("%v", left)
	}
	c.done(t, &wire.Remove{Digest: other, Owner: treeOwner})
	noGroups(t, c)
}

// TestTreeInAnotherForm: one that was kept as an image alone, and is made again
// as a directory, is one that cells of both levels have.
func TestTreeInAnotherForm(t *testing.T) {
	c := dial(t, newPlace(t))
	stream, err := helpers.Tree([]string{"/bin/sh", "/bin/cat"}, nil, map[string]string{"name": "tree\n"})
	must(t, err)
	image, dir := request(1), request(2)
	image.Dir, dir.EROFS = false, false
	s := spec()
	s.Tree = c.tree(t, image, stream)
	c.refused(t, wire.KindAbsent, &wire.Open{Spec: s})
	if again := c.tree(t, dir, stream); again != s.Tree {
		t.Fatalf("%s, and %s", s.Tree, again)
	}
	if list := c.found(t, &wire.Trees{}); !strings.Contains(list, " d e ") {
		t.Errorf("%q", list)
	}
	if got := c.runs(t, s, "cat /name"); len(got) != 1 || got[0] != "tree" {
		t.Errorf("%q", got)
	}
	c.found(t, &wire.OpenTree{Digest: s.Tree, File: wire.TreeEROFS})
	c.done(t, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}

// TestDroppedWhileChecked: a tree that nobody wants any more is not kept, and
// nothing is left, whichever process is at it.
func TestDroppedWhileChecked(t *testing.T) {
	c := dial(t, newPlace(t))
	stream := tarOf(t, member{name: "big", text: strings.Repeat("x", 8<<20)})
	u := c.unpack(t, request(1))
	go func() {
		_, _ = u.stream.Write(stream) // it may be dead
		u.stream.Close()
	}()
	line, _ := awaitFor(t, 6*patience, "the unpacker's result", u.says)
	if !json.Valid([]byte(line)) {
		t.Errorf("%q", line)
	}
	c.done(t, &wire.Drop{ID: treeID(1)})
	switch body := u.ended(t).(type) {
	case *wire.Unpacked: // it was done
	case *wire.Failed:
		if body.Kind != wire.KindState {
			t.Errorf("%+v", body)
		}
	}
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}
