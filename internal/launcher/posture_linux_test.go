package launcher

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
)

var update = flag.Bool("update", false, "write the golden files")

// TestPlan pins the list of system calls that every cell goes through, in its
// order and with its reasons: a step that comes, goes or moves is to be seen.
func TestPlan(t *testing.T) {
	p := &plan{joins: 4, filter: make([]unix.SockFilter, 1), landlock: 7, lastCap: 40}
	pinned(t, "plan.golden", p.compile().list)
	p.bounds.network = true
	pinned(t, "plan_network.golden", p.compile().list)
}

// pinned compares a list with a golden file.
func pinned(t *testing.T, name string, list *vfork.Program) {
	t.Helper()
	defer list.Release()
	var text strings.Builder
	for _, l := range list.Lines() {
		if l.Why == "" {
			t.Errorf("step %q has no reason", l.Name)
		}
		fmt.Fprintf(&text, "%-45s %s\n", l.Name, l.Why)
	}
	golden := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(golden, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if string(want) != text.String() {
		t.Errorf("the list changed (go test -run %s -update writes it anew):\n%s", t.Name(), text.String())
	}
}

// TestPlanOrder are the pairs that may never change places, each with what
// would be lost.
func TestPlanOrder(t *testing.T) {
	p := &plan{bounds: bounds{network: true}, joins: 1, filter: make([]unix.SockFilter, 1), landlock: 7, lastCap: 40}
	inOrder(t, p.compile().list, "enter the cell's group", [][3]string{
		{"enter the cell's group", "unshare cgroup namespace", "the cell would see our group"},
		{"drop groups", "set uid", "the host's groups could not be dropped any more"},
		{"set gid", "set uid", "the gid could not be set any more"},
		{"set uid", "unshare user namespace", "the namespace would be root's"},
		{"unshare user namespace", "set uid inside", "the uid would mean nothing"},
		{"unshare user namespace", "drop capability 0 from the bounding set", "the unshare fills it again"},
		{"set uid inside", "die with the launcher", "a change of credentials clears it"},
		{"drop capability 40 from the bounding set", "no new privileges", "dropping takes a capability"},
		{"no new privileges", "filter system calls", "the filter takes it"},
		{"no new privileges", "landlock", "the rules take it"},
		{"close all others", "landlock rules", "the rules would be closed"},
		{"attach scratch", "bind /work", "there would be nothing to bind"},
		{"cover /etc/resolv.conf", "set uid", "mounting takes root"},
	})
}

// inOrder checks what must be first of a list that ends in a filter, and pairs
// that may never change places.
func inOrder(t *testing.T, list *vfork.Program, first string, pairs [][3]string) {
	t.Helper()
	ordered(t, list, first, "filter system calls", pairs)
}

// ordered checks what must be first, what last before the exec, and pairs.
func ordered(t *testing.T, list *vfork.Program, first, last string, pairs [][3]string) {
	t.Helper()
	defer list.Release()
	var names []string
	for _, l := range list.Lines() {
		names = append(names, l.Name)
	}
	at := func(name string) int {
		i := slices.Index(names, name)
		if i < 0 {
			t.Fatalf("no step %q", name)
		}
		return i
	}
	if at(first) != 0 {
		t.Error("something is used before it is counted")
	}
	if at(last) != len(names)-2 {
		t.Error("a step other than the exec runs filtered, or one of the exec's kind runs unfiltered")
	}
	for _, pair := range pairs {
		if at(pair[0]) >= at(pair[1]) {
			t.Errorf("%q must come before %q: %s", pair[0], pair[1], pair[2])
		}
	}
}

func TestPlanWithoutAFilter(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a list without a filter was made")
		}
	}()
	list := vfork.New()
	defer list.Release()
	(&plan{}).confine(list)
}

// holds compares the descriptors of a process with what is explained: the
// first by number, the rest in any order.
func holds(t *testing.T, pid int, numbered []string, rest ...string) {
	t.Helper()
	slices.Sort(rest)
	var got []string
	ok := func() bool {
		got = fdsOf(t, pid)
		if len(got) < len(numbered) || !slices.Equal(got[:len(numbered)], numbered) {
			return false
		}
		var others []string
		for _, fd := range got[len(numbered):] {
			_, target, _ := strings.Cut(fd, " ")
			others = append(others, target)
		}
		slices.Sort(others)
		return slices.Equal(others, rest)
	}
	defer func() {
		if t.Failed() {
			t.Logf("it holds %q\nexplained are %q and %q", got, numbered, rest)
		}
	}()
	eventually(t, "every descriptor is explained, and all are there", ok)
}

// TestLauncherPosture: what the launcher may do and holds, exhaustively, with
// no cell, with a cell that is built, with one that runs, and after.
func TestLauncherPosture(t *testing.T) {
	c := dial(t, newPlace(t))
	var keep uint64
	for _, k := range kept() {
		if k.why == "" {
			t.Errorf("capability %d without a reason", k.number)
		}
		keep |= 1 << k.number
	}
	for field, want := range map[string]string{
		"CapEff": fmt.Sprintf("%016x", keep), "CapPrm": fmt.Sprintf("%016x", keep),
		"CapInh": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
	} {
		onEveryThread(t, c.pid, field, want)
	}
	for file, want := range map[string]string{"environ": "", "comm": "callcell-launch\n"} {
		if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.pid, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
	numbered := []string{"0 /dev/null", "1 /dev/null", "2 pipe", "3 /dev/null", "4 /dev/null"}
	always := append([]string{
		"socket", "socket", // the front's, the reaper's
		"anon_inode:[eventpoll]", "anon_inode:[eventfd]", // the runtime's
		leasesFile,
	}, ofParent(c.parent)...)
	with := func(more ...string) []string { return append(slices.Clone(always), more...) }
	holds(t, c.pid, numbered, with("net")...) // prepared ahead

	slot := c.open(t, spec())
	built := append([]string{
		leasesFile, "net", template.ScratchPoint, template.ScratchPoint + "/work", // attached in the cell
		"anon_inode:[pidfd]", "socket", // init, and the conversation with it
	}, ofGroup(c.parent)...)
	if c.hello.Cgroup == 1 {
		built = append(built, "anon_inode:[eventfd]") // the watch's own
	}
	holds(t, c.pid, numbered, with(built...)...)

	p := c.start(t, slot, "sh", "-c", "echo ready; ls /proc/self/fd; read x")
	p.says(t, "ready")
	holds(t, c.pid, numbered, with(built...)...)      // what is the program's is with it
	for _, fd := range []string{"0", "1", "2", "3"} { // 3 is ls's own
		p.says(t, fd)
	}
	must(t, p.stdin.Close())
	p.exit(t)
	c.close(t, slot)
	holds(t, c.pid, numbered, always...)
	c.close(t, c.open(t, spec()))
	holds(t, c.pid, numbered, with(slices.Repeat([]string{"net"}, stock)...)...) // from the second on there is a stock
}

// ofParent are the descriptors of a parent: its directories, and its claim.
func ofParent(parent string) []string {
	return cleaned(append(groupDirs(parent, "."), groupDirs(parent, cgroup.ClaimName)...))
}

// ofGroup are the descriptors of the one group below a parent.
func ofGroup(parent string) []string {
	var all []string
	for _, dir := range cleaned(groupDirs(parent, "*")) {
		all = append(all, dir)
		if strings.HasPrefix(dir, cgroups+"/"+parent) {
			continue // version 2 is joined by its directory
		}
		all = append(all, filepath.Join(dir, "tasks"))
		if strings.HasPrefix(dir, cgroups+"/memory/") {
			all = append(all, "anon_inode:[eventfd]")
		}
	}
	return all
}

func cleaned(dirs []string) []string {
	for i := range dirs {
		dirs[i] = filepath.Clean(dirs[i])
	}
	return dirs
}

func onEveryThread(t *testing.T, pid int, field, want string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	seen := 0
	for _, task := range tasks {
		got := procField(number(filepath.Base(task)), field)
		if got == "" {
			continue // a thread that has ended
		}
		seen++
		if got != want {
			t.Errorf("%s of thread %s: %s, want %s", field, filepath.Base(task), got, want)
		}
	}
	if seen == 0 {
		t.Errorf("no thread of %d has a %s", pid, field)
	}
}

// TestTemplateThread: the one thread that cells are cloned from has no way
// back to what it gave up, and sees the host no more.
func TestTemplateThread(t *testing.T) {
	c := dial(t, newPlace(t))
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", c.pid))
	must(t, err)
	bare := 0
	for _, task := range tasks {
		if procField(number(filepath.Base(task)), "CapBnd") != "0000000000000000" {
			continue
		}
		bare++
		if mounts, err := os.ReadFile(filepath.Join(task, "mountinfo")); err != nil || strings.Contains(string(mounts), " / /sys") || strings.Contains(string(mounts), cgroups) {
			t.Errorf("%v\n%s", err, mounts)
		}
		if entries, err := os.ReadDir(filepath.Join(task, "root")); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "sys" || e.Name() == "root" }) {
			t.Errorf("%v, %v", entries, err)
		}
	}
	if bare != 1 {
		t.Errorf("%d threads with an empty bounding set, want the template's", bare)
	}
}

// TestLeakedDescriptors: what the front left open by mistake reaches neither
// the reaper nor a cell.
func TestLeakedDescriptors(t *testing.T) {
	p := newPlace(t)
	c, remote := newClient(t, p)
	cmd := shell(fmt.Sprintf("exec 4</etc/passwd 7</etc/passwd 9>&1 %s -config %s", helper("callcell-launcher"), p.conf), remote)
	must(t, cmd.Start(), remote.Close())
	t.Cleanup(func() {
		_ = c.conn.Close()
		_ = cmd.Wait() // hung up on
	})
	c.greet(t)
	pr := c.start(t, c.open(t, spec()), "sh", "-c", "ls /proc/$$/fd")
	for _, fd := range []string{"0", "1", "2"} {
		pr.says(t, fd)
	}
	pr.exit(t)
	c.close(t, pr.slot)
	for _, fd := range fdsOf(t, int(c.hello.Reaper)) {
		if strings.Contains(fd, "/etc/passwd") {
			t.Errorf("the reaper holds %s", fd)
		}
	}
	if fds := fdsOf(t, c.cmdPID(t, cmd.Process.Pid)); slices.Contains(fds, "4 /etc/passwd") {
		t.Errorf("the launcher holds %v", fds)
	}
	c.hangUp(t)
}

// cmdPID is the launcher's, which a shell became.
func (c *client) cmdPID(t *testing.T, pid int) int {
	t.Helper()
	if name := procField(pid, "Name"); name != "callcell-launch" {
		t.Fatalf("process %d is %q", pid, name)
	}
	return pid
}
