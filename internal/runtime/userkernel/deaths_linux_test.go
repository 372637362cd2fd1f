package userkernel_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/callcell/callcell/internal/runtime/userkernel"
)

// members are all processes of the ground's cells, the sentry of one cell first:
// the one that none of the others has made.
func (g *ground) members(t testing.TB) []int {
	t.Helper()
	pids := g.processes(t)
	sentry := slices.IndexFunc(pids, func(pid int) bool { return !slices.Contains(pids, parentOf(pid)) })
	if sentry > 0 { // numbers of processes come round
		pid := pids[sentry]
		pids = slices.Insert(slices.Delete(pids, sentry, sentry+1), 0, pid)
	}
	return pids
}

// parentOf is who made a process; 0 where that is gone.
func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if f := strings.Fields(rest); len(f) > 1 {
		parent, _ := strconv.Atoi(f[1])
		return parent
	}
	return 0
}

// processes are all of the ground's cells, in the order of their numbers.
func (g *ground) processes(t testing.TB) (pids []int) {
	t.Helper()
	for _, dir := range g.groups() {
		lists, err := filepath.Glob(dir + "/*/cgroup.procs")
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			text, err := os.ReadFile(list)
			if err != nil {
				continue // gone since
			}
			for _, word := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// eventually waits until nothing of what left lists is left.
func eventually(t testing.TB, what string, left func() []int) {
	t.Helper()
	limit, tick := time.NewTimer(time.Minute*unhurried()), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		now := left()
		if len(now) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: %v", what, now)
		}
	}
}

func alive(pids []int) (left []int) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(text), ") Z ") {
			left = append(left, pid)
		}
	}
	return left
}

func kill(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid <= 1 {
			t.Fatalf("no process: %d", pid)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			t.Fatal(err)
		}
	}
}

// TestDeaths: whatever dies around a program, its call is broken and typed, and
// nothing of it is left.
func TestDeaths(t *testing.T) {
	for _, tc := range []struct {
		name     string
		strike   func(t *testing.T, g *ground)
		complete bool // the teardown is, without a next launcher
	}{
		{"the sentry", func(t *testing.T, g *ground) { kill(t, g.members(t)[0]) }, true},
		{"the launcher", func(t *testing.T, g *ground) { kill(t, g.launcher(t)) }, true},
		{"the reaper", func(t *testing.T, g *ground) { kill(t, g.reaper(t)) }, false},
		{"launcher and reaper", func(t *testing.T, g *ground) { kill(t, g.reaper(t), g.launcher(t)) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGround(t)
			c, err := g.Open(context.Background(), shape())
			if err != nil {
				t.Fatal(err)
			}
			first := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				_, err := c.Exec(context.Background(), cell.Command{
					Argv: []string{"/bin/sh", "-c", "echo ready; sleep 1000 & sleep 1000"}, Env: environ(), Stdout: signal(first),
				})
				done <- err
			}()
			select {
			case <-first:
			case err := <-done:
				t.Fatal(err)
			}
			pids := g.members(t)
			if len(pids) < 4 {
				t.Fatalf("processes %v", pids)
			}
			tc.strike(t, g)
			if err := <-done; !errors.Is(err, cell.ErrBroken) {
				t.Errorf("Exec: %v, want ErrBroken", err)
			}
			if r := c.Close(context.Background()); r.Complete != tc.complete {
				t.Errorf("teardown: %+v", r)
			}
			eventually(t, "processes", func() []int { return alive(pids) })
			if !tc.complete {
				g.again(t)
			}
			if r, _ := g.run(t, shape(), nil, "/bin/true"); r.err != nil || r.exit.Code != 0 {
				t.Errorf("the next call: %+v, %v", r.exit, r.err)
			}
		})
	}
}

// TestStubDeaths kills all processes of a sandbox but the sentry, and then one
// after the other, each in a cell of its own. What becomes of the program is its kernel's affair; the host's
// clock ends it where nothing else does, and nothing of it is left.
func TestStubDeaths(t *testing.T) {
	g := newGround(t)
	s := shape()
	s.Envelope.Resources.Wall = envelope.Duration(time.Second)
	for i := 0; ; {
		c, err := g.Open(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		first, done := make(chan struct{}), make(chan error, 1)
		go func() {
			x, err := c.Exec(context.Background(), cell.Command{
				Argv: []string{"/bin/sh", "-c", "echo ready; while :; do sleep 0.01; done"}, Env: environ(), Stdout: signal(first),
			})
			t.Logf("process %d killed: %+v, %v", i, x, err)
			done <- err
		}()
		select {
		case <-first:
		case err := <-done:
			if err != nil || s.Envelope.Resources.Wall >= longWall {
				t.Fatal(err)
			}
			s.Envelope.Resources.Wall *= 4 // its time was over before it had begun
			closed(t, c)
			continue
		}
		pids := g.members(t)
		if i == 0 {
			kill(t, pids[1:]...)
		} else if i < len(pids) {
			kill(t, pids[i])
		}
		began := time.Now()
		if err := <-done; err != nil && !errors.Is(err, cell.ErrBroken) {
			t.Errorf("Exec: %v", err)
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("it took %v", took)
		}
		closed(t, c)
		eventually(t, "processes", func() []int { return alive(pids) })
		if i >= len(pids) {
			return
		}
		i++
	}
}

// signal closes a channel at the first byte.
type signal chan struct{}

func (s signal) Write(b []byte) (int, error) {
	select {
	case <-s:
	default:
		close(s)
	}
	return len(b), nil
}

func (g *ground) launcher(t testing.TB) int {
	t.Helper()
	launcher, _, err := g.launchers.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return launcher
}

func (g *ground) reaper(t testing.TB) int {
	t.Helper()
	_, reaper, err := g.launchers.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return reaper
}

// again starts new launchers in the place of those that are gone.
func (g *ground) again(t testing.TB) {
	t.Helper()
	_ = g.launchers.Close() // says what was left
	g.launchers = link.New(link.Config{Helpers: os.Getenv(helpersEnv), Conf: g.conf, Launchers: 1})
	g.Runtime = userkernel.New(g.launchers)
}
