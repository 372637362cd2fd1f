package userkernel_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	python string // a program, or
	shell  string // one
	change func(*envelope.Envelope)
	far    func(*ran) bool // whether it came as far as its wall time is to find it

	code, signal int
	cause        string
	says         string            // a pattern of all of its output; "" is anything
	events       string            // kinds, with a space between
	files        map[string]string // that it leaves
	lost         bool              // its files are
}

func (r *row) argv() []string {
	if r.python != "" {
		return []string{"/usr/bin/python3", "-c", r.python}
	}
	return []string{"/bin/sh", "-c", r.shell}
}

func (r *row) play(t *testing.T, g *ground) {
	s := shape()
	s.Envelope = small()
	if r.change != nil {
		r.change(&s.Envelope)
	}
	got, c := g.run(t, s, nil, r.argv()...)
	for r.far != nil && !r.far(got) && s.Envelope.Resources.Wall < longWall {
		s.Envelope.Resources.Wall *= 4
		got, c = g.run(t, s, nil, r.argv()...)
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
	const slack = 64 << 10 // the kernel's counter of the peak is a page or so beyond what it lets by
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

func graceful(d, grace time.Duration) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) {
		wall(d)(e)
		e.Cleanup.StopGrace = envelope.Duration(grace)
	}
}

// TestCeilings: each ends a program, or is told beside its end, and takes no
// neighbour.
func TestCeilings(t *testing.T) {
	g := newGround(t)
	n := newNeighbour(t, g)
	for _, rows := range [][]row{processRows(), memoryRows(), timeRows(), spaceRows()} {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				r.play(t, g)
				n.check(t)
			})
		}
	}
}

func processRows() []row {
	return []row{
		{name: "a fork bomb", says: `^stopped at 31\n$`, events: "processes", python: `
import os, time
n = 0
try:
    while n < 6000:
        if os.fork() == 0: time.sleep(600); os._exit(0)
        n += 1
except OSError: print("stopped at", n)`},
		{name: "a bomb of threads", says: `^stopped at 31\n$`, python: `
import threading, time
n = 0
try:
    while n < 6000: threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); n += 1
except RuntimeError: print("stopped at", n)`},
		{name: "a fork bomb in which everybody forks", change: wall(time.Second), far: func(r *ran) bool { return len(r.exit.Events) > 0 },
			code: -1, signal: 9, cause: cell.CauseWall, events: "processes",
			shell: `exec bash -c 'b() { b | b & }; b 2>/dev/null; while :; do wait; done'`},
		{name: "more processes than it may have", code: 2, says: `Cannot fork`, events: "processes",
			change: func(e *envelope.Envelope) { e.Resources.Pids = 6 }, shell: `i=0; while [ $i -lt 20 ]; do sleep 600 & i=$((i+1)); done`},
		{name: "processes that live for a moment", change: wall(time.Second), code: -1, signal: 9, cause: cell.CauseWall, python: `
import os
while True:
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)`},
	}
}

func memoryRows() []row {
	rows := []row{
		{name: "memory of its own", python: `open("f","w").write("x"); x = bytearray(600 << 20); x[::4096] = b"1" * len(x[::4096])`},
		{name: "memory in pieces", python: "open('f','w').write('x'); l = []\nwhile True: l.append(bytearray(1 << 16))"},
		{name: "shared memory", python: "open('f','w').write('x'); import mmap\nm = mmap.mmap(-1, 600 << 20)\nfor i in range(0, 600 << 20, 4096): m[i] = 1"},
		{name: "files of the scratch", shell: `echo >f; while :; do cat /dev/zero >>g; done`, change: func(e *envelope.Envelope) { e.Files.Scratch = 2 * envelope.GiB }},
	}
	for i := range rows {
		r := &rows[i]
		r.code, r.signal, r.cause, r.events, r.files, r.lost = -1, 9, cell.CauseMemory, "memory", map[string]string{"f": ""}, true
	}
	return rows
}

func timeRows() []row {
	kept := map[string]string{"f": "kept\n"}
	if unhurried() > 1 {
		kept = nil // the guest may not come to its end of the program before the host does
	}
	cpu := func(e *envelope.Envelope) { e.Resources.CPUTime = envelope.Duration(time.Second * unhurried()) }
	return []row{
		{name: "deaf to every signal, in a loop", change: wall(400 * time.Millisecond), far: began, code: -1, signal: 9, cause: cell.CauseWall, files: kept,
			shell: `echo kept >f; echo on; exec sh -c 'trap "" TERM INT HUP; while :; do :; done'`},
		{name: "ends what it began when asked to", change: graceful(400*time.Millisecond, 20*time.Second), far: began, code: 3, cause: cell.CauseWall, says: "(?m)^bye$",
			files: map[string]string{"f": "saved\n"}, shell: `trap 'echo saved >f; echo bye; exit 3' TERM; echo on; while :; do sleep 0.01; done`},
		{name: "is asked to end before its children are", change: graceful(2*time.Second, 20*time.Second), far: began, code: 7, cause: cell.CauseWall, python: `
import os, signal, time
for _ in range(20):
    if os.fork() == 0: time.sleep(600); os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
print("on", flush=True)
os.wait()
os._exit(9)`},
		{name: "deaf in its grace too", change: graceful(400*time.Millisecond, 300*time.Millisecond), far: began, code: -1, signal: 9, cause: cell.CauseWall,
			shell: `trap '' TERM; echo on; while :; do :; done`},
		{name: "CPU time, by many processes together", change: cpu, code: -1, signal: 9, cause: cell.CauseCPU, files: kept,
			shell: `echo kept >f; for i in 1 2 3 4; do (while :; do :; done) & done; wait`},
	}
}

func spaceRows() []row {
	return []row{
		{name: "a full scratch", code: 1, events: "disk", says: "No space left", shell: `cat /dev/zero >g`},
		{name: "no inode left", code: 2, events: "disk", says: "No space left", change: func(e *envelope.Envelope) { e.Files.Inodes = 50 },
			shell: `set -e; i=0; while :; do : >f$i; i=$((i+1)); done`},
		{name: "a file over its size ends a child of the program", says: "(?m)^on$", events: "file_size",
			change: func(e *envelope.Envelope) { e.Resources.FileSize = 16 * envelope.KiB }, shell: `(cat /dev/zero >f) 2>/dev/null; echo on`},
		{name: "a file over its size ends who writes it", code: -1, signal: int(unix.SIGXFSZ), events: "file_size",
			change: func(e *envelope.Envelope) { e.Resources.FileSize = 16 * envelope.KiB }, files: map[string]string{"f": strings.Repeat("x", 16<<10)}, python: `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("f", "wb", 0) as f:
    while True: f.write(b"x" * 1000)`},
		{name: "more descriptors than it may open", says: `^EMFILE 25[0-9]\n$`, python: `
import os
n = 0
try:
    while True: os.open("x%d" % n, os.O_CREAT); n += 1
except OSError as e: print("EMFILE", n) if e.errno == 24 else print(e)`},
		{name: "an output that ends the call", code: -1, signal: 9, cause: cell.CauseOutput, shell: `yes`},
	}
}
