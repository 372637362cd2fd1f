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
// of the same: what each takes of wall and CPU time, and how many there are in a
// second, four at once. All of it goes turn by turn and the first of a turn
// changes, so that what else the machine does meets both. scripts/bench shows it.
func BenchmarkAgainstRunsc(b *testing.B) {
	argv := []string{"/usr/bin/python3", "-c", "print(1)"}
	g := newGround(b)
	g.one(b, argv...)
	s := newStock(b, g, argv...)
	s.one(b)
	own := side{one: func() { g.one(b, argv...) }, used: func() time.Duration { return used(g.groups()) + g.ours(b) }}
	theirs := side{one: func() { s.one(b) }, used: func() time.Duration { return used(s.groups) }}
	var wall, cpu, rates rounds
	for round := 0; b.Loop(); round++ {
		const turns = 4
		var walls, cpus [2][]float64
		for turn := range turns {
			inTurn(turn, &own, &theirs, func(i int, s *side) {
				took, worked := s.cold()
				walls[i], cpus[i] = append(walls[i], took), append(cpus[i], worked)
			})
		}
		wall.add(median(walls[0]), median(walls[1]))
		cpu.add(mean(cpus[0]), mean(cpus[1])) // the launcher's comes in steps of 10 ms
		var both [2]float64
		inTurn(round, &own, &theirs, func(i int, s *side) { both[i] = s.rate() })
		rates.add(both[0], both[1])
	}
	wall.report(b, "-ms", "wall")
	cpu.report(b, "-cpu-ms", "cpu")
	rates.report(b, "/s", "rate")
}

// A side is one of the two that are compared.
type side struct {
	one  func()               // makes, runs and destroys one
	used func() time.Duration // CPU time so far
}

// inTurn does it with both; of odd turns the second is first.
func inTurn(turn int, own, theirs *side, do func(int, *side)) {
	both := [2]*side{own, theirs}
	first := turn % 2
	do(first, both[first])
	do(1-first, both[1-first])
}

// cold is what one takes of wall and CPU time, in milliseconds.
func (s *side) cold() (wall, cpu float64) {
	began, before := time.Now(), s.used()
	s.one()
	return time.Since(began).Seconds() * 1e3, (s.used() - before).Seconds() * 1e3
}

// rate is how many there are in a second, four at once.
func (s *side) rate() float64 {
	const length = 3 * time.Second
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 4 {
		all.Go(func() {
			for time.Since(began) < length {
				s.one()
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// rounds are the values of both sides in each round.
type rounds struct{ own, theirs, ratios []float64 }

func (r *rounds) add(own, theirs float64) {
	r.own, r.theirs, r.ratios = append(r.own, own), append(r.theirs, theirs), append(r.ratios, own/theirs)
}

// report says the medians of the rounds, that of their ratios, and the least and
// the greatest of these.
func (r *rounds) report(b *testing.B, unit, ratio string) {
	b.ReportMetric(median(r.own), "own"+unit)
	b.ReportMetric(median(r.theirs), "runsc"+unit)
	b.ReportMetric(median(r.ratios), ratio+"-ratio")
	b.ReportMetric(slices.Min(r.ratios), ratio+"-ratio-min")
	b.ReportMetric(slices.Max(r.ratios), ratio+"-ratio-max")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}
