package userkernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/cell"
)

// one makes, runs and destroys a cell.
func (g *ground) one(tb testing.TB, argv ...string) {
	c, err := g.Open(context.Background(), shape())
	if err != nil {
		tb.Error(err)
		return
	}
	x, err := c.Exec(context.Background(), cell.Command{Argv: argv, Env: environ(), Stdout: io.Discard, Stderr: io.Discard})
	if err != nil || x.Code != 0 {
		tb.Errorf("%+v, %v", x, err)
	}
	closed(tb, c)
}

// A stock is gVisor's own way to the same: `runsc run`, of the same build, over
// the same image, with its usual flags.
type stock struct {
	dir, runsc string
	number     atomic.Int64
	groups     []string // its own, of whatever version
}

func newStock(b *testing.B, g *ground, argv ...string) *stock {
	b.Helper()
	s := &stock{dir: b.TempDir(), runsc: filepath.Join(os.Getenv(helpersEnv), "callcell-runsc")}
	image := filepath.Join(os.Getenv(helpersEnv), "root.erofs")
	config := map[string]any{
		"ociVersion": "1.2.1",
		"process":    map[string]any{"user": map[string]any{"uid": 1000, "gid": 1000}, "args": argv, "env": environ(), "cwd": "/", "noNewPrivileges": true},
		"root":       map[string]any{"path": "rootfs", "readonly": true},
		"mounts":     []any{map[string]any{"destination": "/proc", "type": "proc", "source": "proc"}},
		"annotations": map[string]string{
			"dev.gvisor.spec.rootfs.source": image, "dev.gvisor.spec.rootfs.type": "erofs", "dev.gvisor.spec.rootfs.overlay": "memory",
		},
		"linux": map[string]any{"namespaces": []any{
			map[string]string{"type": "pid"}, map[string]string{"type": "mount"}, map[string]string{"type": "ipc"},
			map[string]string{"type": "uts"}, map[string]string{"type": "network"}}},
	}
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "config.json"), text, 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(s.dir, "rootfs"), 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, dir := range g.groups() {
		dir += "-stock"
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue // a controller that does not count
		}
		b.Cleanup(func() { _ = os.Remove(dir) }) // empty by then
		s.groups = append(s.groups, dir)
	}
	return s
}

func (s *stock) one(tb testing.TB) {
	var enter strings.Builder
	for _, dir := range s.groups {
		if strings.Contains(dir, "/cpuacct/") || !strings.Contains(strings.TrimPrefix(dir, "/sys/fs/cgroup/"), "/") {
			fmt.Fprintf(&enter, "echo $$ >%s/cgroup.procs && ", dir)
		}
	}
	id := fmt.Sprintf("bench-%d", s.number.Add(1))
	c := exec.Command("/bin/sh", "-c", fmt.Sprintf("%sexec %s --root %s/state --network=none --ignore-cgroups --platform=systrap run --bundle %s %s",
		enter.String(), s.runsc, s.dir, s.dir, id))
	if out, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "1" {
		tb.Errorf("runsc run: %v: %.500s", err, out)
	}
}

// used is the CPU time of groups, those below them too.
func used(dirs []string) time.Duration {
	for _, dir := range dirs {
		if text, err := os.ReadFile(dir + "/cpuacct.usage"); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			return time.Duration(n)
		}
		if text, err := os.ReadFile(dir + "/cpu.stat"); err == nil {
			for line := range strings.Lines(string(text)) {
				if word, ok := strings.CutPrefix(line, "usage_usec "); ok {
					n, _ := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
					return time.Duration(n) * time.Microsecond
				}
			}
		}
	}
	return 0
}

// ours is the CPU time of this process and of the launcher.
func (g *ground) ours(b *testing.B) time.Duration {
	b.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(r.Utime.Nano() + r.Stime.Nano())
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.launcher(b)))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	for _, at := range []int{11, 12} { // utime, stime, in hundredths of a second
		n, err := strconv.Atoi(f[at])
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// BenchmarkAgainstRunsc is a cold python3 -c 'print(1)' beside plain `runsc run`
// of the same, turn by turn: what each takes of wall and CPU time, and how many
// there are in a second, four at once. scripts/bench shows it.
func BenchmarkAgainstRunsc(b *testing.B) {
	argv := []string{"/usr/bin/python3", "-c", "print(1)"}
	g := newGround(b)
	g.one(b, argv...)
	s := newStock(b, g, argv...)
	s.one(b)
	var walls [2][]float64
	var cpus [2]time.Duration
	n := 0
	for b.Loop() {
		n++
		began, before := time.Now(), used(g.groups())+g.ours(b)
		g.one(b, argv...)
		walls[0] = append(walls[0], time.Since(began).Seconds()*1e3)
		cpus[0] += used(g.groups()) + g.ours(b) - before
		began, before = time.Now(), used(s.groups)
		s.one(b)
		walls[1] = append(walls[1], time.Since(began).Seconds()*1e3)
		cpus[1] += used(s.groups) - before
	}
	own, theirs := median(walls[0]), median(walls[1])
	b.ReportMetric(own, "own-ms")
	b.ReportMetric(theirs, "runsc-ms")
	b.ReportMetric(own/theirs, "wall-ratio")
	b.ReportMetric(cpus[0].Seconds()*1e3/float64(n), "own-cpu-ms")
	b.ReportMetric(cpus[1].Seconds()*1e3/float64(n), "runsc-cpu-ms")
	b.ReportMetric(cpus[0].Seconds()/cpus[1].Seconds(), "cpu-ratio")
	mine := rate(func() { g.one(b, argv...) })
	other := rate(func() { s.one(b) })
	b.ReportMetric(mine, "own/s")
	b.ReportMetric(other, "runsc/s")
	b.ReportMetric(mine/other, "rate-ratio")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// rate is how many there are in a second, four at once.
func rate(one func()) float64 {
	const length = 6 * time.Second
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 4 {
		all.Go(func() {
			for time.Since(began) < length {
				one()
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}
