package userkernel_test

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// small is an envelope whose ceilings are quickly met.
func small() envelope.Envelope {
	e := envelope.Default()
	e.Resources.Memory, e.Resources.Pids, e.Resources.FileSize = 128*envelope.MiB, 32, 2*envelope.GiB
	e.Resources.Wall, e.Files.Scratch = envelope.Duration(60*time.Second*unhurried()), 16*envelope.MiB
	e.Resources.CPUTime *= envelope.Duration(unhurried())
	return e
}

// A row is one program that takes what it can get, and how that ends.
type row struct {
	name   string
	shell  string // the program
	change func(*envelope.Envelope)
	far    func(*ran) bool // whether it came as far as its wall time is to find it

	code, signal int
	cause        string
	says         string            // a pattern of all of its output; "" is anything
	events       string            // kinds, with a space between
	files        map[string]string // that it leaves
	lost         bool              // its files are
}

func (r *row) play(t *testing.T, g *ground) {
	s := shape()
	s.Envelope = small()
	if r.change != nil {
		r.change(&s.Envelope)
	}
	got, c := g.run(t, s, nil, "/bin/sh", "-c", r.shell)
	for r.far != nil && !r.far(got) && s.Envelope.Resources.Wall < longWall {
		s.Envelope.Resources.Wall *= 4
		got, c = g.run(t, s, nil, "/bin/sh", "-c", r.shell)
	}
	x := got.exit
	if got.err != nil || x.Code != r.code || x.Signal != r.signal || x.Cause != r.cause {
		t.Fatalf("%+v, %v\n%s%s", x, got.err, got.out.data, got.say.data)
	}
	if all := string(got.out.data) + string(got.say.data); !regexp.MustCompile(r.says).MatchString(all) {
		t.Errorf("it says %q, want %s", all, r.says)
	}
	var kinds []string
	for _, e := range x.Events {
		kinds = append(kinds, e.Kind)
	}
	slices.Sort(kinds)
	if strings.Join(kinds, " ") != r.events {
		t.Errorf("events %+v, want %q", x.Events, r.events)
	}
	const slack = 1 << 20 // the kernel's counter of the peak is a little beyond what it lets by
	if most := int64(s.Envelope.Resources.Memory) + sentryMemory + slack; x.Memory > most {
		t.Errorf("the peak is %d, the ceiling %d", x.Memory, most)
	}
	r.collect(t, c)
}

// sentryMemory is the default of runsc.memory.
const sentryMemory = 96 << 20

// longWall is enough for a program to come as far as it is to, on any machine.
const longWall = envelope.Duration(30 * time.Second)

// began is how far a program came that says so.
func began(r *ran) bool { return strings.Contains(string(r.out.data), "on\n") }

func (r *row) collect(t *testing.T, c cell.Cell) {
	t.Helper()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range r.files {
		files, misses, err := c.Get(t.Context(), []string{name}, envelope.OutputCaps{Count: 4, Bytes: envelope.MiB})
		switch {
		case err != nil:
			t.Error(err)
		case r.lost && (len(files) > 0 || len(misses) != 1 || misses[0].Why != "lost with the cell's memory"):
			t.Errorf("%s: %d files, %+v", name, len(files), misses)
		case !r.lost && (len(files) != 1 || string(files[0].Data) != want):
			t.Errorf("%s: %d files, %+v", name, len(files), misses)
		}
	}
}

func wall(d time.Duration) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) { e.Resources.Wall = envelope.Duration(d * unhurried()) }
}

// TestCeilings: each ends a program, or is told beside its end, and takes no
// neighbour. What becomes of the files is said here; the programs that take what
// they can get in every way are those of TestCasesAtUserkernel.
func TestCeilings(t *testing.T) {
	g := newGround(t)
	n := newNeighbour(t, g)
	for _, r := range ceilingRows() {
		t.Run(r.name, func(t *testing.T) {
			r.play(t, g)
			n.check(t)
		})
	}
}

// TestManyTinyCells asks for cells of a mebibyte, all at once: each is refused, or
// ends by its ceiling, and everybody else goes on.
func TestManyTinyCells(t *testing.T) {
	g := newGround(t)
	n := newNeighbour(t, g)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { g.tiny(t) })
	}
	all.Wait()
	n.check(t)
	if r, _ := g.run(t, shape(), nil, "/bin/true"); r.err != nil || r.exit.Code != 0 {
		t.Errorf("the next call: %+v, %v", r.exit, r.err)
	}
}

// tiny is one of them, whose program takes what memory there is.
func (g *ground) tiny(t *testing.T) {
	s := shape()
	s.Envelope.Resources.Memory = envelope.MiB
	c, err := g.Open(t.Context(), s)
	var refused *cell.Error
	if err != nil {
		if !errors.As(err, &refused) {
			t.Errorf("Open: %v", err)
		}
		return
	}
	defer closed(t, c)
	x, err := c.Exec(t.Context(), cell.Command{Argv: []string{"/bin/sh", "-c", `exec tail /dev/zero`}, Env: environ(), Stdout: io.Discard, Stderr: io.Discard})
	if err == nil && x.Cause != cell.CauseMemory || err != nil && !errors.Is(err, cell.ErrBroken) && !errors.As(err, &refused) {
		t.Errorf("%+v, %v", x, err)
	}
}

func ceilingRows() []row {
	kept := map[string]string{"f": "kept\n"}
	if unhurried() > 1 {
		kept = nil // the guest may not come to its end of the program before the host does
	}
	cpu := func(e *envelope.Envelope) { e.Resources.CPUTime = envelope.Duration(time.Second * unhurried()) }
	return []row{
		{name: "more processes than it may have", code: 2, says: `Cannot fork`, events: "processes",
			change: func(e *envelope.Envelope) { e.Resources.Pids = 6 }, shell: `i=0; while [ $i -lt 20 ]; do sleep 600 & i=$((i+1)); done`},
		{name: "files of the scratch", code: -1, signal: 9, cause: cell.CauseMemory, events: "memory", files: map[string]string{"f": ""}, lost: true,
			change: func(e *envelope.Envelope) { e.Files.Scratch = 2 * envelope.GiB }, shell: `echo >f; while :; do cat /dev/zero >>g; done`},
		{name: "deaf to every signal, in a loop", change: wall(400 * time.Millisecond), far: began, code: -1, signal: 9, cause: cell.CauseWall, files: kept,
			shell: `echo kept >f; echo on; exec sh -c 'trap "" TERM INT HUP; while :; do :; done'`},
		{name: "CPU time, by many processes together", change: cpu, code: -1, signal: 9, cause: cell.CauseCPU, files: kept,
			shell: `echo kept >f; for i in 1 2 3 4; do (while :; do :; done) & done; wait`},
		{name: "a full scratch", code: 1, events: "disk", says: "No space left", shell: `cat /dev/zero >g`},
		{name: "no inode left", code: 2, events: "disk", says: "No space left", change: func(e *envelope.Envelope) { e.Files.Inodes = 50 },
			shell: `set -e; i=0; while :; do : >f$i; i=$((i+1)); done`},
	}
}
