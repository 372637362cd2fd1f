package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tests on the host's own kernel, version 1 or 2.

func mustMake(t *testing.T, tree *Tree, name string, limits Limits) *Group {
	t.Helper()
	g, err := tree.Make(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, g.Close()) })
	return g
}

func TestLimitsAreInPlace(t *testing.T) {
	tree := realTree(t)
	before := snapshot(t, tree)
	g := mustMake(t, tree, "cell-1", someLimits)
	for _, s := range settings(tree.Version(), someLimits, int64(os.Getpagesize())) {
		got, err := tree.kernel.read(g.dir(s.controller), s.file, smallFile)
		if s.optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || got != s.value+"\n" {
			t.Errorf("%s reads %q, %v; want %q", s.file, got, err, s.value)
		}
	}
	if _, err := tree.Make("cell-1", someLimits); !errors.Is(err, ErrExists) {
		t.Errorf("the name again: %v", err)
	}
	if n := len(snapshot(t, tree)) - len(before); n != len(tree.hierarchies) {
		t.Errorf("%d directories for %d hierarchies", n, len(tree.hierarchies))
	}
	check(t, g.Remove(t.Context()))
	check(t, g.Remove(t.Context()))
	check(t, g.Kill(t.Context()))
	if after := snapshot(t, tree); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
}

func TestChildIsInEveryHierarchy(t *testing.T) {
	tree := realTree(t)
	g := mustMake(t, tree, "cell-1", someLimits)
	r := start(t, g, "idle")
	pids, err := g.Procs()
	if err != nil || !slices.Equal(pids, []int{r.Process.Pid}) {
		t.Errorf("Procs = %v, %v; want %d", pids, err, r.Process.Pid)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", r.Process.Pid))
	check(t, err)
	if n := strings.Count(string(text), "/cell-1\n"); n != len(tree.hierarchies) {
		t.Errorf("in %d of %d hierarchies:\n%s", n, len(tree.hierarchies), text)
	}
	err = g.Remove(done(t))
	var re *RemainsError
	if !errors.As(err, &re) || len(re.Where) != len(tree.hierarchies) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("Remove with a member: %v", err)
	}
	check(t, g.Kill(t.Context()))
	if !r.died() {
		t.Error("the child was not killed")
	}
	check(t, g.Remove(t.Context()))
}

func TestUsageCounts(t *testing.T) {
	tree := realTree(t)
	g := mustMake(t, tree, "cell-1", Limits{Memory: 64 << 20, Pids: 32, CPU: 1000})
	r := start(t, g, "burn")
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.CPU < 50*time.Millisecond {
		t.Errorf("100 ms were burnt: %+v", u)
	}
	if u.MemoryPeak <= 0 || u.OOMKills != 0 || u.PidsHits != 0 {
		t.Errorf("a peaceful child: %+v", u)
	}
	check(t, r.stdin.Close())
	check(t, r.Wait())
	after, err := g.Usage()
	if err != nil || after.CPU < u.CPU {
		t.Errorf("after its end: %+v, %v", after, err)
	}
	check(t, g.Remove(t.Context()))
}

func TestMemoryBomb(t *testing.T) {
	tree := realTree(t)
	g := mustMake(t, tree, "cell-1", Limits{Memory: 48 << 20, Pids: 32, CPU: 1000})
	fd, ok := g.OOM()
	if ok != (tree.Version() == 1) {
		t.Fatalf("OOM event: %v", ok)
	}
	if ok && readable(t, fd, 0) {
		t.Error("the OOM event is there before the bomb")
	}
	bystander, bomb := start(t, g, "idle"), start(t, g, "bomb")
	if !bomb.died() {
		t.Error("the bomb was not killed")
	}
	if ok && !readable(t, fd, time.Minute) {
		t.Error("no OOM event")
	}
	u, err := g.Usage()
	if err != nil || u.OOMKills < 1 {
		t.Errorf("after the bomb: %+v, %v", u, err)
	}
	if u.MemoryPeak >= 0 && (u.MemoryPeak < 40<<20 || u.MemoryPeak > 64<<20) { // the kernel may overstep: the bomb has no end of its own
		t.Errorf("peak %d", u.MemoryPeak)
	}
	if ok { // version 1: the launcher's work
		check(t, g.Kill(t.Context()))
	}
	if !bystander.died() {
		t.Error("the bystander was not killed")
	}
	check(t, g.Remove(t.Context()))
}

// TestOOMEventWakesOnRemove: nobody who waits for it waits for ever.
func TestOOMEventWakesOnRemove(t *testing.T) {
	g := mustMake(t, realTree(t), "cell-1", someLimits)
	fd, ok := g.OOM()
	if !ok {
		t.Skip("version 2 has no OOM event")
	}
	check(t, g.Remove(t.Context()))
	if !readable(t, fd, time.Minute) {
		t.Error("a waiter would still wait")
	}
}

func TestPidsLimit(t *testing.T) {
	tree := realTree(t)
	g := mustMake(t, tree, "cell-1", Limits{Memory: 512 << 20, Pids: 40, CPU: 1000})
	r := start(t, g, "forks")
	r.expect(t, "full")
	u, err := g.Usage()
	if err != nil || u.PidsHits < 1 || u.PidsPeak > 40 {
		t.Errorf("after the limit was met: %+v, %v", u, err)
	}
	pids, err := g.Procs()
	if err != nil || len(pids) < 10 {
		t.Errorf("%d members, %v", len(pids), err)
	}
	check(t, g.Kill(t.Context()))
	if !r.died() {
		t.Error("the child was not killed")
	}
	after, err := g.Usage()
	if err != nil || after.PidsHits < u.PidsHits {
		t.Errorf("hits went from %d to %d, %v", u.PidsHits, after.PidsHits, err)
	}
	check(t, g.Remove(t.Context()))
}

// TestMakeUndoes: the name exists in the last hierarchy only, so Make fails
// half-way, and must not remove what it did not make.
func TestMakeUndoes(t *testing.T) {
	tree := realTree(t)
	paths := parentPaths(t, tree)
	clash := filepath.Join(paths[len(paths)-1], "cell-1")
	check(t, os.Mkdir(clash, 0o755))
	before, fds := snapshot(t, tree), openFDs(t)
	if _, err := tree.Make("cell-1", someLimits); !errors.Is(err, ErrExists) {
		t.Errorf("Make: %v", err)
	}
	if after := snapshot(t, tree); !slices.Equal(before, after) || len(after) != 1 {
		t.Errorf("before %q, after %q", before, after)
	}
	if after := openFDs(t); !slices.Equal(fds, after) {
		t.Errorf("descriptors before %v, after %v", fds, after)
	}
	swept, err := tree.Sweep(t.Context(), func(string) bool { return false })
	if err != nil || !slices.Equal(swept, []string{"cell-1"}) {
		t.Errorf("Sweep of half a group: %q, %v", swept, err)
	}
}

func TestSweep(t *testing.T) {
	tree := realTree(t)
	mustMake(t, tree, "live-1", someLimits)
	mustMake(t, tree, "dead-1", someLimits)
	r := start(t, mustMake(t, tree, "dead-2", someLimits), "forks")
	foreign := filepath.Join(parentPaths(t, tree)[0], "Foreign.slice")
	check(t, os.Mkdir(foreign, 0o755))
	var asked []string
	swept, err := tree.Sweep(t.Context(), func(name string) bool {
		asked = append(asked, name)
		return strings.HasPrefix(name, "live-")
	})
	if err != nil || !slices.Equal(swept, []string{"dead-1", "dead-2"}) || !slices.Equal(asked, []string{"dead-1", "dead-2", "live-1"}) {
		t.Errorf("swept %q of %q, %v", swept, asked, err)
	}
	if !r.died() {
		t.Error("the member of a dead instance's group lives")
	}
	if n := len(snapshot(t, tree)); n != len(tree.hierarchies)+1 {
		t.Errorf("left: %q", snapshot(t, tree))
	}
	check(t, os.Remove(foreign))
}

// TestSweepGoesOn: a group that cannot be removed does not keep the next.
func TestSweepGoesOn(t *testing.T) {
	tree := realTree(t)
	mustMake(t, tree, "a", someLimits)
	mustMake(t, tree, "b", someLimits)
	nested := filepath.Join(parentPaths(t, tree)[0], "a", "nested")
	check(t, os.Mkdir(nested, 0o755))
	swept, err := tree.Sweep(done(t), func(string) bool { return false })
	if !errors.Is(err, ErrRemains) || !slices.Equal(swept, []string{"b"}) {
		t.Errorf("swept %q, %v", swept, err)
	}
	check(t, os.Remove(nested))
}

// TestDescriptors: all are close-on-exec, and all are given back.
func TestDescriptors(t *testing.T) {
	before := openFDs(t)
	t.Run("open", func(t *testing.T) {
		tree := realTree(t)
		g := mustMake(t, tree, "cell-1", someLimits)
		for _, fd := range openFDs(t) {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if !slices.Contains(before, fd) && (err != nil || flags&unix.FD_CLOEXEC == 0) {
				t.Errorf("descriptor %d is not close-on-exec (%v)", fd, err)
			}
		}
		for _, d := range g.Dirs() {
			check(t, unix.Unlinkat(d.ParentFD, d.Name, unix.AT_REMOVEDIR))
		}
		check(t, g.Remove(t.Context())) // the reaper was faster
		check(t, g.Close())
		check(t, g.Close())
		if err := g.Kill(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Kill after Close: %v", err)
		}
	})
	if after := openFDs(t); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestInAnotherRoot: after Open no path is needed.
func TestInAnotherRoot(t *testing.T) {
	tree := realTree(t)
	empty := t.TempDir()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		result <- func() error {
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
			if err := unix.Chroot(empty); err != nil {
				return err
			}
			if err := unix.Chdir("/"); err != nil {
				return err
			}
			return wholeLife(t.Context(), tree, "cell-1")
		}()
	}()
	check(t, <-result)
	if left := snapshot(t, tree); left != nil {
		t.Errorf("left: %q", left)
	}
}

func wholeLife(ctx context.Context, tree *Tree, name string) error {
	g, err := tree.Make(name, someLimits)
	if err != nil {
		return err
	}
	_, err = g.Usage()
	err = errors.Join(err, g.Kill(ctx), g.Remove(ctx), g.Close())
	_, swept := tree.Sweep(ctx, func(string) bool { return true })
	return errors.Join(err, swept)
}

// TestHammer: groups side by side, and all methods of one at once.
func TestHammer(t *testing.T) {
	tree := realTree(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				check(t, wholeLife(t.Context(), tree, fmt.Sprintf("side-%d", i)))
			}
		})
	}
	for i := range 10 {
		g := mustMake(t, tree, fmt.Sprintf("one-%d", i), someLimits)
		for _, call := range []func(){
			func() { _, _ = g.Usage() }, func() { _, _ = g.Procs() }, func() { _ = g.Kill(t.Context()) },
			func() { check(t, g.Remove(t.Context())) }, func() { g.Join(); g.OOM(); g.Dirs() }, func() { check(t, g.Close()) },
		} {
			wg.Go(call)
		}
	}
	wg.Wait()
	if left := snapshot(t, tree); left != nil {
		t.Errorf("left: %q", left)
	}
}

// TestOpenTogether: instances that start at once make one parent.
func TestOpenTogether(t *testing.T) {
	realTree(t) // skips where it must
	parent := fmt.Sprintf("callcell-test-%d-together", os.Getpid())
	defer removeParent(t, parent)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			tree, err := Open(cgroupDir, parent)
			if err != nil {
				t.Error(err)
				return
			}
			check(t, wholeLife(t.Context(), tree, fmt.Sprintf("cell-%d", i)))
			check(t, tree.Close())
		})
	}
	wg.Wait()
}

// TestNestedParent: an operator's own place, made where it is missing.
func TestNestedParent(t *testing.T) {
	realTree(t)
	top := fmt.Sprintf("callcell-test-%d-nested", os.Getpid())
	tree, err := Open(cgroupDir, top+"/a.service/cells")
	if err != nil {
		t.Fatal(err)
	}
	check(t, wholeLife(t.Context(), tree, "cell-1"))
	check(t, tree.Close())
	for _, path := range []string{top + "/a.service/cells", top + "/a.service", top} {
		removeParent(t, path)
	}
}

// TestOccupiedParent: what holds processes cannot share controllers out.
func TestOccupiedParent(t *testing.T) {
	tree := realTree(t)
	if tree.Version() == 1 {
		t.Skip("version 1 has no such rule")
	}
	g := mustMake(t, tree, "cell-1", someLimits)
	start(t, g, "idle")
	parent := filepath.Base(parentPaths(t, tree)[0]) + "/cell-1/inner"
	if _, err := Open(cgroupDir, parent); !errors.Is(err, ErrOccupied) || !errors.Is(err, ErrController) {
		t.Errorf("Open: %v", err)
	}
	if n := len(snapshot(t, tree)); n != 1 {
		t.Errorf("%d groups", n)
	}
	check(t, g.Kill(t.Context()))
	check(t, g.Remove(t.Context()))
}

func BenchmarkLife(b *testing.B) {
	parent := fmt.Sprintf("callcell-test-%d-bench", os.Getpid())
	tree, err := Open(cgroupDir, parent)
	if err != nil {
		b.Skip(err)
	}
	defer func() {
		_ = tree.Close()
		for _, h := range []string{".", "cpu", "cpuacct", "memory", "pids"} {
			_ = os.Remove(filepath.Join(cgroupDir, h, parent))
		}
	}()
	for b.Loop() {
		if err := wholeLife(b.Context(), tree, "cell-1"); err != nil {
			b.Fatal(err)
		}
	}
}
