package celltest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func fileCases() []testCase {
	return []testCase{
		{"Put lands under the working directory, byte for byte", testPut},
		{"Put gives the execute bit where asked, and only there", testExecutable},
		{"several Puts add up", testPutTwice},
		{"more than the scratch is refused before the program", testPutTooMuch},
		{"more files than the inodes are refused before the program", testPutTooMany},
	}
}

func collectCases() []testCase {
	return []testCase{
		{"regular files come out, the rest is missed with a reason", testCollect},
		{"a directory comes out whole", testDirectory},
		{"files over the count are missed", testCountCap},
		{"bytes over the cap are missed", testBytesCap},
		{"a sparse file counts by its length", testSparse},
		{"a directory over the caps is cut, and says so", testDirectoryCaps},
	}
}

func testPut(b *bench) {
	files := []envelope.File{
		{Name: "plain", Data: noise(5000)}, {Name: "a/b/c.bin", Data: noise(70_000)},
		{Name: "a/b/d", Data: []byte("d")}, {Name: "with space and ž", Data: []byte("ž")}, {Name: "empty", Data: []byte{}},
	}
	for _, f := range files {
		_, r := b.run(0, files, Streams, f.Name, "empty")
		if r.stdout.text() != string(f.Data) {
			b.Errorf("%q has %d bytes inside, or others; want %d", f.Name, len(r.stdout.text()), len(f.Data))
		}
	}
}

func testExecutable(b *bench) {
	files := []envelope.File{{Name: "tool", Data: []byte("#!/bin/sh\n"), Executable: true}, {Name: "note", Data: []byte("#!/bin/sh\n")}}
	b.run(0, files, Runnable, "tool")
	b.run(1, files, Runnable, "note")
}

func testPutTwice(b *bench) {
	c := b.open()
	for _, name := range []string{"one", "two"} {
		if err := c.Put([]envelope.File{{Name: name, Data: []byte(name)}}); err != nil {
			b.Fatal(err)
		}
	}
	cmd, r := b.command(Streams, "one", "two")
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
	if r.stdout.text() != "one" || r.stderr.text() != "two" {
		b.Errorf("got %q and %q", r.stdout.text(), r.stderr.text())
	}
}

// refusesFiles checks that files are refused by Put, or else by Exec before
// the program runs.
func (b *bench) refusesFiles(files []envelope.File, adjust func(*envelope.Envelope)) {
	b.Helper()
	c := b.open(adjust)
	err := c.Put(files)
	if err != nil {
		if _, execErr := c.Exec(b.context(), cell.Command{Argv: b.script(Exit, "0"), Env: environment()}); !errors.Is(execErr, cell.ErrState) {
			b.Errorf("Exec after a failed Put: %v, want ErrState", execErr)
		}
		return
	}
	cmd, r := b.command(Print, "ran")
	b.exec(c, cmd, r)
	if !errors.Is(r.err, cell.ErrNotStarted) || r.stdout.text() != "" {
		b.Errorf("Put took it; Exec: %+v, %v, output %q; want ErrNotStarted", r.exit, r.err, r.stdout.text())
	}
}

func testPutTooMuch(b *bench) {
	files := []envelope.File{{Name: "half", Data: make([]byte, 700_000)}, {Name: "other-half", Data: make([]byte, 700_000)}}
	b.refusesFiles(files, func(e *envelope.Envelope) { e.Files.Scratch = envelope.MiB })
}

func testPutTooMany(b *bench) {
	var files []envelope.File
	for i := range 200 {
		files = append(files, envelope.File{Name: fmt.Sprintf("f%d", i), Data: []byte("x")})
	}
	b.refusesFiles(files, func(e *envelope.Envelope) { e.Files.Inodes = 100 })
}

func roomy() envelope.OutputCaps { return envelope.OutputCaps{Count: 100, Bytes: envelope.MiB} }

// get collects names and returns what came as one text, for comparing.
func (b *bench) get(c cell.Cell, caps envelope.OutputCaps, names ...string) string {
	b.Helper()
	files, misses := b.collect(c, caps, names...)
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%s=%q ", f.Name, f.Data)
	}
	for _, m := range misses {
		fmt.Fprintf(&text, "%s! ", m.Name)
	}
	return strings.TrimSpace(text.String())
}

// collect collects names and checks what holds for every collection.
func (b *bench) collect(c cell.Cell, caps envelope.OutputCaps, names ...string) ([]envelope.File, []envelope.Miss) {
	b.Helper()
	var files []envelope.File
	var misses []envelope.Miss
	var err error
	b.within("Get", func() { files, misses, err = c.Get(b.context(), names, caps) })
	if err != nil {
		b.Fatalf("Get: %v", err)
	}
	var bytes int
	for _, f := range files {
		bytes += len(f.Data)
	}
	if len(files) > int(caps.Count) || bytes > int(caps.Bytes) {
		b.Errorf("%d files, %d bytes; the caps are %s and %s", len(files), bytes, caps.Count, caps.Bytes)
	}
	for _, m := range misses {
		if m.Name == "" || m.Why == "" {
			b.Errorf("a miss without a name or a reason: %+v", m)
		}
	}
	return files, misses
}

// ended opens a cell, runs a program in it and stops it.
func (b *bench) ended(kind Kind, args ...string) cell.Cell {
	b.Helper()
	c, _ := b.run(0, []envelope.File{{Name: "input", Data: []byte("in")}}, kind, args...)
	b.stop(c)
	return c
}

func testCollect(b *bench) {
	c := b.ended(Zoo)
	for _, one := range []struct{ name, want string }{
		{"plain", `plain="plain"`}, {"empty", `empty=""`}, {"input", `input="in"`}, {"dir/sub/c", `dir/sub/c="ccc"`},
		{"absent", "absent!"}, {"dir/absent", "dir/absent!"}, {"plain/below", "plain/below!"},
		{"link", "link!"}, {"away", "away!"}, {"nowhere", "nowhere!"}, {"fifo", "fifo!"}, {"dir", "dir!"},
		{"dirlink/a", "dirlink/a!"}, {"dir/link", "dir/link!"}, {"dir/fifo", "dir/fifo!"},
	} {
		if got := b.get(c, roomy(), one.name); got != one.want {
			b.Errorf("%s: got %s, want %s", one.name, got, one.want)
		}
	}
	if got, want := b.get(c, roomy(), "fifo", "plain", "absent", "dir/a"), `plain="plain" dir/a="a" fifo! absent!`; got != want {
		b.Errorf("together: got %s, want %s", got, want)
	}
	if got := b.get(c, roomy()); got != "" {
		b.Errorf("asked for nothing, got %s", got)
	}
}

func testDirectory(b *bench) {
	c := b.ended(Zoo)
	files, misses := b.collect(c, roomy(), "dir/")
	var names []string
	for _, f := range files {
		names = append(names, f.Name+"="+string(f.Data))
	}
	if want := []string{"dir/a=a", "dir/b=bb", "dir/sub/c=ccc"}; !slices.Equal(names, want) {
		b.Errorf("got %q, want %q, sorted by name", names, want)
	}
	var missed []string
	for _, m := range misses {
		missed = append(missed, m.Name)
	}
	slices.Sort(missed)
	if want := []string{"dir/fifo", "dir/link"}; !slices.Equal(missed, want) {
		b.Errorf("missed %q, want %q", missed, want)
	}
	for _, name := range []string{"plain/", "dirlink/", "absent/", "fifo/", "link/"} {
		if got, want := b.get(c, roomy(), name), name+"!"; got != want {
			b.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := b.get(c, roomy(), "void/"); got != "" {
		b.Errorf("an empty directory gives %s", got)
	}
}

func testCountCap(b *bench) {
	c := b.ended(Many, "5", "10")
	names := []string{"many/f0", "many/f1", "many/f2", "many/f3", "many/f4"}
	files, misses := b.collect(c, envelope.OutputCaps{Count: 2, Bytes: envelope.MiB}, names...)
	if len(files) != 2 || len(misses) != 3 {
		b.Errorf("%d files and %d misses, want 2 and 3", len(files), len(misses))
	}
	files, misses = b.collect(c, envelope.OutputCaps{Count: 0, Bytes: envelope.MiB}, names...)
	if len(files) != 0 || len(misses) != 5 {
		b.Errorf("a cap of no files: %d files and %d misses", len(files), len(misses))
	}
}

func testBytesCap(b *bench) {
	c := b.ended(Many, "3", "1000")
	names := []string{"many/f0", "many/f1", "many/f2"}
	for _, one := range []struct {
		bytes envelope.Size
		files int
	}{{3000, 3}, {2999, 2}, {1000, 1}, {999, 0}, {0, 0}} {
		files, misses := b.collect(c, envelope.OutputCaps{Count: 10, Bytes: one.bytes}, names...)
		if len(files) != one.files || len(misses) != 3-one.files {
			b.Errorf("cap %d: %d files and %d misses, want %d files, whole ones, in the order asked", one.bytes, len(files), len(misses), one.files)
		}
		for _, f := range files {
			if len(f.Data) != 1000 {
				b.Errorf("cap %d: %s is cut to %d bytes", one.bytes, f.Name, len(f.Data))
			}
		}
	}
}

func testSparse(b *bench) {
	c := b.ended(Sparse, "8000000")
	if got := b.get(c, roomy(), "sparse", "input"); got != `input="in" sparse!` {
		b.Errorf("got %d bytes: %.40s", len(got), got)
	}
}

func testDirectoryCaps(b *bench) {
	c := b.ended(Many, "200", "100")
	for _, caps := range []envelope.OutputCaps{{Count: 7, Bytes: envelope.MiB}, {Count: 1000, Bytes: 700}} {
		files, misses := b.collect(c, caps, "many/")
		if len(files) != 7 || len(misses) == 0 {
			b.Errorf("%d files and %d misses, want 7 and a word about the rest", len(files), len(misses))
		}
		for _, m := range misses {
			if !strings.HasPrefix(m.Name, "many/") {
				b.Errorf("a miss is named %q", m.Name)
			}
		}
	}
}
