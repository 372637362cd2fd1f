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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/remains"
)

// A way is one by which a process comes to wait in the kernel so that SIGKILL
// does not end it.
type way struct {
	name string
	// start starts the ground, and returns what lets the process go.
	start func(t *testing.T) (*ground, func())
	argv  []string
	// stick makes the program, which has said that it is ready, get stuck.
	stick func(t *testing.T, g *ground)
}

// anyWay returns the one that there is on this host: a file system whose server
// does not answer, as a network's does not when the network is gone; where that
// cannot be had, the freezer of control groups of version 1.
func anyWay(t *testing.T) way {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a file system")
	}
	w := way{name: "a file system that does not answer", start: hungGround,
		argv: []string{"/bin/sh", "-c", "echo ready; exec cat " + hungDir + "/file"}, stick: hang}
	if fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(fd)
	} else {
		w = way{name: "the freezer", start: freezerGround, argv: []string{"/bin/sh", "-c", "echo ready; exec sleep 1000"}, stick: freeze}
	}
	t.Logf("by %s", w.name)
	return w
}

// hungGround starts a ground whose cells have a file system in hungDir that
// does not answer.
func hungGround(t *testing.T) (*ground, func()) {
	t.Helper()
	fs := newHungFS(t)
	var g *ground
	fs.within(t, func() { g = newGroundWith(t, link.Config{Launchers: 1}, "cells = 3") })
	g.hung = fs
	return g, fs.answer
}

// hang waits until the program has asked the file system for something.
func hang(t *testing.T, g *ground) {
	t.Helper()
	awaitNone(t, "a program that has not asked yet", func() []string { return slices.Repeat([]string{"it"}, max(0, 1-g.hung.asked())) })
}

// freezerGround starts one with a group of the freezer for its programs.
func freezerGround(t *testing.T) (*ground, func()) {
	t.Helper()
	g := newGroundWith(t, link.Config{Launchers: 1}, "cells = 3")
	if _, err := os.Stat("/sys/fs/cgroup/freezer/freezer.state"); err == nil || !errors.Is(os.Mkdir(g.freezer(), 0o755), nil) {
		t.Skip("this host has no freezer of version 1")
	}
	thaw := func() { _ = os.WriteFile(filepath.Join(g.freezer(), "freezer.state"), []byte("THAWED"), 0) }
	t.Cleanup(func() {
		thaw()
		awaitNone(t, "the freezer's group", func() []string { return failing(os.Remove(g.freezer())) })
	})
	return g, thaw
}

func (g *ground) freezer() string { return "/sys/fs/cgroup/freezer/" + g.parent }

func freeze(t *testing.T, g *ground) {
	t.Helper()
	pid := ""
	awaitNone(t, "the program among others", func() (left []string) {
		for _, line := range g.strays() {
			f := strings.Fields(line)
			if f[2] == "sleep" {
				pid = f[1]
				return nil
			}
			left = append(left, line)
		}
		return left
	})
	err := os.WriteFile(filepath.Join(g.freezer(), "tasks"), []byte(pid), 0)
	if err == nil {
		err = os.WriteFile(filepath.Join(g.freezer(), "freezer.state"), []byte("FROZEN"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func failing(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// TestProcessThatCannotDie: the call ends in bounded time as broken, nothing is
// collected, the report says what is left. Slot, uid and group stay out of use,
// and count, until the process is gone; the neighbour does not notice.
func TestProcessThatCannotDie(t *testing.T) {
	w := anyWay(t)
	g, release := w.start(t)
	g.neighbour = newNeighbour(t, g.runtime)
	c := undead(t, g, w)
	g.neighbour.check(t)
	unclosed(t, c)
	if len(g.cellGroups()) == 0 || g.uidLocks() != 2 { // the neighbour's is the other
		t.Errorf("groups %v, %d uids are locked", g.cellGroups(), g.uidLocks())
	}
	if n := g.fit(t); n != 1 {
		t.Errorf("%d more cells fit, want one of three", n)
	}
	release()
	awaitNone(t, "what was kept from use", func() (left []string) {
		if g.uidLocks() != 1 {
			left = append(left, "a uid")
		}
		return left
	})
	awaitNone(t, "slots that do not fit", func() (left []string) {
		if n := g.fit(t); n != 2 {
			left = append(left, strconv.Itoa(n))
		}
		return left
	})
	g.neighbour.check(t)
}

// undead runs a program that gets stuck, and is cancelled then, until its call
// has ended.
func undead(t *testing.T, g *ground, w way) cell.Cell {
	t.Helper()
	c, err := g.runtime.Open(context.Background(), shape())
	if err != nil {
		t.Fatal(err)
	}
	ready := &signalWriter{at: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, cell.Command{Argv: w.argv, Env: environ(), Stdout: ready, Stderr: io.Discard})
		ended <- err
	}()
	select {
	case <-ready.at:
		w.stick(t, g)
	case err = <-ended:
		t.Fatalf("the program ended before it was stuck: %v", err)
	}
	began := time.Now()
	cancel()
	err = <-ended
	if took := time.Since(began); !errors.Is(err, cell.ErrBroken) || took > 2*answerSlack {
		t.Errorf("Exec: %v after %v, want ErrBroken", err, took)
	}
	if len(g.strays()) == 0 {
		t.Fatal("the process is not there any more: nothing is shown")
	}
	return c
}

// unclosed closes such a cell.
func unclosed(t *testing.T, c cell.Cell) {
	t.Helper()
	ctx := context.Background()
	if err := c.Stop(ctx); err == nil {
		t.Error("Stop says that no process is left")
	}
	if files, _, err := c.Get(ctx, []string{"file"}, envelope.Default().Files.Outputs); err == nil || len(files) > 0 {
		t.Errorf("collected: %v, %v", files, err)
	}
	began := time.Now()
	r := c.Close(ctx)
	if took := time.Since(began); took > answerSlack {
		t.Errorf("the teardown took %v", took)
	}
	if r.Complete {
		t.Errorf("the report is complete: %+v", r)
	}
	for _, k := range r.Checks {
		if k.Gone || k.Note == "" {
			t.Errorf("%+v, want it said that it is not gone, and why", k)
		}
	}
}

// fit opens cells until no more fit, and closes them.
func (g *ground) fit(t *testing.T) int {
	t.Helper()
	var cells []cell.Cell
	for {
		c, err := g.runtime.Open(context.Background(), shape())
		if err != nil {
			var refused *cell.Error
			if !errors.As(err, &refused) || refused.Reason != envelope.ReasonCapacity {
				t.Errorf("%v, want capacity", err)
			}
			break
		}
		cells = append(cells, c)
	}
	for _, c := range cells {
		if r := c.Close(context.Background()); !r.Complete {
			t.Errorf("%+v", r)
		}
	}
	return len(cells)
}

// uidLocks is how many uids are locked, by whomever.
func (g *ground) uidLocks() int {
	n := 0
	for line := range remains.Take(remains.Places{Process: func(_, _ string) bool { return false }, Locks: g.places.Locks, UIDs: g.uids}) {
		if strings.HasPrefix(line, "uid lock ") {
			n++
		}
	}
	return n
}

// TestRuntimeThatLeavesOneBehind: its end is bounded and an error. The reaper
// stays, and keeps the uid from the next launcher's cells, until the process is
// gone.
func TestRuntimeThatLeavesOneBehind(t *testing.T) {
	w := anyWay(t)
	g, release := w.start(t)
	unclosed(t, undead(t, g, w))
	if err := g.runtime.Close(); err == nil || !strings.Contains(err.Error(), "could not remove") {
		t.Errorf("Close: %v", err)
	}
	g.again(t)
	one(t, g.runtime, "/usr/bin/true")
	if w := g.runtime.Warnings(); slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "could not be removed") }) {
		t.Errorf("the next launcher went for it: %q", w)
	}
	if len(g.cellGroups()) == 0 || g.uidLocks() != 1 {
		t.Errorf("groups %v, %d uids are locked", g.cellGroups(), g.uidLocks())
	}
	release()
	awaitNone(t, "groups", g.cellGroups)
}

// TestLauncherThatLeavesOneBehind dies with its reaper. The next one cannot
// remove what is left either, says so, and keeps the uid from use; one that
// starts when the process is gone removes it.
func TestLauncherThatLeavesOneBehind(t *testing.T) {
	w := anyWay(t)
	g, release := w.start(t)
	c := undead(t, g, w)
	launcher, reaper := g.ours(t)
	killBoth(t, launcher, reaper)
	if r := c.Close(context.Background()); r.Complete {
		t.Errorf("%+v", r)
	}
	one(t, g.runtime, "/usr/bin/true")
	if w := g.runtime.Warnings(); !slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "could not be removed") }) {
		t.Errorf("the next launcher says nothing: %q", w)
	}
	if len(g.cellGroups()) == 0 || g.uidLocks() != 1 {
		t.Errorf("groups %v, %d uids are locked", g.cellGroups(), g.uidLocks())
	}
	release()
	awaitNone(t, "processes", g.strays)
	if err := g.runtime.Close(); err != nil {
		t.Error(err)
	}
	g.again(t)
	one(t, g.runtime, "/usr/bin/true")
	awaitNone(t, "groups", g.cellGroups)
}

// again gives the ground a new runtime in the place of one that is closed.
func (g *ground) again(t *testing.T) {
	t.Helper()
	g.runtime = start(link.Config{Helpers: os.Getenv("CALLCELL_TEST_HELPERS"), Conf: g.conf, Launchers: 1})
	t.Cleanup(func() {
		if err := g.runtime.Close(); err != nil {
			t.Error(err)
		}
	})
}
