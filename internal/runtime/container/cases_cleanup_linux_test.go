package container_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
)

// TestCleanupCases is group G: what could outlive a call.
func TestCleanupCases(t *testing.T) { cleanupCases(t, containers) }

func cleanupCases(t *testing.T, at maker) {
	g := at.ground(t)
	g.play(t, envelope.Default(), outliveRows())
	g.play(t, envelope.Default(), leftoverRows())
	t.Run("87 many calls at once, half of them dropped", func(t *testing.T) { g.many(t, g.fewer(200), g.fewer(20)) })
	t.Run("90 nothing is made where people work", func(t *testing.T) { g.places90(t) })
}

// fewer is a third of so many, where a call takes so much longer.
func (g *ground) fewer(calls int) int {
	if g.own != nil {
		return calls / 3
	}
	return calls
}

// gone checks that no process of the host has the mark in its arguments.
func gone(mark string) func(*testing.T, *ended) {
	return func(t *testing.T, e *ended) {
		t.Helper()
		if n := celltest.HostProcesses(mark); n > 0 {
			t.Errorf("%d processes with %s are alive", n, mark)
		}
	}
}

// mark is an argument that no other process has.
func mark(number string) string { return number + "." + strconv.Itoa(os.Getpid()) }

// outliveRows leave processes behind.
func outliveRows() []row {
	sleeper, daemon, group, deaf := mark("7778"), mark("7779"), mark("7780"), mark("7781")
	return []row{
		{name: "82 children in sessions of their own", lang: "sh", more: gone(sleeper), want: want{code: 3},
			code: "setsid sh -c 'exec sleep " + sleeper + "' & (sh -c 'setsid nohup sleep " + sleeper + " >/dev/null 2>&1 &'); exit 3"},
		{name: "82 children in sessions of their own, when time is up", lang: "sh", more: gone(group), change: wall(300e6), want: killed(cell.CauseWall, ""),
			code: "setsid sleep " + group + " & (setsid nohup sleep " + group + " >/dev/null 2>&1 &); sleep " + group},
		{name: "82 a daemon that cut every tie and hears no signal", lang: "python", more: gone(daemon), want: want{says: "^ready\n$"}, code: `
import ctypes, os, signal
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        for s in range(1, 32):
            try: signal.signal(s, signal.SIG_IGN)
            except OSError: pass
        os.chdir("/"); os.write(w, b"x")
        for fd in (0, 1, 2, r): os.close(fd)
        os.set_inheritable(w, True)
        os.execv("/bin/sleep", ["sleep", "` + daemon + `"])
    os._exit(0)
os.read(r, 1); print("ready")`},
		{name: "83 what is written after the time is up", lang: "sh", change: wall(300e6), far: printed("on\n"), want: killed(cell.CauseWall, ""), take: []string{"late", "early"},
			code: "echo early >early; echo on; (trap '' TERM HUP; sleep 3; echo late >late) & setsid sh -c 'sleep 3; echo late >late; sleep " + deaf + "' & sleep 60",
			more: func(t *testing.T, e *ended) {
				taken(map[string]string{"early": "early\n"}, "late")(t, e)
				gone(deaf)(t, e)
			}},
	}
}

// leftoverRows leave files behind that are hard to remove.
func leftoverRows() []row {
	return []row{
		{name: "89 files and directories that nobody may touch", lang: "python", take: []string{"locked/", "locked/in/f", "sealed"}, want: want{says: "^done\n$"}, code: `
import fcntl, os, struct
os.makedirs("locked/in"); open("locked/in/f", "w").write("x"); os.chmod("locked/in/f", 0); os.chmod("locked/in", 0); os.chmod("locked", 0)
f = os.open("sealed", os.O_CREAT | os.O_RDWR, 0)
for flags in (0x10, 0x20, 0x30):
    try: fcntl.ioctl(f, 0x40086602, struct.pack("l", flags))
    except OSError: pass
os.chmod("/work", 0); os.chmod("/tmp", 0); os.chmod("/dev/shm", 0)
print("done")`,
			more: taken(map[string]string{"locked/in/f": "x", "sealed": ""})},
		{name: "89 names of raw bytes, and of full length", lang: "python", take: []string{"d/"}, want: want{says: "^done\n$"}, code: `
import os
os.mkdir("d")
for n in (b"\xff\n", b"\x1b[2J", b"a" * 255, b"\xe2\x80\xae" * 85, b" ", b"-", b"..."): open(b"d/" + n, "w").close()
print("done")`, more: func(t *testing.T, e *ended) {
			names := make([]string, 0, len(e.files))
			for name := range e.files {
				names = append(names, name)
			}
			slices.Sort(names)
			if len(e.files)+len(e.misses) != 7 || len(e.files) < 2 {
				t.Errorf("taken %q, missed %q", names, e.misses)
			}
		}},
		{name: "89 long names, four thousand deep", lang: "python", want: want{says: "^4000\n$"}, code: `
import os
n = 0
for n in range(1, 4001): os.mkdir("d" * 255); os.chdir("d" * 255)
print(n)`},
		{name: "89 a mount left behind, and a directory that was left", lang: "sh", want: want{says: "^done\n$"}, own: func(r *row) { r.want.says = "^unshared\ndone\n$" },
			code: `mount -t tmpfs x /tmp 2>/dev/null && echo mounted; unshare -Urm true 2>/dev/null && echo unshared; mkdir d; cd d; rmdir ../d; exec 9>/tmp/f; rm /tmp/f; echo x >&9; echo done`},
	}
}

// many makes calls by clients who drop half of them as soon as they have begun.
func (g *ground) many(t *testing.T, calls, clients int) {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := range calls / clients {
				g.drop(t, n%2 == 0)
			}
		})
	}
	all.Wait()
	if left := g.strays(); g.own == nil && len(left) > neighbourMost {
		t.Errorf("processes that are alive: %q", left)
	}
	g.goesOn(t)
}

// neighbourMost is how many processes the neighbour has at most: its first one,
// itself, and a child. Those of a kernel of its own come and go.
const neighbourMost = 3

// drop makes one call, and goes away in the middle of it or not.
func (g *ground) drop(t *testing.T, dropped bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := g.cells().Open(ctx, shape())
	if err != nil {
		t.Error(err)
		return
	}
	defer g.destroy(t, c)
	out := &signalWriter{at: make(chan struct{})}
	argv := []string{"/bin/sh", "-c", "echo ready; setsid sleep 600 & exit 0"}
	if dropped {
		argv[2] = "echo ready; setsid sleep 600 & sleep 600"
		go func() { <-out.at; cancel() }()
	}
	x, err := c.Exec(ctx, cell.Command{Argv: argv, Env: environ(), Stdout: out, Stderr: io.Discard})
	if err != nil || dropped != (x.Cause == cell.CauseCancel) {
		t.Errorf("dropped %v: %+v, %v", dropped, x, err)
	}
}

// places90 makes calls and looks at the directories that other sandboxes
// litter.
func (g *ground) places90(t *testing.T) {
	before := litter(t)
	for range g.fewer(50) {
		one(t, g.cells(), "/usr/bin/true")
	}
	awaitNone(t, "what was not there before", func() []string { // others come and go
		return slices.DeleteFunc(litter(t), func(name string) bool { return slices.Contains(before, name) })
	})
}

// litter is what is in the working directory and in the host's /run and
// /dev/shm, but for the place that all launchers share. What others make in /tmp
// meanwhile is theirs.
func litter(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*", ".*", "/run/*", "/dev/shm/*", "/tmp/.callcell*", "/tmp/scratch*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "/run/callcell" })
}
