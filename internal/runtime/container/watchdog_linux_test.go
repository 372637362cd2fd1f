package container_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// stuckHelpers builds a launcher whose children can be made to get stuck, and
// puts the init that is shipped beside it.
func stuckHelpers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "callcell-launcher"), "./internal/runtime/container/testdata/stuck")
	build.Dir, build.Env = helpers.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	init, err := os.ReadFile(filepath.Join(os.Getenv("CALLCELL_TEST_HELPERS"), "callcell-init"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "callcell-init"), init, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStuckLauncher: a launcher that gets stuck is ended from outside within a
// bound, and its cells with it. Those of another go on; the next call works;
// nothing is left.
func TestStuckLauncher(t *testing.T) {
	const bound = 2 * time.Second
	for _, tc := range []struct {
		name  string
		stick func(t *testing.T, g *ground, launcher int)
	}{
		{"in a child that does not come to its exec", func(t *testing.T, g *ground, _ int) {
			if err := os.WriteFile(g.conf+".stick", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := os.Lstat(g.conf + ".stuck"); err != nil {
					t.Errorf("it was not stuck: %v", err)
				}
			})
		}},
		{"altogether", func(t *testing.T, g *ground, launcher int) { halt(t, launcher) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGroundWith(t, link.Config{Helpers: stuckHelpers(t), Launchers: 2})
			neighbour := g.begin(t, context.Background())
			free := 0
			for _, pid := range g.grow(t, 2) {
				if pid != container.LauncherOf(neighbour.cell) {
					free = pid
				}
			}
			g.runtime.SetPatience(bound)
			tc.stick(t, g, free)
			began := time.Now()
			_, err := g.runtime.Open(context.Background(), shape())
			var refused *cell.Error
			if took := time.Since(began); !errors.As(err, &refused) || refused.Reason != envelope.ReasonSetup || took > bound+answerSlack {
				t.Errorf("Open: %v after %v, want setup", err, took)
			}
			g.runtime.SetPatience(time.Minute) // the others are not stuck, and may be late
			if pids := g.runtime.Launchers(); slices.Contains(pids, free) {
				t.Errorf("launcher %d is still asked: %v", free, pids)
			}
			one(t, g.runtime, "/usr/bin/true")
			if celltest.HostProcesses(neighbour.mark) == 0 {
				t.Error("the neighbour was ended")
			}
			if r := neighbour.cell.Close(context.Background()); !r.Complete {
				t.Errorf("the neighbour's teardown: %+v", r)
			}
			if x, err := neighbour.end(); err != nil || x.Cause != cell.CauseCancel {
				t.Errorf("the neighbour's end: %+v, %v", x, err)
			}
		})
	}
}

// halt stops a process, and returns when it stands.
func halt(t *testing.T, pid int) {
	t.Helper()
	signal(t, unix.SIGSTOP, pid)
	awaitNone(t, "the processes that do not stand still", func() (left []string) {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil || !strings.Contains(string(stat), ") T ") {
			left = append(left, string(stat))
		}
		return left
	})
}
