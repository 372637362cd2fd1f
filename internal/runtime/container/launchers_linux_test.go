package container_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
)

// grow makes so many launchers be of use, and returns their process numbers.
func (g *ground) grow(t *testing.T, launchers int) []int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerSlack*unhurried())
	defer cancel()
	var all sync.WaitGroup
	for range 4 * launchers {
		all.Go(func() {
			for ctx.Err() == nil && len(g.runtime.Launchers()) < launchers {
				one(t, g.runtime, "/usr/bin/true")
			}
		})
	}
	all.Wait()
	pids := g.runtime.Launchers()
	if len(pids) != launchers {
		t.Fatalf("launchers %v, want %d", pids, launchers)
	}
	return pids
}

// TestLaunchersAreStartedAsTheyAreOfUse: one for calls one after another, more
// for calls at once, and never more than there may be.
func TestLaunchersAreStartedAsTheyAreOfUse(t *testing.T) {
	g := newGroundWith(t, link.Config{Launchers: 3})
	for range 20 {
		one(t, g.runtime, "/usr/bin/true")
	}
	if pids := g.runtime.Launchers(); len(pids) != 1 {
		t.Errorf("launchers %v for calls one after another", pids)
	}
	first := g.grow(t, 3)
	run(t, g.runtime, 100)
	if pids := g.runtime.Launchers(); !slices.Equal(pids, first) {
		t.Errorf("launchers %v, then %v", first, pids)
	}
	if pids := newLauncherless(t).Launchers(); len(pids) != 0 {
		t.Errorf("launchers %v of a runtime that is closed", pids)
	}
}

// newLauncherless returns a runtime that was closed at once.
func newLauncherless(t *testing.T) *container.Runtime {
	t.Helper()
	r := newRuntime(t)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Open(context.Background(), shape()); !errors.Is(err, cell.ErrClosed) {
		t.Errorf("Open after Close: %v, want ErrClosed", err)
	}
	return r
}

// TestCellsAreBoundedOverAllLaunchers: launcher.conf's number is the runtime's,
// however many launchers there are.
func TestCellsAreBoundedOverAllLaunchers(t *testing.T) {
	const most = 13 // grow needs twelve
	g := newGroundWith(t, link.Config{Launchers: 3}, "cells = 13")
	g.grow(t, 3)
	ctx := context.Background()
	var cells []cell.Cell
	on := map[int]int{}
	for range most {
		c, err := g.runtime.Open(ctx, shape())
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
		on[container.LauncherOf(c)]++
	}
	full := func(when string) {
		t.Helper()
		_, err := g.runtime.Open(ctx, shape())
		var refused *cell.Error
		if !errors.As(err, &refused) || refused.Reason != envelope.ReasonCapacity || refused.Hint == "" {
			t.Errorf("%s: %v, want capacity with a hint", when, err)
		}
	}
	full("one more")
	for pid, n := range on {
		if n < most/3 || n > most/3+1 {
			t.Errorf("launcher %d has %d of %d cells", pid, n, most)
		}
	}
	if r := cells[0].Close(ctx); !r.Complete {
		t.Error(r)
	}
	one(t, g.runtime, "/usr/bin/true")
	again, err := g.runtime.Open(ctx, shape())
	if err != nil {
		t.Fatal(err)
	}
	full("one more again")
	for _, c := range append(cells, again) {
		if r := c.Close(ctx); !r.Complete {
			t.Error(r)
		}
	}
}

// TestDeathOfOneOfSeveralLaunchers: its own cells break, typed; those of
// another go on, also those that were there before it began and swept; the next
// call works.
func TestDeathOfOneOfSeveralLaunchers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		strike   func(t *testing.T, g *ground, launcher int)
		complete bool
	}{
		{"the launcher is killed", func(t *testing.T, g *ground, launcher int) { signal(t, unix.SIGKILL, launcher) }, true},
		{"its reaper is killed", func(t *testing.T, g *ground, launcher int) {
			signal(t, unix.SIGKILL, child(t, launcher, "callcell-init"))
		}, false},
		{"both are killed", func(t *testing.T, g *ground, launcher int) {
			killBoth(t, launcher, child(t, launcher, "callcell-init"))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGroundWith(t, link.Config{Launchers: 2})
			old := g.begin(t, context.Background())
			g.grow(t, 2)
			young := g.beginMarked(t, context.Background(), "7786")
			if a, b := container.LauncherOf(old.cell), container.LauncherOf(young.cell); a == b {
				t.Fatalf("both on launcher %d", a)
			}
			tc.strike(t, g, container.LauncherOf(young.cell))
			if _, err := young.end(); !errors.Is(err, cell.ErrBroken) {
				t.Errorf("Exec: %v, want ErrBroken", err)
			}
			one(t, g.runtime, "/usr/bin/true") // whatever the reaper has still to do
			if r := young.cell.Close(context.Background()); r.Complete != tc.complete {
				t.Errorf("teardown: %+v", r)
			}
			awaitNone(t, "processes of the dead launcher's cell", func() []string { return make([]string, celltest.HostProcesses(young.mark)) })
			if celltest.HostProcesses(old.mark) == 0 {
				t.Error("the other launcher's cell was ended")
			}
			if r := old.cell.Close(context.Background()); !r.Complete {
				t.Errorf("the other's teardown: %+v", r)
			}
			if x, err := old.end(); err != nil || x.Cause != cell.CauseCancel {
				t.Errorf("the other's end: %+v, %v", x, err)
			}
			g.grow(t, 2)
			if !tc.complete { // the next launcher sweeps
				if err := g.runtime.Close(); err != nil {
					t.Error(err)
				}
				g.again(t)
				one(t, g.runtime, "/usr/bin/true")
			}
		})
	}
}

// typed reports whether a call's failure is one of those that the death of a
// launcher may bring.
func typed(err error) bool {
	var refused *cell.Error
	return errors.Is(err, cell.ErrBroken) || errors.Is(err, cell.ErrNotStarted) || errors.As(err, &refused) && refused.Reason == envelope.ReasonSetup
}

// attempt is one call that may break, typed, and never leaves its cell.
func attempt(t *testing.T, r *container.Runtime) error {
	t.Helper()
	ctx := context.Background()
	c, err := r.Open(ctx, shape())
	if err != nil {
		return err
	}
	x, err := c.Exec(ctx, cell.Command{Argv: []string{"/usr/bin/true"}, Env: environ(), Stdout: io.Discard, Stderr: io.Discard})
	if err == nil && x.Code != 0 {
		t.Errorf("%+v", x)
	}
	if report := c.Close(ctx); !report.Complete {
		t.Errorf("teardown: %+v", report)
	}
	return err
}

// TestKillsAmongSeveralLaunchers kills one of them again and again while calls
// are made.
func TestKillsAmongSeveralLaunchers(t *testing.T) {
	calls, kills := 400, 12
	if os.Getenv("CALLCELL_LONG") != "" {
		calls, kills = 4000, 150
	}
	g := newGroundWith(t, link.Config{Launchers: 3})
	g.grow(t, 3)
	var done, broken atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for done.Add(1) <= int64(calls) {
				if err := attempt(t, g.runtime); err != nil {
					if broken.Add(1); !typed(err) {
						t.Errorf("%v", err)
					}
				}
			}
		})
	}
	for i := range kills {
		g.awaitCalls(&done, int64(i*calls/kills))
		pids := g.runtime.Launchers()
		if len(pids) > 0 {
			_ = unix.Kill(pids[i%len(pids)], unix.SIGKILL) // it may have died of the last one
		}
	}
	all.Wait()
	t.Logf("%d calls, %d launchers killed, %d calls broken", calls, kills, broken.Load())
	if broken.Load() > int64(kills*12) { // six at work, and as many that were on their way
		t.Errorf("%d calls are broken by the death of %d launchers", broken.Load(), kills)
	}
	one(t, g.runtime, "/usr/bin/true")
}

// awaitCalls waits until so many calls were begun.
func (g *ground) awaitCalls(done *atomic.Int64, n int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for done.Load() < n {
		<-tick.C
	}
}

// TestRecycling makes many cells with launchers that are replaced after few. No
// call notices, and nothing grows.
func TestRecycling(t *testing.T) {
	const calls, recycle = 2000, 50
	g := newGroundWith(t, link.Config{Launchers: 2, Recycle: recycle})
	seen := map[int]bool{}
	watch := func() {
		for _, pid := range g.runtime.Launchers() {
			seen[pid] = true
		}
	}
	run(t, g.runtime, 4*recycle)
	fds, goroutines := sizeOf(t, os.Getpid()).fds, runtime.NumGoroutine()
	for range calls / recycle {
		run(t, g.runtime, recycle)
		watch()
	}
	if least := calls / recycle / 2; len(seen) < least {
		t.Errorf("%d launchers, want at least %d", len(seen), least)
	}
	awaitNone(t, "launchers that retired", func() []string {
		if now, g := sizeOf(t, os.Getpid()).fds, runtime.NumGoroutine(); now > fds+4 || g > goroutines+8 { // one launcher more, or less
			return []string{"descriptors or goroutines"}
		}
		return nil
	})
	awaitNone(t, "launchers over two", func() (left []string) {
		for _, pid := range g.runtime.Launchers() {
			left = append(left, strconv.Itoa(pid))
		}
		return left[min(2, len(left)):]
	})
}

// TestRetiringLauncher: it keeps what it has until that is closed, and goes.
func TestRetiringLauncher(t *testing.T) {
	g := newGroundWith(t, link.Config{Launchers: 2, Recycle: 3})
	p := g.begin(t, context.Background())
	old := container.LauncherOf(p.cell)
	for range 12 { // several are worn meanwhile
		one(t, g.runtime, "/usr/bin/true")
	}
	if !slices.Contains(g.runtime.Launchers(), old) || celltest.HostProcesses(p.mark) == 0 {
		t.Error("it went before its cell did")
	}
	if c, err := g.runtime.Open(context.Background(), shape()); err != nil || container.LauncherOf(c) == old {
		t.Errorf("a new cell on it, or none: %v", err)
	} else if r := c.Close(context.Background()); !r.Complete {
		t.Error(r)
	}
	if r := p.cell.Close(context.Background()); !r.Complete {
		t.Error(r)
	}
	if x, err := p.end(); err != nil || x.Cause != cell.CauseCancel {
		t.Errorf("%+v, %v", x, err)
	}
	g.awaitGone(t, old)
}

// awaitGone waits until the runtime knows that a launcher does not live.
func (g *ground) awaitGone(t *testing.T, launcher int) {
	t.Helper()
	awaitNone(t, "launchers that are to end", func() (left []string) {
		if slices.Contains(g.runtime.Launchers(), launcher) {
			left = append(left, strconv.Itoa(launcher))
		}
		return left
	})
}

// TestEgressHasOneLauncher: the egress process is that launcher's, whatever
// becomes of the others.
func TestEgressHasOneLauncher(t *testing.T) {
	g := newGroundWith(t, link.Config{Launchers: 2})
	e, control := startEgress(t, g.runtime)
	for _, pid := range g.grow(t, 2) {
		if pid != e.Launcher() {
			signal(t, unix.SIGKILL, pid)
			g.awaitGone(t, pid)
		}
	}
	one(t, g.runtime, "/usr/bin/true")
	g.grow(t, 2)
	if got := say(t, control, "pid"); got != "1" {
		t.Errorf("the process says %q", got)
	}
	if r := e.Close(context.Background()); !r.Complete || len(r.Checks) == 0 || r.Checks[0].Note != "" {
		t.Errorf("%+v", r)
	}
}
