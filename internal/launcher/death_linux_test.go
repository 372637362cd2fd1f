package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// Three things end a cell, and none hangs on another. These tests kill them
// one at a time and together while programs run that cling to life.

const soon = 20 * time.Second

// clinging starts some of those programs and returns all their processes.
func clinging(t *testing.T, c *client, cells int) []int {
	t.Helper()
	for range cells {
		c.cling(t)
	}
	pids := members(c.parent)
	if len(pids) != 10*cells { // init, the program and its eight
		t.Fatalf("%d processes in %d cells: %v", len(pids), cells, pids)
	}
	return pids
}

func noGroups(t *testing.T, c *client) {
	t.Helper()
	if left := groupDirs(c.parent, "*"); len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}

func TestFrontHangsUp(t *testing.T) {
	for name, hangUp := range map[string]func(*client) error{
		"orderly": func(c *client) error { return c.conn.CloseSend() },
		"dies":    func(c *client) error { return c.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, newPlace(t))
			pids := clinging(t, c, 4)
			c.open(t, spec()) // one that was not started
			must(t, hangUp(c))
			dead(t, soon, pids)
			dead(t, patience, []int{c.pid, int(c.hello.Reaper)})
			noGroups(t, c)
			c.ended(t, 0)
		})
	}
}

func TestLauncherIsKilled(t *testing.T) {
	c := dial(t, newPlace(t))
	pids := clinging(t, c, 4)
	c.open(t, spec())
	kill(t, c.pid)
	dead(t, soon, pids)
	await(t, "the reaper's end", c.over)
	if left := c.lastWord(); left != 0 {
		t.Errorf("the reaper's last word: %d groups left", left)
	}
	noGroups(t, c) // without a next start
	dead(t, patience, []int{int(c.hello.Reaper)})
	c.ended(t, -1)
}

func TestReaperIsKilled(t *testing.T) {
	c := dial(t, newPlace(t))
	pids := clinging(t, c, 4)
	kill(t, int(c.hello.Reaper))
	dead(t, soon, pids)
	c.ended(t, 1)
	noGroups(t, c)
	await(t, "the hang-up", c.over)
}

// TestLauncherAndReaperAreKilled: the kernel ends the cells; the next launcher
// removes their groups, and no other's.
func TestLauncherAndReaperAreKilled(t *testing.T) {
	p := newPlace(t)
	neighbour := dial(t, p)
	alone := neighbour.cling(t)
	spared := members(p.parent)

	c := dial(t, p)
	for range 3 {
		c.cling(t)
	}
	c.open(t, spec())
	pids := slices.DeleteFunc(members(p.parent), func(pid int) bool { return slices.Contains(spared, pid) })
	must(t, unix.Kill(int(c.hello.Reaper), unix.SIGSTOP)) // or it would see the launcher's death
	kill(t, c.pid, int(c.hello.Reaper))
	dead(t, soon, pids)
	dead(t, patience, []int{int(c.hello.Reaper)})
	await(t, "the launcher's exit", c.exited) // the last of its threads has let go of its locks
	groups := len(groupDirs(p.parent, "*"))

	next := dial(t, p)
	if left := len(groupDirs(p.parent, "*")); left >= groups || left == 0 {
		t.Errorf("%d groups before the sweep, %d after", groups, left)
	}
	if !slices.Equal(members(p.parent), spared) {
		t.Errorf("alive %v, want the neighbour's %v", members(p.parent), spared)
	}
	next.close(t, next.open(t, spec()))
	next.hangUp(t)

	if a := neighbour.call(t, &wire.Stop{Slot: alone.slot}); a.body.Type() != wire.TypeDone {
		t.Errorf("%+v", a.body)
	}
	if e := alone.exit(t); e.Cause != wire.CauseCancel {
		t.Errorf("the neighbour's program: %+v", e)
	}
	neighbour.close(t, alone.slot)
	noGroups(t, neighbour)
}

// TestLauncherIsKilledAtAnyMoment kills it while cells are built, started and
// destroyed; the reaper removes what there is, without a next start.
func TestLauncherIsKilledAtAnyMoment(t *testing.T) {
	p := newPlace(t)
	for round := range 40 {
		c := dial(t, p)
		payload := memfd(t, payloadOf(t, []string{"/bin/sleep", "1000"}, nil))
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		must(t, err)
		fd := int(null.Fd())
		after := c.open(t, spec())                       // so that the killing meets what comes
		for slot := after + 1; slot <= after+8; slot++ { // the numbers that come
			c.ask(&wire.Open{Spec: spec()})
			c.ask(&wire.Start{Slot: slot}, fd, fd, fd, int(payload.Fd()))
			if slot%3 == 2 {
				c.ask(&wire.Close{Slot: slot})
			}
		}
		for range 2 * round {
			c.call(t, &wire.Get{Slot: after}) // some time, in which the launcher gets on
		}
		kill(t, c.pid)
		await(t, "the reaper's end", c.over)
		if left := groupDirs(p.parent, "*"); len(left) > 0 || c.lastWord() != 0 {
			t.Errorf("round %d: %v are left; the reaper says %d", round, left, c.lastWord())
		}
		null.Close()
		payload.Close()
	}
}

// TestTwoLaunchersShareAHost: each start sweeps, and no uid is used twice.
func TestTwoLaunchersShareAHost(t *testing.T) {
	p := newPlace(t, "uids.count = 4", "cells = 4")
	first := dial(t, p)
	slots := []uint32{first.open(t, spec()), first.open(t, spec())}
	second := dial(t, p)
	slots = append(slots, second.open(t, spec()), second.open(t, spec()))
	second.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	first.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	maps := map[string]bool{}
	for i, slot := range slots {
		c := first
		if i >= 2 {
			c = second
		}
		line, _ := await(t, "the map", c.start(t, slot, "cat", "/proc/self/uid_map").stdout)
		maps[line] = true
		c.close(t, slot)
	}
	if len(maps) != len(slots) {
		t.Errorf("cells with one uid: %v", maps)
	}
	first.close(t, first.open(t, spec()))
	if entries, err := os.ReadDir(p.run); err != nil || len(entries) != 0 {
		t.Errorf("files of the launchers: %v, %v", entries, err)
	}
}

// TestGroupsOfTheDead: what launchers that died left when this one had swept
// already. It is removed, or its uid is kept from use.
func TestGroupsOfTheDead(t *testing.T) {
	c := dial(t, newPlace(t, "uids.count = 4", "cells = 4"))
	roots := groupDirs(c.parent, ".")
	left := func(name string) {
		for _, root := range roots {
			must(t, os.Mkdir(filepath.Join(root, name), 0o755))
		}
	}
	for i := range 4 {
		left(fmt.Sprintf("c%d-cell", c.first+i))
	}
	below := func(i int) string { return filepath.Join(roots[0], fmt.Sprintf("c%d-cell/below", c.first+i)) }
	stays := []string{below(1), below(3)} // it cannot be removed
	for _, dir := range stays {
		must(t, os.Mkdir(dir, 0o755))
	}
	slots := []uint32{c.open(t, spec()), c.open(t, spec())}
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	for _, slot := range slots {
		line, _ := await(t, "the map", c.start(t, slot, "cat", "/proc/self/uid_map").stdout)
		if f := strings.Fields(line); len(f) != 3 || f[1] != itoa(c.first) && f[1] != itoa(c.first+2) {
			t.Errorf("the map is %q", line)
		}
		c.close(t, slot)
	}
	for _, dir := range stays {
		must(t, os.Remove(dir))
	}
	for _, dir := range groupDirs(c.parent, "*") {
		must(t, os.Remove(dir))
	}
}
