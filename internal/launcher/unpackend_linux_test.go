package launcher

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// half is an unpacker in the middle of its work, and its process.
func (c *client) half(t *testing.T, n int) (*unpacking, int) {
	t.Helper()
	before := members(c.parent)
	u := c.unpack(t, request(n))
	for _, command := range []string{"dir root", "file root/x 5000", "dir root/e", "deep 100"} {
		if got := u.tell(t, command); got != "ok" {
			t.Fatalf("%s: %q", command, got)
		}
	}
	for _, pid := range members(c.parent) {
		if !slices.Contains(before, pid) && procField(pid, "PPid") == itoa(c.pid) {
			return u, pid
		}
	}
	t.Fatalf("no process among %v", members(c.parent))
	return nil, 0
}

// TestUnpackerEnds with whatever ends it, at any moment, and nothing is left: at
// once, or after the next launcher's start.
func TestUnpackerEnds(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"the front hangs up": func(c *client) { must(t, c.conn.CloseSend()) }, "the front dies": func(c *client) { must(t, c.conn.Close()) },
		"the launcher is killed": func(c *client) { kill(t, c.pid) }, "launcher and reaper are killed": func(c *client) { killBoth(t, c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, withStandIn(t))
			u, pid := c.half(t, 1)
			end(c)
			dead(t, soon, []int{pid})
			await(t, "the end of launcher and reaper", c.over)
			await(t, "the launcher's exit", c.exited)
			if _, ok := await(t, "the answer", u.answer); ok && name != "the front hangs up" {
				t.Error("it is answered")
			}
			if strings.HasPrefix(name, "the front") && len(c.inStore(t)) != 0 {
				t.Errorf("left: %v", c.inStore(t))
			}
			next := dial(t, c.place)
			eventually(t, "what was left is swept", func() bool { return len(c.inStore(t)) == 0 })
			next.hangUp(t)
			noGroups(t, c)
		})
	}
}

// TestUnpackedAndLeft: a tree that was unpacked and not kept goes with its
// launcher.
func TestUnpackedAndLeft(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		c := dial(t, withStandIn(t))
		m := request(1)
		m.EROFS = false
		u := c.unpack(t, m)
		for _, command := range []string{"dir root", "list"} {
			u.tell(t, command)
		}
		if got, ok := u.end(t).(*wire.Unpacked); !ok || got.Status != 0 || len(c.inStore(t)) != 1 {
			t.Errorf("%+v, %v", got, c.inStore(t))
		}
		if orderly {
			c.hangUp(t)
		} else {
			kill(t, c.pid)
		}
		await(t, "the launcher's exit", c.exited)
		if left := c.inStore(t); orderly != (len(left) == 0) {
			t.Errorf("orderly %v: %v", orderly, left)
		}
		next := dial(t, c.place)
		eventually(t, "what was left is swept", func() bool { return len(c.inStore(t)) == 0 })
		next.hangUp(t)
	}
}

// TestDropEndsTheUnpacker that runs, and answers when nothing is left.
func TestDropEndsTheUnpacker(t *testing.T) {
	c := dial(t, withStandIn(t))
	u, pid := c.half(t, 1)
	c.refused(t, wire.KindState, &wire.Keep{ID: treeID(1), Digest: strings.Repeat("a", 64), Owner: treeOwner})
	c.done(t, &wire.Drop{ID: treeID(1)})
	if alive(pid) || len(c.inStore(t)) != 0 {
		t.Errorf("process %d alive %v; left %v", pid, alive(pid), c.inStore(t))
	}
	if got, ok := u.ended(t).(*wire.Unpacked); !ok || got.Cause != wire.CauseCancel {
		t.Errorf("%+v", got)
	}
	c.refused(t, wire.KindState, &wire.Drop{ID: treeID(1)})
	u, _ = c.half(t, 1) // the id is free again
	c.done(t, &wire.Drop{ID: treeID(1)})
	u.ended(t)
	noGroups(t, c)
}

// TestTwoLaunchersShareAStore: neither sweeps what the other is making, and one
// id is one tree.
func TestTwoLaunchersShareAStore(t *testing.T) {
	p := withStandIn(t)
	a := dial(t, p)
	_, pid := a.half(t, 1)
	b := dial(t, p) // it sweeps
	inR, _ := pipe(t)
	_, outW := pipe(t)
	b.refused(t, wire.KindState, request(1), int(inR.Fd()), int(outW.Fd()))
	if !alive(pid) || len(p.inStore(t)) != 1 {
		t.Errorf("process %d alive %v; %v", pid, alive(pid), p.inStore(t))
	}
	b.half(t, 2)
	b.hangUp(t)
	if left := p.inStore(t); !slices.Equal(left, []string{"staging/" + treeID(1)}) {
		t.Errorf("%v", left)
	}
	a.done(t, &wire.Drop{ID: treeID(1)})
}

// TestUnpackersHaveTheirOwnSlots: two, and none of the cells'.
func TestUnpackersHaveTheirOwnSlots(t *testing.T) {
	c := dial(t, withStandIn(t, "cells = 1", "uids.count = 8"))
	c.half(t, 1)
	c.half(t, 2)
	inR, _ := pipe(t)
	_, outW := pipe(t)
	c.refused(t, wire.KindCapacity, request(3), int(inR.Fd()), int(outW.Fd()))
	c.close(t, c.open(t, spec()))
	c.done(t, &wire.Drop{ID: treeID(1)})
	c.half(t, 3)
	for _, n := range []int{2, 3} {
		c.done(t, &wire.Drop{ID: treeID(n)})
	}
	noGroups(t, c)
}

// TestStoreThatOthersCouldChange is not used.
func TestStoreThatOthersCouldChange(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"its mode":  func(dir string) error { return os.Mkdir(dir, 0o755) },
		"its owner": func(dir string) error { return joined(os.Mkdir(dir, 0o700), os.Chown(dir, 4321, 4321)) },
		"a link":    func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":    func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a directory above it": func(dir string) error {
			return joined(os.Mkdir(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o777))
		},
		"a link in it": func(dir string) error {
			return joined(os.Mkdir(dir, 0o700), os.Symlink(t.TempDir(), filepath.Join(dir, "staging")))
		},
		"a link in the place of the locks": func(dir string) error {
			return joined(os.Mkdir(dir, 0o700), os.Symlink("/etc/shadow", filepath.Join(dir, "locks")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := withStandIn(t)
			must(t, os.Mkdir(filepath.Dir(p.images()), 0o755), spoil(p.images()))
			c := dial(t, p)
			inR, _ := pipe(t)
			_, outW := pipe(t)
			f := c.refused(t, wire.KindSetup, request(1), int(inR.Fd()), int(outW.Fd()))
			if !strings.Contains(f.Step, p.images()) {
				t.Errorf("%+v", f)
			}
			noGroups(t, c)
			c.close(t, c.open(t, spec())) // cells of the slice do not need it
		})
	}
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestUnpackerPosture compares the process with the golden list, line by line.
func TestUnpackerPosture(t *testing.T) {
	golden := filepath.Join("testdata", "unpack_posture.golden")
	c := dial(t, withStandIn(t))
	u := c.unpack(t, request(1))
	u.tell(t, "dir root") // it has begun, and waits
	pids := members(c.parent)
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	var got []string
	eventually(t, "the runtime has its poller", func() bool {
		got = egressPosture(t, c, pids[0])
		return slices.Contains(got, "fd 3 pipe")
	})
	for i, line := range got {
		if strings.HasPrefix(line, "mount ") { // its root is one of this host's disks
			f := strings.Fields(line)
			got[i] = "mount /images/staging/ID " + strings.Join(f[2:len(f)-1], " ") + " FS"
			if !strings.HasSuffix(f[1], "/images/staging/"+treeID(1)) {
				t.Errorf("%s", line)
			}
		}
	}
	got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "fd more") }) // the runtime's own
	onEveryThread(t, pids[0], "Seccomp", "2")
	onEveryThread(t, pids[0], "CapBnd", "0000000000000000")
	if *update {
		must(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644))
	}
	want := strings.Split(strings.TrimSuffix(contents(t, golden), "\n"), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("more: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
		for _, dir := range groupDirs(c.parent, "*") {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil && strings.TrimSpace(string(text)) != itoa(512<<20) {
				t.Errorf("%s: %s", file, text)
			}
		}
	}
	u.end(t)
}

// TestLauncherPostureWithUnpackers: what the launcher holds of one, exhaustively,
// and that nothing of it stays.
func TestLauncherPostureWithUnpackers(t *testing.T) {
	c := dial(t, withStandIn(t))
	numbered := []string{"0 /dev/null", "1 /dev/null", "2 pipe", "3 /dev/null", "4 /dev/null"}
	always := append([]string{"socket", "socket", "anon_inode:[eventpoll]", "anon_inode:[eventfd]", "net", leasesFile}, ofParent(c.parent)...)
	u, _ := c.half(t, 1)
	running := append(slices.Clone(always), leasesFile, filepath.Join(c.images(), "locks"), "/memfd:stderr (deleted)", "anon_inode:[pidfd]")
	holds(t, c.pid, numbered, append(running, ofGroup(c.parent)...)...)
	must(t, u.stream.Close())
	u.ended(t)
	holds(t, c.pid, numbered, always...)
}
