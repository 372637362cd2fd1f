package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var someLimits = Limits{Memory: 64<<20 + 1, Pids: 32, CPU: 500}

func TestOpenV2SharesControllersOut(t *testing.T) {
	k := &fakeKernel{}
	tree, root, err := fakeTree(t, 2, k)
	if err != nil {
		t.Fatal(err)
	}
	one := []string{"cgroup.subtree_control=+memory", "cgroup.subtree_control=+pids", "cgroup.subtree_control=+cpu"}
	if got := k.written(); !slices.Equal(got, slices.Concat(one, one, one)) {
		t.Errorf("writes to root, a.slice and callcell: %q", got)
	}
	if got := dirsBelow(t, root); !slices.Equal(got, []string{"a.slice", "a.slice/callcell"}) {
		t.Errorf("directories: %q", got)
	}
	if got := tree.Controllers(); tree.Version() != 2 || !slices.Equal(got, []string{"cpu", "memory", "pids"}) {
		t.Errorf("version %d, controllers %q", tree.Version(), got)
	}

	fd, err := openDir(unix.AT_FDCWD, root)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	again, err := openV2(k, fd, []string{"a.slice", "callcell"})
	if err != nil {
		t.Fatal(err)
	}
	check(t, again.Close())
	if n := len(k.written()); n != 9 {
		t.Errorf("opening again made %d writes more", n-9)
	}
}

func TestOpenV2Refuses(t *testing.T) {
	for _, c := range []struct {
		name       string
		kernel     *fakeKernel
		controller string
		is         error
	}{
		{"no memory", &fakeKernel{bend: map[string]string{"cgroup.controllers": "cpu pids\n"}}, "memory", nil},
		{"no pids", &fakeKernel{bend: map[string]string{"cgroup.controllers": "cpu memory\n"}}, "pids", nil},
		{"no cpu", &fakeKernel{bend: map[string]string{"cgroup.controllers": "cpuset memory pids\n"}}, "cpu", nil},
		{"no quota", &fakeKernel{files: map[string]string{"cpu.max": ""}}, "cpu", unix.ENOENT},
		{"occupied", &fakeKernel{fail: map[string]error{"cgroup.subtree_control=+memory": unix.EBUSY}}, "memory", ErrOccupied},
		{"not ours", &fakeKernel{fail: map[string]error{"cgroup.subtree_control=+cpu": unix.EACCES}}, "cpu", fs.ErrPermission},
	} {
		tree, _, err := fakeTree(t, 2, c.kernel)
		var ce *ControllerError
		if tree != nil || !errors.Is(err, ErrController) || !errors.As(err, &ce) || ce.Controller != c.controller ||
			c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestOpenV1Refuses(t *testing.T) {
	names := []string{"callcell"}
	fine := func(int) error { return nil }
	if _, err := openV1(cgroupfs{}, nil, names, fine); !errors.Is(err, ErrUnavailable) {
		t.Errorf("no mounts: %v", err)
	}
	for _, missing := range []string{"memory", "pids", "cpu"} {
		var mounts []mount
		for _, c := range []string{"memory", "pids", "cpu"} {
			if c != missing {
				mounts = append(mounts, mount{t.TempDir(), []string{c}})
			}
		}
		_, err := openV1(&fakeKernel{files: filesV1}, mounts, names, fine)
		var ce *ControllerError
		if !errors.As(err, &ce) || ce.Controller != missing {
			t.Errorf("no %s: %v", missing, err)
		}
		for _, m := range mounts {
			if left := dirsBelow(t, m.point); left != nil {
				t.Errorf("no %s: made %q", missing, left)
			}
		}
	}
	covered := []mount{{t.TempDir(), []string{"memory", "pids", "cpu"}}}
	if _, err := openV1(cgroupfs{}, covered, names, isV1); !errors.Is(err, ErrController) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("a directory that is no cgroup: %v", err)
	}
	_, _, err := fakeTree(t, 1, &fakeKernel{files: map[string]string{"cpu.cfs_quota_us": ""}})
	var ce *ControllerError
	if !errors.As(err, &ce) || ce.Controller != "cpu" {
		t.Errorf("no quota: %v", err)
	}
}

func TestOpenNowhere(t *testing.T) {
	if _, err := Open(t.TempDir(), "callcell"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("in a plain directory: %v", err)
	}
	if _, err := Open("/nonexistent", "callcell"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
	if _, err := Open("/sys/fs/cgroup", "../callcell"); !errors.Is(err, ErrName) {
		t.Errorf("parent outside: %v", err)
	}
}

// TestMakeFails breaks every step of Make in turn: nothing may be left, and the
// error names the step.
func TestMakeFails(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, s := range settings(version, someLimits, int64(unix.Getpagesize())) {
			for how, k := range map[string]*fakeKernel{
				"refused": {fail: map[string]error{s.file: unix.EINVAL}},
				"bent":    {bend: map[string]string{s.file: "123\n"}},
				"cut":     {bend: map[string]string{s.file: s.value}},
				"lacking": {files: map[string]string{s.file: ""}},
			} {
				t.Run(fmt.Sprintf("v%d/%s/%s", version, s.file, how), func(t *testing.T) {
					makeFails(t, version, k, s, how)
				})
			}
		}
	}
}

func makeFails(t *testing.T, version int, k *fakeKernel, s setting, how string) {
	tree, top, err := fakeTree(t, version, k)
	if errors.Is(err, ErrController) && how == "lacking" {
		return // found by Open already
	}
	if err != nil {
		t.Fatal(err)
	}
	before, fds := dirsBelow(t, top), openFDs(t)
	g, err := tree.Make("cell-1", someLimits)
	if s.optional && how == "lacking" {
		if err != nil {
			t.Fatalf("an optional file: %v", err)
		}
		check(t, g.Remove(t.Context()))
		check(t, g.Close())
	} else {
		var se *SettingError
		if g != nil || !errors.Is(err, ErrNotEnforced) || !errors.As(err, &se) || se.File != s.file || se.Want != s.value {
			t.Errorf("Make: %v", err)
		}
	}
	if after := dirsBelow(t, top); !slices.Equal(before, after) {
		t.Errorf("directories before %q, after %q", before, after)
	}
	if after := openFDs(t); len(after) != len(fds) {
		t.Errorf("descriptors before %v, after %v", fds, after)
	}
}

func TestMakeArguments(t *testing.T) {
	tree, top, err := fakeTree(t, 2, &fakeKernel{})
	if err != nil {
		t.Fatal(err)
	}
	before := dirsBelow(t, top)
	if _, err := tree.Make("../x", someLimits); !errors.Is(err, ErrName) {
		t.Errorf("bad name: %v", err)
	}
	if _, err := tree.Make("x", Limits{Memory: 1 << 20, Pids: 1}); !errors.Is(err, ErrLimits) {
		t.Errorf("no cpu: %v", err)
	}
	if after := dirsBelow(t, top); !slices.Equal(before, after) {
		t.Errorf("directories before %q, after %q", before, after)
	}
}

func TestFakeUsage(t *testing.T) {
	common := Usage{MemoryPeak: 8192, OOMKills: 2, PidsHits: 1}
	v1, v2 := common, common
	v1.CPU, v1.PidsPeak = 2*time.Millisecond, -1
	v2.CPU, v2.PidsPeak = 2*time.Millisecond, 4
	v2old := v2
	v2old.MemoryPeak, v2old.PidsPeak = -1, -1
	for _, c := range []struct {
		version int
		lacks   map[string]string
		want    Usage
	}{
		{1, nil, v1}, {2, nil, v2}, {2, map[string]string{"memory.peak": "", "pids.peak": ""}, v2old},
	} {
		tree, _, err := fakeTree(t, c.version, &fakeKernel{files: c.lacks})
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Make("cell-1", someLimits)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Usage(); err != nil || got != c.want {
			t.Errorf("version %d:\n got %+v, %v\nwant %+v", c.version, got, err, c.want)
		}
		check(t, g.Remove(t.Context()))
		if got, err := g.Usage(); err == nil || got != (Usage{}) {
			t.Errorf("after Remove: %+v, %v", got, err)
		}
		check(t, g.Close())
		if _, err := g.Usage(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestUsageOfBadText(t *testing.T) {
	for _, c := range []struct{ file, text string }{
		{"memory.events", "oom_kill many\n"}, {"memory.peak", "\n"}, {"cpu.stat", "usage_usec 9223372036854775807\n"},
		{"pids.events", strings.Repeat("x", smallFile+1)},
	} {
		tree, root, err := fakeTree(t, 2, &fakeKernel{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Make("cell-1", someLimits)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "a.slice/callcell/cell-1", c.file)
		check(t, os.WriteFile(path, []byte(c.text), 0o600))
		if u, err := g.Usage(); !errors.Is(err, ErrText) || u != (Usage{}) {
			t.Errorf("%s: %+v, %v", c.file, u, err)
		}
		check(t, g.Close())
	}
}

// TestKillIsNoHit: forks that Kill makes fail are not the cell's.
func TestKillIsNoHit(t *testing.T) {
	tree, top, err := fakeTree(t, 1, &fakeKernel{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := tree.Make("cell-1", someLimits)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		check(t, g.Kill(t.Context()))
		check(t, os.WriteFile(filepath.Join(top, "pids/callcell/cell-1/pids.events"), []byte("max 99\n"), 0o600))
		if u, err := g.Usage(); err != nil || u.PidsHits != 1 {
			t.Errorf("%d hits, %v; there was 1 before Kill", u.PidsHits, err)
		}
	}
	check(t, g.Close())
}

// TestKillV2Falls: a kernel without cgroup.kill gets the rounds of signals; the
// limit of processes goes to zero in any case.
func TestKillV2Falls(t *testing.T) {
	for _, lacks := range []map[string]string{nil, {"cgroup.kill": ""}} {
		k := &fakeKernel{files: lacks}
		tree, _, err := fakeTree(t, 2, k)
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Make("cell-1", someLimits)
		if err != nil {
			t.Fatal(err)
		}
		check(t, g.Kill(t.Context()))
		writes := k.written()
		if !slices.Contains(writes, "pids.max=0") || !slices.Contains(writes, "cgroup.kill=1") {
			t.Errorf("writes: %q", writes)
		}
		check(t, g.Close())
	}
}

// TestKillSparesItself: the launcher's threads enter groups to have their
// memory counted there, and cgroup.procs shows their process then.
func TestKillSparesItself(t *testing.T) {
	self := fmt.Sprintf("0\n%d\n", os.Getpid())
	for _, version := range []int{1, 2} {
		k := &fakeKernel{bend: map[string]string{"cgroup.procs": self}}
		tree, _, err := fakeTree(t, version, k)
		if err != nil {
			t.Fatal(err)
		}
		g, err := tree.Make("cell-1", someLimits)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(done(t)); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("version %d: Kill: %v", version, err)
		}
		if slices.Contains(k.written(), "cgroup.kill=1") {
			t.Error("cgroup.kill would have killed this process")
		}
		check(t, g.Close())
	}
}

func TestRemoveReports(t *testing.T) {
	busy := &fakeKernel{fail: map[string]error{"rmdir cell-1": unix.EACCES}}
	tree, _, err := fakeTree(t, 1, busy)
	if err != nil {
		t.Fatal(err)
	}
	g, err := tree.Make("cell-1", someLimits)
	if err != nil {
		t.Fatal(err)
	}
	err = g.Remove(t.Context())
	var re *RemainsError
	if !errors.Is(err, ErrRemains) || !errors.As(err, &re) || !errors.Is(err, fs.ErrPermission) ||
		!slices.Equal(re.Where, []string{"cpu,cpuacct", "memory", "pids"}) {
		t.Errorf("Remove: %v", err)
	}
	check(t, g.Close())
}
