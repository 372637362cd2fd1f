package container_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
)

// TestManyCalls makes many cells with one launcher, four at a time, and looks
// whether the launcher, the reaper or we grow: descriptors not at all, memory
// not beyond what the first calls took.
func TestManyCalls(t *testing.T) {
	calls := 600
	if os.Getenv("CALLCELL_LONG") != "" {
		calls = 20_000
	}
	r := newGroundWith(t, link.Config{Launchers: 1}).runtime
	run(t, r, 200) // caches and pools are full after these
	before := standing(t)
	run(t, r, calls)
	after := standing(t)
	t.Logf("%d calls: before %v, after %v", calls, before, after)
	for who, b := range before {
		a := after[who]
		if a.fds > b.fds+8 { // what is being made ready, or closed
			t.Errorf("%s: descriptors %d, then %d", who, b.fds, a.fds)
		}
		if a.rss > max(b.rss*3/2+8<<10, launcherHeap) {
			t.Errorf("%s: resident KiB %d, then %d", who, b.rss, a.rss)
		}
		if a.threads > b.threads+24 { // a busy machine holds some in the kernel
			t.Errorf("%s: threads %d, then %d", who, b.threads, a.threads)
		}
	}
}

// launcherHeap is what the launcher may hold, in KiB: its collector begins at
// 64 MiB, and not before.
const launcherHeap = 96 << 10

func run(t *testing.T, r *container.Runtime, calls int) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range calls / 4 {
				one(t, r, "/usr/bin/true")
			}
		})
	}
	all.Wait()
}

// size is how much a process holds.
type size struct{ fds, rss, threads int }

// standing returns the sizes of us, our launcher and its reaper.
func standing(t *testing.T) map[string]size {
	t.Helper()
	launcher := child(t, os.Getpid(), "callcell-launch")
	return map[string]size{
		"front":    sizeOf(t, os.Getpid()),
		"launcher": sizeOf(t, launcher),
		"reaper":   sizeOf(t, child(t, launcher, "callcell-init")),
	}
}

func child(t *testing.T, pid int, comm string) int {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(b)) {
			name, _ := os.ReadFile("/proc/" + f + "/comm")
			if strings.TrimSpace(string(name)) == comm {
				n, _ := strconv.Atoi(f)
				return n
			}
		}
	}
	t.Fatalf("process %d has no child %s", pid, comm)
	return 0
}

func sizeOf(t *testing.T, pid int) (s size) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	s.fds = len(fds)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		switch f := strings.Fields(line); f[0] {
		case "VmRSS:":
			s.rss, _ = strconv.Atoi(f[1])
		case "Threads:":
			s.threads, _ = strconv.Atoi(f[1])
		}
	}
	return s
}
