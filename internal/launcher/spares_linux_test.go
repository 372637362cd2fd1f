package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// groups are the names of the groups of a place: one for each cell and spare.
func (p place) groups() map[string]bool {
	names := map[string]bool{}
	for _, dir := range groupDirs(p.parent, "*") {
		names[filepath.Base(dir)] = true
	}
	return names
}

// awaitGroups waits until there are so many groups, and returns their names.
func (c *client) awaitGroups(t *testing.T, n int) map[string]bool {
	t.Helper()
	var names map[string]bool
	eventually(t, "groups: "+itoa(n), func() bool {
		names = c.groups()
		return len(names) == n
	})
	return names
}

// withSpare returns a launcher that has one spare and no cell.
func withSpare(t *testing.T, settings ...string) (*client, map[string]bool) {
	t.Helper()
	c := dial(t, newPlace(t, append([]string{"spares = 1"}, settings...)...))
	for range 2 {
		c.close(t, c.open(t, spec()))
	}
	eventually(t, "a spare's init is there", func() bool { return len(members(c.parent)) == 1 })
	return c, c.awaitGroups(t, 1)
}

// groupOf returns the name of the group in which a program runs: it is the only
// one of its place that does, and a spare has an init alone.
func (c *client) groupOf(t *testing.T) (name string) {
	t.Helper()
	eventually(t, "the program's group", func() bool {
		for _, dir := range groupDirs(c.parent, "*") {
			if len(pidsIn(dir)) > 1 {
				name = filepath.Base(dir)
			}
		}
		return name != ""
	})
	return name
}

// TestSpare is made after two cells that are alike, is taken by the third, and
// serves it as any cell does; there is never one cell twice.
func TestSpare(t *testing.T) {
	c := dial(t, newPlace(t, "spares = 1"))
	seen := map[string]bool{}
	for i := range 8 {
		var ready map[string]bool
		if i >= 2 {
			ready = c.awaitGroups(t, 1)
		}
		s := spec()
		s.ID = s.ID[:len(s.ID)-1] + itoa(i)
		slot := c.open(t, s)
		p := c.start(t, slot, "sh", "-c", "echo hello; ls -A; echo x >x; read x; exit 3")
		p.says(t, "hello")   // and no file of another's
		name := c.groupOf(t) // another spare may be there
		if seen[name] {
			t.Errorf("cell %d: group %s was used before", i, name)
		}
		if i >= 2 && !ready[name] {
			t.Errorf("cell %d: group %s was not ready; ready was %v", i, name, ready)
		}
		seen[name] = true
		must(t, p.stdin.Close())
		if line, ok := await(t, "the program's end", p.stdout); ok {
			t.Errorf("it says %q", line)
		}
		if e := p.exit(t); !e.Known || e.Status != 3<<8 || e.Wall <= 0 || e.InodesUse != 1 {
			t.Errorf("%+v", e)
		}
		c.close(t, slot)
	}
	c.hangUp(t)
	noGroups(t, c)
}

// TestSpareIsEnforcedAlike: by the digest it cannot be told from a cell that was
// built when it was asked for.
func TestSpareIsEnforcedAlike(t *testing.T) {
	other := dial(t, newPlace(t))
	c, spare := withSpare(t)
	taken, built := c.call(t, &wire.Open{Spec: spec()}).body.(*wire.Opened), other.call(t, &wire.Open{Spec: spec()}).body.(*wire.Opened)
	if taken.Enforced != built.Enforced {
		t.Errorf("%x, and %x of a cell that was built", taken.Enforced, built.Enforced)
	}
	p := c.start(t, taken.Slot, "sh", "-c", "echo ready; read x")
	p.says(t, "ready")
	if name := c.groupOf(t); !spare[name] {
		t.Errorf("group %s is not the spare's, %v", name, spare)
	}
	c.close(t, taken.Slot)
	other.close(t, built.Slot)
}

// TestNoSpare: cells that are not alike, one cell, and a range of uids that is
// short make none.
func TestNoSpare(t *testing.T) {
	for name, settings := range map[string][]string{"alike": {"cells = 4", "uids.count = 7", "spares = 1"}, "one": {"spares = 1"}, "not alike": {"spares = 1"}} {
		c := dial(t, newPlace(t, settings...))
		s := spec()
		for i := range 4 {
			if name == "one" && i > 0 {
				continue
			}
			if name == "not alike" {
				s.Memory += 1 << 20
			}
			c.close(t, c.open(t, s))
		}
		c.refused(t, wire.KindState, &wire.Close{Slot: 0}) // some time, in which one could be made
		if left := c.groups(); len(left) > 0 {
			t.Errorf("%s: %v", name, left)
		}
	}
}

// TestSpareMakesRoom: for a cell of another spec, and for a slot that is needed.
func TestSpareMakesRoom(t *testing.T) {
	c, spare := withSpare(t, "cells = 2", "uids.count = 8")
	another := spec()
	another.Pids++
	slots := []uint32{c.open(t, another)}
	for name := range c.awaitGroups(t, 1) {
		if spare[name] {
			t.Errorf("%s was taken by another's cell", name)
		}
	}
	slots = append(slots, c.open(t, another))
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: another})
	for _, slot := range slots {
		c.close(t, slot)
	}

	c, _ = withSpare(t, "cells = 2", "uids.count = 8")
	slots = []uint32{c.open(t, spec()), c.open(t, spec())}
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	c.awaitGroups(t, 2)
	for _, slot := range slots {
		c.close(t, slot)
	}
}

// TestSpareOnItsWayOutMakesRoom: it has its slot until it is gone, and who needs
// that waits for it.
func TestSpareOnItsWayOutMakesRoom(t *testing.T) {
	for range 5 {
		c, _ := withSpare(t, "cells = 2", "uids.count = 8")
		another := spec()
		another.Pids++
		slots := []uint32{c.open(t, another), c.open(t, another)}
		c.refused(t, wire.KindCapacity, &wire.Open{Spec: another})
		for _, slot := range slots {
			c.close(t, slot)
		}
	}
}

// TestDeadSpare is not handed out.
func TestDeadSpare(t *testing.T) {
	c, spare := withSpare(t)
	pids := members(c.parent)
	if len(pids) != 1 || len(spare) != 1 {
		t.Fatalf("processes %v of %v", pids, spare)
	}
	kill(t, pids...)
	eventually(t, "its init is reaped", func() bool { return procField(pids[0], "State") == "" })
	slot := c.open(t, spec())
	if e := c.start(t, slot, "/bin/true").exit(t); !e.Known || e.Status != 0 {
		t.Errorf("%+v", e)
	}
	c.close(t, slot)
}

// TestSpareEnds with its launcher, by whatever that ends.
func TestSpareEnds(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"the front hangs up": func(c *client) { must(t, c.conn.CloseSend()) }, "the front dies": func(c *client) { must(t, c.conn.Close()) },
		"the launcher is killed": func(c *client) { kill(t, c.pid) },
	} {
		c, _ := withSpare(t)
		pids := members(c.parent)
		end(c)
		dead(t, soon, pids)
		await(t, "the end of launcher and reaper", c.over)
		if left := c.groups(); name != "the front dies" && len(left) > 0 {
			t.Errorf("%s: %v", name, left)
		}
		dead(t, patience, []int{c.pid, int(c.hello.Reaper)})
	}
}

// TestSpareThatNobodyWants is destroyed after a while.
func TestSpareThatNobodyWants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a spare waits")
	}
	t.Parallel()
	c, _ := withSpare(t)
	within(t, spareIdle+patience, "it is gone", func() bool { return len(c.groups()) == 0 })
	c.close(t, c.open(t, spec()))
}

// TestSpareHoldsNothingOfACall: while it waits, its init has the conversation
// with us and no other descriptor, and its scratch is empty.
func TestSpareHoldsNothingOfACall(t *testing.T) {
	c, _ := withSpare(t)
	for _, pid := range members(c.parent) {
		eventually(t, "it holds its conversation alone", func() bool { // it is seen before it has closed the rest
			fds := fdsOf(t, pid)
			return len(fds) == 1 && fds[0] == "3 socket"
		})
		for _, dir := range []string{"work", "tmp", "run"} {
			entries, err := os.ReadDir("/proc/" + itoa(pid) + "/root/" + dir)
			if err != nil || len(entries) > 0 {
				t.Errorf("/%s: %v, %v", dir, entries, err)
			}
		}
		if environ, err := os.ReadFile("/proc/" + itoa(pid) + "/environ"); err != nil && !strings.Contains(err.Error(), unix.EACCES.Error()) || len(environ) > 0 {
			t.Errorf("environment %q, %v", environ, err)
		}
	}
}
