package container_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/runtime/userkernel"
	"github.com/callcell/callcell/internal/testing/remains"
)

// The tests named Test...Cases replay what went wrong in other sandboxes, each
// kind of it in a real cell. docs/cases.md lists them by number.

// answerSlack is what a call may take beyond its wall time and its grace, on a
// machine that does much else.
const answerSlack = 30 * time.Second

// A ground is where a group of cases is played: a launcher whose groups, uids
// and locks are nobody else's, and a neighbour that works on meanwhile.
type ground struct {
	runtime   *container.Runtime
	own       *userkernel.Runtime // of the same launchers, where cells have a kernel of their own
	neighbour *neighbour          // nil where the launcher is to die
	parent    string              // the group of all its cells
	conf      string              // the launcher's configuration
	uids      [2]int              // the first, and the one after the last
	places    remains.Places
	hung      *hungFS // nil where there is none
}

// cells is the runtime of the level at which cases are played here.
func (g *ground) cells() cell.Runtime {
	if g.own != nil {
		return g.own
	}
	return g.runtime
}

// A maker starts grounds of one level, without neighbours.
type maker func(*testing.T, link.Config) *ground

// containers starts those of the container level.
func containers(t *testing.T, config link.Config) *ground {
	t.Helper()
	return newGroundWith(t, config)
}

// ground starts one with a neighbour.
func (m maker) ground(t *testing.T) *ground {
	t.Helper()
	g := m(t, link.Config{})
	g.neighbour = newNeighbour(t, g.cells())
	return g
}

// grounds counts them: those of tests that run in parallel have nothing in common.
var grounds atomic.Int64

// newLoneGround starts a ground, and sees to it that nothing is left of it.
func newLoneGround(t *testing.T) *ground {
	t.Helper()
	return newGroundFor(t, false)
}

// newGroundFor starts one whose launcher is for one call, or for many. Its
// egress process is the probe of the launcher's tests.
func newGroundFor(t *testing.T, once bool) *ground {
	t.Helper()
	return newGroundWith(t, link.Config{Once: once})
}

// newGroundWith starts one of as many launchers as the configuration has, and
// with further settings of launcher.conf, where it says how many cells.
func newGroundWith(t *testing.T, config link.Config, settings ...string) *ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: cells are made of what only root may make")
	}
	dir := t.TempDir()
	number := int(grounds.Add(1))
	first := 1_900_000_000 + (os.Getpid()%10_000*8+number%8)*256
	g := &ground{parent: fmt.Sprintf("callcell-cases-%d-%d", os.Getpid(), number), uids: [2]int{first, first + 256}}
	conf := filepath.Join(dir, "launcher.conf")
	text := fmt.Sprintf("cgroup.parent = %s\nrun.dir = %[2]s/run\nimage.dir = %[2]s/images\nuids.first = %[3]d\nuids.count = 256\negress.path = %[4]s\n",
		g.parent, dir, first, filepath.Join(os.Getenv("CALLCELL_TEST_HELPERS"), "callcell-egress-probe"))
	if len(settings) == 0 {
		settings = []string{"cells = 64"}
	}
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "spares") }) {
		settings = append(settings, "spares = 0") // what is there is a cell's
	}
	if err := os.WriteFile(conf, []byte(text+strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.places = remains.Places{
		Process: func(_, cmdline string) bool { return strings.Contains(cmdline, conf) },
		Groups:  append(g.groups(), "/sys/fs/cgroup/"+g.parent), Dirs: []string{"/dev/shm", filepath.Join(dir, "run")},
		Locks: "/run/callcell/uids", UIDs: g.uids,
	}
	before := remains.Take(g.places)
	t.Cleanup(func() { g.checkRemains(t, before) })
	g.conf, config.Conf = conf, conf
	if config.Helpers == "" {
		config.Helpers = os.Getenv("CALLCELL_TEST_HELPERS")
	}
	g.runtime = start(config)
	t.Cleanup(func() {
		if err := g.runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// groups are the directories below which the groups of this ground's cells are,
// once there are some.
func (g *ground) groups() []string {
	var dirs []string
	for _, controller := range []string{"memory", "pids", "cpu", "cpuacct", "cpu,cpuacct"} {
		dirs = append(dirs, filepath.Join("/sys/fs/cgroup", controller, g.parent))
	}
	return dirs
}

// checkRemains looks for what is there and was not there before: processes by
// their uids too, and not for the namespaces of strangers.
func (g *ground) checkRemains(t *testing.T, before remains.Snapshot) {
	t.Helper()
	awaitNone(t, "after all cells", func() []string {
		left := g.strays()
		for _, line := range remains.Take(g.places).More(before) {
			if !strings.HasPrefix(line, "namespace ") {
				left = append(left, line)
			}
		}
		return left
	})
	for _, dir := range g.places.Groups {
		os.Remove(filepath.Join(dir, cgroup.ClaimName))
		os.Remove(dir) // the parents, which a launcher leaves for the next one
	}
}

// strays are the processes that have a uid of this ground. A zombie is none: it
// waits for whoever is to reap it.
func (g *ground) strays() (left []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var st unix.Stat_t
		if unix.Stat(d, &st) != nil || int(st.Uid) < g.uids[0] || int(st.Uid) >= g.uids[1] {
			continue
		}
		comm, _ := os.ReadFile(d + "/comm")
		if stat, err := os.ReadFile(d + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			left = append(left, fmt.Sprintf("process %s %s", filepath.Base(d), strings.TrimSpace(string(comm))))
		}
	}
	return left
}

// A row is one case: a program, and how its call is to end.
type row struct {
	name   string // number of the case, and what it is
	lang   string // sh, python or node
	code   string
	argv   []string // instead of lang and code
	stdin  []byte
	files  []envelope.File
	take   []string // outputs
	needs  string   // a program that not every host has
	env    []string // beside those that every call has, or instead of them
	change func(*envelope.Envelope)
	far    func(*ended) bool // whether it came as far as its wall time is to find it
	want   want
	either bool // more judges the end, and want does not
	more   func(*testing.T, *ended)
	own    func(*row) // what is otherwise where cells have a kernel of their own: docs/levels.md lists why
}

// want is the end of a call. The zero value is a program that exits with 0 and
// meets no ceiling.
type want struct {
	code   int
	signal unix.Signal
	cause  string
	events string // the kinds, with commas
	says   string // regular expression over what it printed
}

// killed is the end by the host.
func killed(cause, events string) want {
	return want{code: -1, signal: unix.SIGKILL, cause: cause, events: events}
}

// ended is what came of a call.
type ended struct {
	cell.Exit
	out    string // both streams
	most   int64  // of memory that it may have, what is for a kernel of its own too
	files  map[string]string
	misses map[string]string
}

// play plays rows one after another, each in a cell of its own with base's
// envelope. After each the cell is wholly gone, the neighbour has gone on, and
// a plain call works.
func (g *ground) play(t *testing.T, base envelope.Envelope, rows []row) {
	t.Helper()
	for _, r := range rows {
		if g.own != nil && r.own != nil {
			r.own(&r)
		}
		t.Run(r.name, func(t *testing.T) {
			if r.needs != "" {
				if _, err := os.Stat("/usr/bin/" + r.needs); err != nil {
					t.Skipf("this host has no %s", r.needs)
				}
			}
			env := base
			env.Resources.Wall *= envelope.Duration(unhurried())
			env.Resources.CPUTime *= envelope.Duration(unhurried()) // of an emulated machine, what waits is counted too
			if r.change != nil {
				r.change(&env)
			}
			e := g.call(t, env, r)
			for ; r.far != nil && !r.far(e) && env.Resources.Wall < longWall; e = g.call(t, env, r) {
				env.Resources.Wall *= 4
			}
			if !r.either {
				r.want.check(t, e)
			}
			if r.more != nil {
				r.more(t, e)
			}
			g.goesOn(t)
		})
	}
}

// goesOn checks that nothing of a call is left, that the neighbour has gone on,
// and that a plain call works. A kernel of its own takes its time: there the next
// row's call is that.
func (g *ground) goesOn(t *testing.T) {
	t.Helper()
	awaitNone(t, "cells beside the neighbour's", func() []string { return g.beside(1) })
	g.neighbour.check(t)
	if g.own == nil {
		one(t, g.cells(), "/usr/bin/true")
	}
}

// beside are the cells there are beside so many.
func (g *ground) beside(most int) []string {
	cells := map[string]bool{}
	for _, list := range g.cellGroups() {
		cells[filepath.Base(filepath.Dir(list))] = true
	}
	names := slices.Sorted(maps.Keys(cells))
	return names[min(most, len(names)):]
}

// longWall is enough for a program to come as far as it is to, on any machine.
const longWall = envelope.Duration(30e9)

// printed is how far a program came that says so.
func printed(text string) func(*ended) bool {
	return func(e *ended) bool { return strings.Contains(e.out, text) }
}

func (w want) check(t *testing.T, e *ended) {
	t.Helper()
	if e.Code != w.code || e.Signal != int(w.signal) || e.Cause != w.cause || kinds(e.Events) != w.events {
		t.Errorf("code %d, signal %d, cause %q, events %q; want %d, %d, %q, %q\n%.4000s",
			e.Code, e.Signal, e.Cause, kinds(e.Events), w.code, int(w.signal), w.cause, w.events, e.out)
	}
	if w.says != "" && !regexp.MustCompile(w.says).MatchString(e.out) {
		t.Errorf("it says:\n%.4000s\nwant %s", e.out, w.says)
	}
}

func kinds(events []envelope.Event) string {
	var words []string
	for _, e := range events {
		words = append(words, e.Kind)
	}
	return strings.Join(words, ",")
}

// call makes one call from the first step to the last.
func (g *ground) call(t *testing.T, env envelope.Envelope, r row) *ended {
	t.Helper()
	ctx := context.Background()
	s := shape()
	s.Envelope = env
	c, err := g.cells().Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer g.destroy(t, c)
	argv, files := r.program()
	if err := c.Put(append(files, r.files...)); err != nil {
		t.Fatal(err)
	}
	var out locked
	began := time.Now()
	x, err := c.Exec(ctx, cell.Command{Argv: argv, Env: variables(r.env...), Stdin: r.stdin, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if took, most := time.Since(began), env.Resources.Wall.Std()+env.Cleanup.StopGrace.Std()+answerSlack; took > most {
		t.Errorf("the answer took %v, more than %v", took, most)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	e := &ended{Exit: x, out: out.String(), most: int64(env.Resources.Memory), files: map[string]string{}, misses: map[string]string{}}
	if g.own != nil {
		e.most += kernelMemory
	}
	g.collect(t, c, r.take, env.Files.Outputs, e)
	return e
}

func (r row) program() ([]string, []envelope.File) {
	if r.argv != nil {
		return r.argv, nil
	}
	program := map[string]string{"sh": "/bin/sh", "python": "/usr/bin/python3", "node": "/usr/bin/node"}[r.lang]
	name := envelope.Script{Lang: r.lang}.FileName()
	return []string{program, name}, []envelope.File{{Name: name, Data: []byte(r.code)}}
}

func (g *ground) collect(t *testing.T, c cell.Cell, names []string, caps envelope.OutputCaps, e *ended) {
	t.Helper()
	if len(names) == 0 {
		return
	}
	files, misses, err := c.Get(context.Background(), names, caps)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		e.files[f.Name] = string(f.Data)
	}
	for _, m := range misses {
		e.misses[m.Name] = m.Why
	}
}

func (g *ground) destroy(t *testing.T, c cell.Cell) {
	t.Helper()
	began := time.Now()
	report := c.Close(context.Background())
	if !report.Complete {
		t.Errorf("teardown: %+v", report)
	}
	if took := time.Since(began); took > answerSlack {
		t.Errorf("the teardown took %v", took)
	}
}

// variables are those that the main path gives every program, with some more.
func variables(more ...string) []string {
	list := append(environ(), "TMPDIR=/tmp", "TERM=dumb", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		list = slices.DeleteFunc(list, func(have string) bool { return strings.HasPrefix(have, name+"=") })
	}
	return append(list, more...)
}
