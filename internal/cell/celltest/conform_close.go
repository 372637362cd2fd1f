package celltest

import (
	"reflect"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func closeCases() []testCase {
	return []testCase{
		{"Close is one for all who call it", testCloseOnce},
		{"Close without Exec", testCloseUnused},
		{"Close under a cancelled context is complete all the same", testCloseCancelled},
		{"a cell sees nothing of the one before", testReopen},
		{"the same id can be opened again", testSameID},
		{"two at once are apart", testApart},
		{"many at once", testMany},
	}
}

func testCloseOnce(b *bench) {
	c := b.open()
	cmd, r := b.command(Hang)
	done := b.start(b.context(), c, cmd, r)
	reports := make(chan envelope.Report, 16)
	var all sync.WaitGroup
	for range cap(reports) {
		all.Go(func() { reports <- c.Close(b.context()) })
	}
	b.within("Close from many goroutines", all.Wait)
	b.within("Exec after Close", func() { <-done })
	first := c.Close(b.context())
	b.checkReport(first)
	for range cap(reports) {
		if other := <-reports; !reflect.DeepEqual(other, first) {
			b.Errorf("one caller got %+v, another %+v", other, first)
		}
	}
}

func testCloseUnused(b *bench) {
	b.destroy(b.open())
	c := b.open()
	if err := c.Put([]envelope.File{{Name: "a/b", Data: noise(10_000)}}); err != nil {
		b.Fatal(err)
	}
	b.destroy(c)
}

func testCloseCancelled(b *bench) {
	c, _ := b.run(0, nil, Orphans, "celltest-"+id())
	var report envelope.Report
	b.within("Close", func() { report = c.Close(b.cancelled()) })
	b.checkReport(report)
}

// litterFree checks that a fresh cell sees no file that nobody gave it.
func (b *bench) litterFree() {
	b.Helper()
	c, r := b.run(0, []envelope.File{{Name: "mine", Data: []byte("x")}}, List)
	for line := range strings.Lines(r.stdout.text()) {
		name := strings.TrimSpace(line)
		if strings.HasPrefix(name, "litter") || strings.HasPrefix(name, "theirs") {
			b.Errorf("a cell sees %q of another", name)
		}
	}
	if !strings.Contains(r.stdout.text(), "mine") {
		b.Errorf("the list shows nothing: %q", r.stdout.text())
	}
	b.destroy(c)
}

func testReopen(b *bench) {
	if b.h.Elsewhere {
		b.Skip("this runtime shares its temporary files")
	}
	for _, stopped := range []bool{true, false} {
		c, _ := b.run(0, []envelope.File{{Name: "theirs", Data: []byte("x")}}, Litter, "secret")
		if stopped {
			b.stop(c)
		}
		b.destroy(c)
		b.litterFree()
	}
}

func testSameID(b *bench) {
	shape := b.shape()
	for range 2 {
		c := b.openShape(shape)
		cmd, r := b.command(Exit, "0")
		b.exec(c, cmd, r)
		b.checkExit(r, 0)
		b.destroy(c)
	}
}

// together runs n cells so that all of them are open and have a program
// running at one time, and returns what each of them said.
func (b *bench) together(n int) []string {
	b.Helper()
	said := make([]string, n)
	var cells []cell.Cell
	var runs []*run
	var ended []<-chan struct{}
	for i := range n {
		c := b.open()
		if err := c.Put([]envelope.File{{Name: "who", Data: []byte{byte('a' + i%26)}}}); err != nil {
			b.Fatal(err)
		}
		cmd, r := b.command(Orphans, "celltest-"+id())
		cells, runs, ended = append(cells, c), append(runs, r), append(ended, b.start(b.context(), c, cmd, r))
	}
	for i, c := range cells {
		b.within("Exec", func() { <-ended[i] })
		b.checkExit(runs[i], 0)
		b.stop(c)
		said[i] = b.get(c, roomy(), "who")
	}
	return said
}

func testApart(b *bench) {
	said := b.together(2)
	if said[0] != `who="a"` || said[1] != `who="b"` {
		b.Errorf("the two say %q", said)
	}
	if b.h.Elsewhere {
		return
	}
	c := b.open() // alive while another litters and a third looks
	if err := c.Put([]envelope.File{{Name: "theirs", Data: []byte("x")}}); err != nil {
		b.Fatal(err)
	}
	cmd, r := b.command(Litter, "secret")
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
	b.litterFree()
}

func testMany(b *bench) {
	n := 8
	if b.h.Slow {
		n = 3
	}
	for i, said := range b.together(n) {
		if want := `who="` + string(rune('a'+i)) + `"`; said != want {
			b.Errorf("cell %d says %s, want %s", i, said, want)
		}
	}
}
