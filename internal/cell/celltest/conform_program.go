package celltest

import (
	"bytes"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func programCases() []testCase {
	return []testCase{
		{"arguments arrive as they are", testArguments},
		{"a name without a slash is looked up in the cell's PATH", testLookup},
		{"the environment is exactly what was given", testEnvironment},
		{"the working directory is HOME and can be written", testHome},
		{"stdin is what was given, binary and long", testStdin},
		{"no stdin is the end at once", testNoStdin},
		{"stdin that nobody reads hinders nothing", testUnreadStdin},
		{"stdout and stderr are apart, and bytes", testStreams},
		{"all of a long output arrives", testLongOutput},
		{"nil writers swallow", testNilWriters},
		{"exit codes", testExitCodes},
		{"signals", testSignals},
		{"usage is counted or said to be unknown", testUsage},
	}
}

// noise returns n bytes that look like nothing: every value, NUL and broken
// UTF-8 among them, and the same ones each time.
func noise(n int) []byte {
	source := rand.NewChaCha8([32]byte{1})
	data := make([]byte, n)
	_, _ = source.Read(data)
	for i := range min(n, 256) {
		data[i] = byte(i)
	}
	return data
}

func testArguments(b *bench) {
	args := []string{"a b", "", "-n", "*", "$HOME", "`id`", "'\"", "line\nline", "\xff\x80", "žluťoučký", strings.Repeat("x", 8000)}
	_, r := b.run(0, nil, Print, args...)
	if want := strings.Join(args, "\x00") + "\x00"; r.stdout.text() != want {
		b.Errorf("got %q, want %q", r.stdout.text(), want)
	}
}

func testLookup(b *bench) {
	c := b.open()
	cmd, r := b.command(Print, "found")
	cmd.Argv[0] = path.Base(cmd.Argv[0])
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
	if r.stdout.text() != "found\x00" {
		b.Errorf("got %q", r.stdout.text())
	}
}

func testEnvironment(b *bench) {
	c := b.open()
	cmd, r := b.command(Env)
	cmd.Env = []string{"B=2", "A=one two", "EMPTY=", "LINES=a\nb", "EQ==x=", "PATH=/usr/bin:/bin"}
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
	got := strings.Split(strings.TrimSuffix(r.stdout.text(), "\x00"), "\x00")
	slices.Sort(got)
	want := slices.Sorted(slices.Values(cmd.Env))
	if !slices.Equal(got, want) {
		b.Errorf("got %q, want exactly %q", got, want)
	}
}

func testHome(b *bench) {
	if b.h.Elsewhere {
		b.Skip("the working directory of this runtime is elsewhere")
	}
	_, r := b.run(0, nil, Home)
	if want := cell.WorkDir + "\n" + cell.WorkDir + "\n"; r.stdout.text() != want {
		b.Errorf("got %q, want %q", r.stdout.text(), want)
	}
}

func testStdin(b *bench) {
	for _, size := range []int{1, 65_536, 1 << 20} {
		c := b.open()
		cmd, r := b.command(Cat)
		cmd.Stdin = noise(size)
		b.exec(c, cmd, r)
		b.checkExit(r, 0)
		if r.stdout.text() != string(cmd.Stdin) {
			b.Errorf("%d bytes in, %d out, or others", size, len(r.stdout.text()))
		}
	}
}

func testNoStdin(b *bench) {
	_, r := b.run(0, nil, Cat)
	if r.stdout.text() != "" {
		b.Errorf("read %q from nothing", r.stdout.text())
	}
}

func testUnreadStdin(b *bench) {
	c := b.open()
	cmd, r := b.command(Print, "deaf")
	cmd.Stdin = make([]byte, 1<<20)
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
	if r.stdout.text() != "deaf\x00" {
		b.Errorf("got %q", r.stdout.text())
	}
}

func testStreams(b *bench) {
	out, errs := noise(100_000), bytes.Repeat([]byte{0, 0xff, '\r', '\n'}, 20_000)
	_, r := b.run(0, []envelope.File{{Name: "out", Data: out}, {Name: "err", Data: errs}}, Streams, "out", "err")
	if r.stdout.text() != string(out) || r.stderr.text() != string(errs) {
		b.Errorf("stdout has %d bytes of %d, stderr %d of %d, or others", len(r.stdout.text()), len(out), len(r.stderr.text()), len(errs))
	}
}

func testLongOutput(b *bench) {
	const size = 8 << 20
	_, r := b.run(0, nil, Zeros, strconv.Itoa(size))
	if got := len(r.stdout.text()); got != size {
		b.Errorf("%d bytes arrived, want %d", got, size)
	}
}

func testNilWriters(b *bench) {
	c := b.open()
	cmd, r := b.command(Zeros, "100000")
	cmd.Stdout, cmd.Stderr = nil, nil
	b.exec(c, cmd, r)
	b.checkExit(r, 0)
}

func testExitCodes(b *bench) {
	codes := []int{0, 1, 2, 77, 126, 127, 128, 137, 254, 255}
	if !b.h.Slow {
		codes = codes[:0]
		for code := range 256 {
			codes = append(codes, code)
		}
	}
	for _, code := range codes {
		c, _ := b.run(code, nil, Exit, strconv.Itoa(code))
		b.destroy(c)
	}
}

func testSignals(b *bench) {
	for _, signal := range []int{6, 9, 10, 11, 15} {
		c := b.open()
		cmd, r := b.command(Signal, strconv.Itoa(signal))
		b.exec(c, cmd, r)
		if r.err != nil {
			b.Fatalf("signal %d: %v", signal, r.err)
		}
		if e := r.exit; e.Signal != signal || e.Code != -1 || e.Cause != "" {
			b.Errorf("signal %d: code %d, signal %d, cause %q", signal, e.Code, e.Signal, e.Cause)
		}
		b.destroy(c)
	}
}

func testUsage(b *bench) {
	_, r := b.run(0, nil, Zeros, "1000000")
	e := r.exit
	if e.Wall <= 0 || e.Wall > b.h.Patience || e.CPU < 0 || e.Memory < -1 || e.Pids < -1 || e.Scratch < -1 {
		b.Errorf("usage is %+v", e)
	}
	for _, event := range e.Events {
		b.Errorf("a call that met no ceiling has the event %+v", event)
	}
}
