package container_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/runtime/link"
)

// TestDeathCases is the part of groups G and I in which our own processes die
// or hang. Each has a ground of its own.
func TestDeathCases(t *testing.T) { deathCases(t, containers) }

func deathCases(t *testing.T, at maker) {
	for _, tc := range []struct {
		name     string
		strike   func(t *testing.T, g *ground)
		complete bool // the teardown is, without a next launcher
	}{
		{"85 the launcher is killed while a program runs", func(t *testing.T, g *ground) {
			launcher, _ := g.ours(t)
			signal(t, unix.SIGKILL, launcher)
		}, true},
		{"85 launcher and reaper are killed while a program runs", func(t *testing.T, g *ground) {
			launcher, reaper := g.ours(t)
			killBoth(t, launcher, reaper)
		}, false},
		{"108 the cell's first process is killed from outside", func(t *testing.T, g *ground) { signal(t, unix.SIGKILL, g.init(t)) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := at(t, link.Config{})
			p := g.begin(t, context.Background())
			tc.strike(t, g)
			if _, err := p.end(); !errors.Is(err, cell.ErrBroken) {
				t.Errorf("Exec: %v, want ErrBroken", err)
			}
			if report := p.cell.Close(context.Background()); report.Complete != tc.complete {
				t.Errorf("teardown: %+v", report)
			}
			if tc.complete {
				gone(p.mark)(t, nil)
				awaitNone(t, "processes of the cell", g.strays) // those of a kernel of its own have no mark
			}
			one(t, g.cells(), "/usr/bin/true")
			awaitNone(t, "processes of the dead launcher's cell", func() []string {
				return append(g.strays(), strings.Fields(strings.Repeat("one ", celltest.HostProcesses(p.mark)))...)
			})
		})
	}
	t.Run("86 a launcher that hangs while cells are made", func(t *testing.T) { hangingOpens(t, at) })
	t.Run("86 a launcher that hangs for good", func(t *testing.T) { hangingExec(t, at) })
}

// ours are the launcher and its reaper.
func (g *ground) ours(t *testing.T) (launcher, reaper int) {
	t.Helper()
	launcher, reaper, err := g.runtime.Launcher()
	if err != nil {
		t.Fatal(err)
	}
	return launcher, reaper
}

// init is the first process of the one cell there is: the one that none of its
// others has made.
func (g *ground) init(t *testing.T) int {
	t.Helper()
	var pids []int
	for _, line := range g.strays() {
		pid, _ := strconv.Atoi(strings.Fields(line)[1])
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if parent := parentOf(pid); parent != 0 && !slices.Contains(pids, parent) {
			return pid
		}
	}
	t.Fatalf("no first process among %q", g.strays())
	return 0
}

// parentOf is who made a process; 0 where that is gone.
func parentOf(pid int) int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	if f := strings.Fields(rest); len(f) > 1 {
		parent, _ := strconv.Atoi(f[1])
		return parent
	}
	return 0
}

func signal(t *testing.T, s unix.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := unix.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
}

// killBoth kills a launcher and its reaper. The launcher is held meanwhile: it
// ends by itself of the reaper's death, and there would be nothing to kill.
func killBoth(t *testing.T, launcher, reaper int) {
	t.Helper()
	signal(t, unix.SIGSTOP, launcher)
	signal(t, unix.SIGKILL, reaper, launcher)
}

// A program is one that runs until it is ended, with a child of its own mind.
type program struct {
	cell cell.Cell
	mark string
	end  func() (cell.Exit, error) // waits for Exec
}

// begin starts one, and returns when it runs.
func (g *ground) begin(t *testing.T, ctx context.Context) *program {
	t.Helper()
	return g.beginMarked(t, ctx, "7785")
}

// beginMarked is begin for one of several.
func (g *ground) beginMarked(t *testing.T, ctx context.Context, number string) *program {
	t.Helper()
	c, err := g.cells().Open(ctx, shape())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	p := &program{cell: c, mark: mark(number)}
	out := &signalWriter{at: make(chan struct{})}
	var exit cell.Exit
	over := make(chan struct{})
	go func() {
		defer close(over)
		exit, err = c.Exec(ctx, cell.Command{Argv: []string{"/bin/sh", "-c", "trap '' TERM; setsid sleep " + p.mark + " & echo ready; while :; do sleep 600; done"},
			Env: environ(), Stdout: out, Stderr: io.Discard})
	}()
	p.end = func() (cell.Exit, error) { <-over; return exit, err }
	select {
	case <-out.at:
	case <-over:
		t.Fatalf("%+v, %v", exit, err)
	}
	return p
}

// hangingOpens gives up on cells that a stopped launcher does not make. When it
// goes on, it makes them for nobody.
func hangingOpens(t *testing.T, at maker) {
	g := at(t, link.Config{Launchers: 1}) // or another would make them
	one(t, g.cells(), "/usr/bin/true")
	g.runtime.SetPatience(time.Minute) // it is not given up, however long it stands here
	launcher, _ := g.ours(t)
	signal(t, unix.SIGSTOP, launcher)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, err := g.cells().Open(ctx, shape())
			var refused *cell.Error
			if !errors.As(err, &refused) || refused.Reason != envelope.ReasonSetup || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Open: %v, want a refusal that wraps DeadlineExceeded", err)
			}
		})
	}
	all.Wait()
	signal(t, unix.SIGCONT, launcher)
	one(t, g.cells(), "/usr/bin/true") // behind the twenty
	awaitNone(t, "groups of cells", g.cellGroups)
	if now, _ := g.ours(t); now != launcher {
		t.Errorf("launcher %d is another now, %d", launcher, now)
	}
}

// cellGroups are the groups of cells.
func (g *ground) cellGroups() (left []string) {
	for _, dir := range g.places.Groups {
		found, _ := filepath.Glob(dir + "/c*-*/cgroup.procs")
		left = append(left, found...)
	}
	return left
}

// awaitNone waits until there is nothing left.
func awaitNone(t *testing.T, what string, look func() []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerSlack)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for left := look(); len(left) > 0; left = look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: left are %q", what, left)
		}
	}
}

// hangingExec stops the launcher under a program whose caller goes away. The
// answer is bounded all the same, and the reaper ends program and launcher.
func hangingExec(t *testing.T, at maker) {
	g := at(t, link.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := g.begin(t, ctx)
	g.runtime.SetPatience(time.Second)
	launcher, reaper := g.ours(t)
	signal(t, unix.SIGSTOP, launcher)
	cancel()
	if _, err := p.end(); !errors.Is(err, cell.ErrBroken) {
		t.Errorf("Exec: %v, want ErrBroken", err)
	}
	if report := p.cell.Close(context.Background()); report.Complete {
		t.Errorf("teardown that nobody saw: %+v", report)
	}
	if n := celltest.HostProcesses(p.mark); n > 0 {
		t.Errorf("%d processes are alive", n)
	}
	awaitNone(t, "processes of the cell", g.strays)
	one(t, g.cells(), "/usr/bin/true")
	awaitNone(t, "launcher and reaper", func() []string { return running(launcher, reaper) }) // somebody else has to reap them
}
