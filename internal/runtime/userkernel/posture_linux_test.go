package userkernel_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/cell"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares lines with a file, line by line: what is more is as red as
// what is missing.
func golden(t *testing.T, name string, got []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range unlike(t, name, got) {
		t.Error(line)
	}
}

// unlike is what is more or missing beside a file.
func unlike(t *testing.T, name string, got []string) (lines []string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			lines = append(lines, "more: "+line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			lines = append(lines, "missing: "+line)
		}
	}
	return lines
}

// waiting opens a cell whose program waits, and ends it with the test.
func (g *ground) waiting(t *testing.T) {
	t.Helper()
	c, err := g.Open(context.Background(), shape())
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	first, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, cell.Command{Argv: []string{"/bin/sh", "-c", "echo ready; sleep 1000"}, Env: environ(), Stdout: signal(first)})
		done <- err
	}()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		closed(t, c)
	})
	<-first
}

// TestPostureOfTheSentry looks from the host at the processes of a cell: what
// they are allowed, what they hold, what they see.
func TestPostureOfTheSentry(t *testing.T) {
	g := newGround(t)
	g.waiting(t)
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for *update || len(g.unlikeSentry(t)) > 0 { // a stub may be on its way in or out
		select {
		case <-tick.C:
			if !*update {
				continue
			}
		case <-limit.C:
		}
		sentry, stubs := g.sentryLines(t)
		golden(t, "sentry.golden", sentry)
		golden(t, "stubs.golden", stubs)
		for _, pid := range g.members(t) {
			for _, line := range everyThread(t, pid) {
				t.Error(line)
			}
		}
		return
	}
}

// unlikeSentry is what is not as the golden lists have it.
func (g *ground) unlikeSentry(t *testing.T) []string {
	t.Helper()
	sentry, stubs := g.sentryLines(t)
	lines := append(unlike(t, "sentry.golden", sentry), unlike(t, "stubs.golden", stubs)...)
	for _, pid := range g.members(t) {
		lines = append(lines, everyThread(t, pid)...)
	}
	return lines
}

// sentryLines are the standing of the sentry, and of all its stubs together.
func (g *ground) sentryLines(t *testing.T) (sentry, stubs []string) {
	t.Helper()
	pids := g.members(t)
	all := map[string]bool{}
	for _, pid := range pids[1:] {
		for _, line := range standing(t, pid) {
			all[line] = true
		}
	}
	return append(standing(t, pids[0]), holdings(t, pids[0])...), slices.Sorted(maps.Keys(all))
}

// everyThread: none has more than the golden list says of its process.
func everyThread(t *testing.T, pid int) (lines []string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // gone since
		}
		for _, want := range []string{"CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
			if !strings.Contains(string(text), want) {
				lines = append(lines, fmt.Sprintf("%s has not %q", task, want))
			}
		}
	}
	return lines
}

// standing is what /proc tells of a process's standing, a line each, with what
// differs from host to host made the same. One that is gone has none.
func standing(t *testing.T, pid int) (lines []string) {
	t.Helper()
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	gone := false
	read := func(name string) string {
		text, err := os.ReadFile(at(name))
		gone = gone || vanished(t, err)
		return string(text)
	}
	defer func() {
		if gone {
			lines = nil
		}
	}()
	uid := regexp.MustCompile(`Uid:\t(\d+)`).FindStringSubmatch(read("status") + "Uid:\t4294967295")[1]
	if uid == "0" {
		t.Fatal("root")
	}
	same := strings.NewReplacer(uid, "UID")
	for line := range strings.Lines(read("status")) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Umask"}, name) {
			lines = append(lines, "status "+name+" "+same.Replace(strings.Join(strings.Fields(value), " ")))
		}
	}
	for _, name := range []string{"uid_map", "gid_map", "setgroups"} {
		lines = append(lines, "map "+name+" "+same.Replace(strings.Join(strings.Fields(read(name)), " ")))
	}
	for line := range strings.Lines(read("mountinfo")) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f := strings.Fields(left)
		lines = append(lines, "mount "+strings.Join(f[3:6], " ")+" "+strings.Fields(right)[0])
	}
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		own := " own"
		theirs, err := os.Readlink(at("ns/" + name))
		if gone = gone || vanished(t, err); theirs == linkOf(t, "/proc/self/ns/"+name) {
			own = " HOST"
		}
		lines = append(lines, "namespace "+name+own)
	}
	lines = append(lines, "environ "+read("environ"))
	root := at("root") + "/"
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			lines = append(lines, "file "+strings.TrimPrefix(path, root))
		}
		return err
	})
	gone = gone || vanished(t, err)
	return lines
}

// vanished reports whether an error says that a process is gone, and takes no
// other.
func vanished(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	return err != nil
}

func linkOf(t *testing.T, name string) string {
	t.Helper()
	target, err := os.Readlink(name)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// holdings are the descriptors and limits of a sentry.
func holdings(t *testing.T, pid int) (lines []string) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.EvalSymlinks(os.Getenv(helpersEnv))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
		if err != nil {
			continue // closed since
		}
		if kind, _, inode := strings.Cut(target, ":["); inode && !strings.HasPrefix(target, "anon") {
			target = kind
		}
		count[strings.ReplaceAll(strings.TrimSuffix(target, " (deleted)"), bin+"/", "")]++
	}
	count["anon_inode:seccomp notify"] = min(count["anon_inode:seccomp notify"], 1) // one for each stub that lives
	for target, n := range count {
		lines = append(lines, fmt.Sprintf("fd %s %d", target, n))
	}
	slices.Sort(lines)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	host := regexp.MustCompile(`^(Max (?:processes|open files|pending signals|cpu time|resident set|data size|file locks)) .*`)
	for line := range strings.Lines(string(limits)) {
		if line = strings.Join(strings.Fields(line), " "); !host.MatchString(line) { // those are the host's, or hang on its size
			lines = append(lines, "limit "+line)
		}
	}
	return lines
}

// postureProbe prints everything about its own standing that the cell's own
// kernel tells, a line each, with a fixed word in front.
const postureProbe = `
import os, resource, stat
for line in open("/proc/self/status"):
    name, value = line.split(":", 1)
    if name in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "TracerPid"):
        print("status", name, " ".join(value.split()))
for fd in sorted(os.listdir("/proc/self/fd"), key=int):
    try: kind = stat.S_IFMT(os.fstat(int(fd)).st_mode)
    except OSError: continue
    print("fd", fd, {stat.S_IFIFO: "pipe", stat.S_IFCHR: "char", stat.S_IFREG: "file"}.get(kind, oct(kind)))
for line in open("/proc/self/mountinfo"):
    left, right = line.rstrip().split(" - ")
    f, (kind, source, options) = left.split(), right.split(" ", 2)
    print("mount", f[4], f[5], kind)
for k, v in sorted(os.environ.items()): print("env", k + "=" + v)
for n in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
    try: print("limit", n, *resource.getrlimit(getattr(resource, n)))
    except (OSError, ValueError) as e: print("limit", n, "none")
print("cwd", os.getcwd()); print("umask", oct(os.umask(0o22)))
print("session", os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid())
try: open("/dev/tty"); print("terminal yes")
except OSError as e: print("terminal", e.errno)
for d in ("/", "/dev", "/etc", "/proc", "/work", "/tmp", "/run", "/sys"):
    try: names = sorted(n for n in os.listdir(d) if not n.isdigit())
    except OSError as e: names = [os.strerror(e.errno)]
    for n in names: print("entry", os.path.join(d, n))
print("processes", *sorted(open("/proc/%s/comm" % n).read().strip() for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()))
print("host", os.uname().nodename, os.uname().release)
for path in ("/work/x", "/tmp/x", "/run/x", "/dev/shm/x", "/etc/x", "/usr/x", "/dev/x", "/x", "/proc/x", "/sys/x", "/opt/callcell/x", "/etc/passwd", "/etc/resolv.conf"):
    try: open(path, "w"); print("writable", path)
    except OSError as e: print("not writable", path, e.errno)
`

// TestPostureInside compares a real cell with the golden list.
func TestPostureInside(t *testing.T) {
	g := newGround(t)
	r, _ := g.run(t, shape(), nil, "/usr/bin/python3", "-c", postureProbe)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("%+v, %v\n%s", r.exit, r.err, r.say.data)
	}
	lines := strings.Split(strings.TrimSpace(string(r.out.data)), "\n")
	golden(t, "inside.golden", slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "entry /etc/") && !strings.HasPrefix(line, "entry /etc/passwd") // the image's
	}))
}
