package celltest

import (
	"errors"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func listCases() []testCase {
	return []testCase{
		{"all of the working directory is listed, with sizes and modes", testList},
		{"a listing is cut where it is too long, and says so", testListCut},
		{"nothing is listed before the stop", testListOrder},
	}
}

// lister returns the cell's power, and skips the case where it has none.
func (b *bench) lister(c cell.Cell) cell.Lister {
	b.Helper()
	l, ok := c.(cell.Lister)
	if !ok {
		b.Skip("cells of this level cannot be listed")
	}
	return l
}

func (b *bench) list(c cell.Cell, max int) (map[string]cell.Entry, bool) {
	b.Helper()
	var entries []cell.Entry
	var cut bool
	var err error
	l := b.lister(c)
	b.within("List", func() { entries, cut, err = l.List(b.context(), max) })
	if err != nil {
		b.Fatalf("List: %v", err)
	}
	if len(entries) > max {
		b.Errorf("%d entries, want at most %d", len(entries), max)
	}
	byName := map[string]cell.Entry{}
	for _, e := range entries {
		byName[e.Name] = e
	}
	if len(byName) != len(entries) {
		b.Errorf("a name comes twice: %v", entries)
	}
	return byName, cut
}

func testList(b *bench) {
	files := []envelope.File{{Name: "in/tool", Data: []byte("#!"), Executable: true}, {Name: "in/note", Data: noise(4097)}}
	c, _ := b.run(0, files, Zoo)
	b.stop(c)
	got, cut := b.list(c, 100)
	want := map[string]cell.Entry{}
	for name, size := range map[string]int64{"plain": 5, "empty": 0, "dir/a": 1, "dir/b": 2, "dir/sub/c": 3, "in/tool": 2, "in/note": 4097} {
		want[name] = cell.Entry{Name: name, Regular: true, Size: size, Executable: name == "in/tool"}
	}
	var others []string
	for name, e := range got {
		switch w, ok := want[name]; {
		case !e.Regular:
			others = append(others, name)
		case !ok || e != w:
			b.Errorf("%+v, want %+v", e, w)
		}
		delete(want, name)
	}
	slices.Sort(others)
	if len(want) > 0 || cut || strings.Join(others, " ") != "away dir/fifo dir/link dirlink fifo link nowhere" {
		b.Errorf("left out %v, cut %v; not regular: %q", want, cut, others)
	}
	if text := b.get(c, roomy(), "dir/b"); text != `dir/b="bb"` {
		b.Errorf("Get after List: %s", text)
	}
}

func testListCut(b *bench) {
	c := b.ended(Many, "20", "1")
	if got, cut := b.list(c, 7); !cut || len(got) != 7 {
		b.Errorf("%d entries, cut %v; want 7 and that there are more", len(got), cut)
	}
	if got, cut := b.list(c, 21); cut || len(got) != 21 {
		b.Errorf("%d entries, cut %v; want all 21", len(got), cut)
	}
}

func testListOrder(b *bench) {
	c := b.open()
	if _, _, err := b.lister(c).List(b.context(), 10); !errors.Is(err, cell.ErrState) {
		b.Errorf("List of an open cell: %v, want ErrState", err)
	}
}
