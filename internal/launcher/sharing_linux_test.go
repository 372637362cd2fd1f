package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// Two configurations may name one parent and ranges of uids that overlap.

// beside returns a place of another configuration: its run.dir and its range are
// others, and the parent is p's.
func (p place) beside(t testing.TB, first int, settings ...string) place {
	t.Helper()
	dir := t.TempDir()
	q := place{parent: p.parent, run: filepath.Join(dir, "run"), conf: filepath.Join(dir, "launcher.conf"), first: first}
	q.configure(t, settings...)
	return q
}

// mapped starts a program in a new cell that says its uid, waits, and says that it
// is still there.
func (c *client) mapped(t testing.TB) (p *process, uid int) {
	t.Helper()
	p = c.start(t, c.open(t, spec()), "sh", "-c", "cat /proc/self/uid_map; echo alone; read x; echo still")
	line, _ := await(t, "the map", p.stdout)
	p.says(t, "alone") // cat is gone
	f := strings.Fields(line)
	if len(f) != 3 {
		t.Fatalf("the map is %q", line)
	}
	return p, number(f[1])
}

// goesOn has a program end by itself, which was left alone until then.
func (c *client) goesOn(t testing.TB, p *process) {
	t.Helper()
	must(t, p.stdin.Close())
	p.says(t, "still")
	if e := p.exit(t); !e.Known || e.Status != 0 || e.Cause != wire.CauseNone {
		t.Errorf("a neighbour's program: %+v", e)
	}
	c.close(t, p.slot)
}

// TestTwoConfigurationsShareAHost: what starts spares the cells of the other, and
// no uid is leased twice, however often they start.
func TestTwoConfigurationsShareAHost(t *testing.T) {
	p := newPlace(t, "uids.count = 4", "cells = 4")
	q := p.beside(t, p.first+2, "uids.count = 4", "cells = 4")
	a := dial(t, p)
	owner := map[int]string{}
	type running struct {
		c *client
		p *process
	}
	var all []running
	run := func(c *client, who string) {
		t.Helper()
		pr, uid := c.mapped(t)
		if other, twice := owner[uid]; twice {
			t.Errorf("uid %d of %s is %s's too", uid, who, other)
		}
		owner[uid] = who
		all = append(all, running{c, pr})
	}
	for range 3 {
		run(a, "a")
	}
	before, groups := members(p.parent), groupDirs(p.parent, "*")
	b := dial(t, q) // its sweep is over
	if b.hello.Refused != "" || len(b.hello.Missing) != len(a.hello.Missing) {
		t.Fatalf("%+v beside %+v", b.hello, a.hello)
	}
	if now := members(p.parent); !slices.Equal(now, before) || !slices.Equal(groupDirs(p.parent, "*"), groups) {
		t.Errorf("%v were there, and are %v", before, now)
	}
	for len(owner) < 6 { // there are so many in the two ranges
		if a.full(t) {
			run(b, "b")
		} else {
			run(a, "a")
		}
	}
	a.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	b.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	before = members(p.parent)
	for _, at := range []place{p, q, p} {
		dial(t, at).hangUp(t)
	}
	if now := members(p.parent); !slices.Equal(now, before) {
		t.Errorf("%v were there, and are %v", before, now)
	}
	for _, r := range all {
		r.c.goesOn(t, r.p)
	}
	noGroups(t, a)
}

// full reports whether there is no uid for another cell of the launcher's.
func (c *client) full(t testing.TB) bool {
	t.Helper()
	a := c.call(t, &wire.Open{Spec: spec()})
	if f, ok := a.body.(*wire.Failed); ok {
		return f.Kind == wire.KindCapacity
	}
	c.close(t, a.body.(*wire.Opened).Slot)
	return false
}

// TestDeathBesideAnotherConfiguration: what a launcher and its reaper left that were
// killed is removed by whoever starts next below that parent, with a range of uids
// that has nothing to do with it.
func TestDeathBesideAnotherConfiguration(t *testing.T) {
	p := newPlace(t, "uids.count = 16", "cells = 8")
	q := p.beside(t, freeRange(), "uids.count = 16", "cells = 8")
	neighbour := dial(t, q)
	alone, _ := neighbour.mapped(t)
	spared := members(p.parent)
	c := dial(t, p)
	for range 3 {
		c.cling(t)
	}
	pids := slices.DeleteFunc(members(p.parent), func(pid int) bool { return slices.Contains(spared, pid) })
	c.killWithReaper(t)
	dead(t, soon, pids)
	if left := len(groupDirs(p.parent, "*")); left != 4*len(groupDirs(p.parent, ".")) {
		t.Fatalf("%d groups are left, of one cell that lives and three that do not", left)
	}
	dial(t, q).hangUp(t)
	if left := groupDirs(p.parent, "*"); len(left) != len(groupDirs(p.parent, ".")) {
		t.Errorf("left: %v", left)
	}
	neighbour.goesOn(t, alone)
	noGroups(t, neighbour)
}

// killWithReaper kills both at once.
func (c *client) killWithReaper(t *testing.T) {
	t.Helper()
	must(t, unix.Kill(int(c.hello.Reaper), unix.SIGSTOP)) // or it would see the launcher's death
	kill(t, c.pid, int(c.hello.Reaper))
	dead(t, patience, []int{int(c.hello.Reaper)})
	await(t, "the launcher's exit", c.exited) // the last of its threads has let go of its locks
}

// playElsewhere becomes the launcher of a configuration, where another directory is
// in the place of that for leases, as it is in a container.
func playElsewhere() int {
	runtime.LockOSThread()
	leases, launcher, conf := os.Args[1], os.Args[2], os.Args[3]
	for _, step := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return os.MkdirAll(leasesDir, 0o700) },
		func() error { return unix.Mount(leases, leasesDir, "", unix.MS_BIND, "") },
		func() error { return syscall.Exec(launcher, []string{"callcell-launcher", "-config", conf}, nil) },
	} {
		if err := step(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// dialElsewhere starts a launcher that leases uids in another directory.
func dialElsewhere(t testing.TB, p place, leases string) *client {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", leases, helper("callcell-launcher"), p.conf)
	cmd.Env = []string{roleEnv + "=elsewhere"}
	return dialBy(t, p, cmd)
}

// refusedParent wants a launcher to have been refused its parent, with a hint.
func (c *client) refusedParent(t *testing.T) {
	t.Helper()
	for _, words := range []string{"cgroup.parent " + c.parent, leasesDir, "launcher.conf", "uids.first"} {
		if !strings.Contains(c.hello.Refused, words) {
			t.Fatalf("%q, want %q in it", c.hello.Refused, words)
		}
	}
	c.ended(t, 1)
	await(t, "the hang-up", c.over)
}

// TestParentOfAnotherPlaceOfLeases: a launcher cannot tell the cells of another that
// it shares no leases with from those of the dead. It builds none beside them, and
// ends none; as soon as that one is gone, however it went, the parent is free.
func TestParentOfAnotherPlaceOfLeases(t *testing.T) {
	p := newPlace(t)
	leases := t.TempDir()
	q := p.beside(t, p.first)
	here := dial(t, p)
	alone, _ := here.mapped(t)
	dialElsewhere(t, q, leases).refusedParent(t)
	here.goesOn(t, alone)

	apart := newPlace(t) // a parent of its own, as a container has
	away := dialElsewhere(t, apart, leases)
	away.close(t, away.open(t, spec()))
	away.hangUp(t)

	here.hangUp(t)
	there := dialElsewhere(t, q, leases)
	if there.hello.Refused != "" {
		t.Fatalf("nobody has the parent: %s", there.hello.Refused)
	}
	clings := there.cling(t)
	dial(t, p).refusedParent(t)
	beside := dialElsewhere(t, q, leases)
	beside.close(t, beside.open(t, spec()))
	beside.hangUp(t)
	pids := members(p.parent)
	if !slices.ContainsFunc(pids, alive) || clings.slot == 0 {
		t.Error("the cell is dead")
	}
	there.killWithReaper(t)
	dead(t, soon, pids)
	if len(groupDirs(p.parent, "*")) == 0 {
		t.Fatal("there is nothing to sweep")
	}
	again := dial(t, p)
	if again.hello.Refused != "" {
		t.Fatalf("those that had the parent are dead: %s", again.hello.Refused)
	}
	noGroups(t, again)
	again.close(t, again.open(t, spec()))
}

// TestReaperKeepsTheParent: as long as it ends a dead launcher's cells there is no
// other who would build some.
func TestReaperKeepsTheParent(t *testing.T) {
	p := newPlace(t)
	c := dial(t, p)
	c.cling(t)
	must(t, unix.Kill(int(c.hello.Reaper), unix.SIGSTOP))
	kill(t, c.pid)
	dead(t, patience, []int{c.pid})
	leases := t.TempDir()
	dialElsewhere(t, p, leases).refusedParent(t)
	must(t, unix.Kill(int(c.hello.Reaper), unix.SIGCONT))
	await(t, "the reaper's end", c.over)
	dead(t, patience, []int{int(c.hello.Reaper)})
	free := dialElsewhere(t, p, leases)
	free.close(t, free.open(t, spec()))
}

// TestLeasesAreRemoved while there are some: who has them leases no more, and who
// finds others starts nothing beside his cells, until they are gone.
func TestLeasesAreRemoved(t *testing.T) {
	p, leases := newPlace(t), t.TempDir()
	a := dialElsewhere(t, p, leases)
	pr, _ := a.mapped(t)
	must(t, os.Remove(filepath.Join(leases, "uids")))
	if f := a.refused(t, wire.KindSetup, &wire.Open{Spec: spec()}); !strings.Contains(f.Step, errReplaced.Error()) {
		t.Errorf("%+v", f)
	}
	dialElsewhere(t, p, leases).refusedParent(t)
	if f := a.refused(t, wire.KindSetup, &wire.Open{Spec: spec()}); !strings.Contains(f.Step, errReplaced.Error()) {
		t.Errorf("%+v", f)
	}
	a.goesOn(t, pr)
	a.hangUp(t)
	dead(t, patience, []int{int(a.hello.Reaper)})
	b := dialElsewhere(t, p, leases)
	b.close(t, b.open(t, spec()))
}

// TestLeasesThatOthersCouldTake: where anybody else can open the file, anybody could
// keep us from uids. The launcher starts nothing, and says what to do.
func TestLeasesThatOthersCouldTake(t *testing.T) {
	p, leases := newPlace(t), t.TempDir()
	must(t, os.WriteFile(filepath.Join(leases, "uids"), nil, 0o604))
	must(t, os.Chmod(filepath.Join(leases, "uids"), 0o604)) // whatever our umask is
	c := dialElsewhere(t, p, leases)
	for _, words := range []string{"uids cannot be leased", leasesFile, "only this user", "tmpfs"} {
		if !strings.Contains(c.hello.Refused, words) {
			t.Fatalf("%q, want %q in it", c.hello.Refused, words)
		}
	}
	c.ended(t, 1)
}
