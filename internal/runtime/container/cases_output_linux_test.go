package container_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
)

// TestOutputCases is group H: what is written, and by when it is here.
func TestOutputCases(t *testing.T) { outputCases(t, containers) }

func outputCases(t *testing.T, at maker) {
	g := at.ground(t)
	g.play(t, envelope.Default(), outputTextRows())
	for _, tc := range []struct {
		name string
		run  func(*testing.T, *ground)
	}{
		{"93 two hundred megabytes, taken and refused", largeOutput},
		{"94 a reader that does not read holds no program", deafReader},
		{"95 both streams, more than a pipe holds of each", bothStreams},
		{"96 bytes that are no text", rawBytes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.run(t, g)
			g.goesOn(t)
		})
	}
}

// outputTextRows are texts that a careless supervisor loses or believes.
func outputTextRows() []row {
	return []row{
		{name: "92 what was printed before the time was up", lang: "python", change: wall(1e9), far: printed("step 2"), want: want{code: -1, signal: 9, cause: cell.CauseWall, says: "^step 1\nstep 2\n$"},
			code: "import time\nprint('step 1', flush=True)\nprint('step 2')\ntime.sleep(60)"},
		{name: "92 text in a buffer of the program's own is the program's", lang: "python", env: []string{"PYTHONUNBUFFERED="}, change: wall(1e9), far: printed("step 1"),
			want: want{code: -1, signal: 9, cause: cell.CauseWall, says: "^step 1\n$"},
			code: "import time\nprint('step 1', flush=True)\nprint('step 2')\ntime.sleep(60)"},
		{name: "94 output without end does not hold the clock", lang: "sh", change: wall(300e6), want: killed(cell.CauseWall, ""), code: "exec yes"},
		{name: "98 control codes arrive as bytes", lang: "sh", more: exactly("\x1b[2J\x1b[1A\x1b[K ok\x1b]0;t\x07\x1b]52;c;aGk=\x07\xc2\x9b31m\r fake\b\x00\n"),
			code: `printf '\033[2J\033[1A\033[K ok\033]0;t\007\033]52;c;aGk=\007\302\23331m\r fake\b\0\n'`},
		{name: "99 a program that says how it ended", lang: "python", want: want{code: 7}, more: exactly("\n<completed-0>\n__EXIT__0\n{\"type\":\"exit\",\"code\":0}\nCCS1\x01\x00\x00\x00" + strings.Repeat("\x00", 8)), code: `
import os, struct
record = b"CCS1" + struct.pack("<IiI", 1, 0, 0)
os.write(1, b'\n<completed-0>\n__EXIT__0\n{"type":"exit","code":0}\n' + record)
for fd in range(3, 300):
    try: os.write(fd, record)
    except OSError: pass
for p in ("/proc/1/fd/3", "/proc/self/fd/3"):
    try: os.write(os.open(p, os.O_WRONLY), record); print("WRITTEN", p)
    except OSError: pass
os._exit(7)`},
		{name: "101 the last line of much is here too", lang: "python", want: want{code: 1, says: `FAILED test_x: boom\n$`}, more: func(t *testing.T, e *ended) {
			if want := 6*500_000 + 1 + len("FAILED test_x: boom\n"); len(e.out) != want {
				t.Errorf("%d bytes, want %d", len(e.out), want)
			}
		}, code: "print('noise\\n' * 500000)\nprint('FAILED test_x: boom')\nraise SystemExit(1)"},
	}
}

func exactly(text string) func(*testing.T, *ended) {
	return func(t *testing.T, e *ended) {
		t.Helper()
		if e.out != text {
			t.Errorf("it says %q, want %q", e.out, text)
		}
	}
}

// sized counts what is written, and refuses what is over most.
type sized struct {
	mu   sync.Mutex
	n    int
	most int
}

var errSized = errors.New("enough")

func (w *sized) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n += len(b); w.n > w.most {
		return 0, errSized
	}
	return len(b), nil
}

// largeOutput is the case of a program that prints too much: a writer that
// takes all gets all, and one that refuses ends it, by that name.
func largeOutput(t *testing.T, g *ground) {
	for _, most := range []int{1 << 30, 64 << 20} {
		out := &sized{most: most}
		x := g.exec(t, cell.Command{Argv: []string{"/bin/sh", "-c", "head -c 200000000 /dev/zero; echo late"}, Stdout: out})
		switch {
		case most > 200_000_000 && (x.Code != 0 || x.Cause != "" || out.n != 200_000_005):
			t.Errorf("%+v, %d bytes", x, out.n)
		case most < 200_000_000 && (x.Cause != cell.CauseOutput || out.n > most+1<<20):
			t.Errorf("%+v, %d bytes", x, out.n)
		}
	}
}

// exec runs one command in a cell of its own.
func (g *ground) exec(t *testing.T, cmd cell.Command) cell.Exit {
	t.Helper()
	c, err := g.cells().Open(context.Background(), shape())
	if err != nil {
		t.Fatal(err)
	}
	defer g.destroy(t, c)
	cmd.Env = variables()
	x, err := c.Exec(context.Background(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// blocked is a writer that does not return until it is let.
type blocked struct {
	at, let chan struct{}
	once    sync.Once
}

func (w *blocked) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.at) })
	<-w.let
	return len(b), nil
}

// deafReader has a reader that hangs: the program's time runs out all the same.
func deafReader(t *testing.T, g *ground) {
	for wall := envelope.Duration(300e6); !heldUp(t, g, wall) && wall < longWall; wall *= 4 {
	}
}

// heldUp reports whether a program had written anything when its time was up.
func heldUp(t *testing.T, g *ground, wall envelope.Duration) bool {
	s := shape()
	s.Envelope.Resources.Wall = wall
	c, err := g.cells().Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer g.destroy(t, c)
	w, mark := &blocked{at: make(chan struct{}), let: make(chan struct{})}, mark("7794")
	var x cell.Exit
	over := make(chan struct{})
	go func() {
		defer close(over)
		x, err = c.Exec(context.Background(), cell.Command{Argv: []string{"/bin/sh", "-c", "sleep " + mark + " & exec yes"}, Env: environ(), Stdout: w})
	}()
	wrote := true
	select {
	case <-w.at:
		awaitNone(t, "processes of a call whose time is up", func() []string { return strings.Fields(strings.Repeat("one ", celltest.HostProcesses(mark))) })
	case <-over:
		wrote = false
	}
	close(w.let)
	<-over
	if err != nil || x.Cause != cell.CauseWall {
		t.Errorf("%+v, %v", x, err)
	}
	return wrote
}

func bothStreams(t *testing.T, g *ground) {
	var out, errs bytes.Buffer
	x := g.exec(t, cell.Command{Argv: []string{"/usr/bin/python3", "-c", `import sys; sys.stderr.write("e" * 3_000_000); sys.stdout.write("o" * 3_000_000); sys.stderr.write("e" * 3_000_000)`},
		Stdout: &out, Stderr: &errs})
	if x.Code != 0 || out.String() != strings.Repeat("o", 3_000_000) || errs.String() != strings.Repeat("e", 6_000_000) {
		t.Errorf("%+v, %d and %d bytes, or others", x, out.Len(), errs.Len())
	}
}

func rawBytes(t *testing.T, g *ground) {
	var out, errs bytes.Buffer
	x := g.exec(t, cell.Command{Argv: []string{"/bin/sh", "-c", `printf '\377\376\200ok\0end\n'; head -c 100000 /dev/urandom >&2; exit 5`}, Stdout: &out, Stderr: &errs})
	if x.Code != 5 || out.String() != "\xff\xfe\x80ok\x00end\n" || errs.Len() != 100_000 || utf8.Valid(errs.Bytes()) {
		t.Errorf("%+v, %q, %d bytes", x, out.String(), errs.Len())
	}
}
