package cell_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// processes are a process and all below it.
func processes(t *testing.T, pid int) []int {
	t.Helper()
	pids := []int{pid}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		must(t, err)
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			must(t, err)
			pids = append(pids, processes(t, child)...)
		}
	}
	return pids
}

// posture looks, from the host, at every thread of a running sandbox.
func posture(t *testing.T, p place) {
	s := p.start(t, bundle("wait"), "")
	await(t, s.stdout, "ready")
	id := fmt.Sprintf("%d\t%d\t%d\t%d", uid, uid, uid, uid)
	want := map[string]string{
		"Uid": id, "Gid": id, "Groups": "", "CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	}
	for _, pid := range processes(t, s.cmd.Process.Pid) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		must(t, err)
		for _, task := range tasks {
			for key, got := range fields(t, task+"/status") {
				if want, ok := want[key]; ok && strings.TrimSpace(got) != want {
					t.Errorf("%s: %s is %q, not %q", task, key, got, want)
				}
			}
		}
		namespaces(t, pid)
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(env) > 0 {
			t.Errorf("process %d has an environment: %q (%v)", pid, env, err)
		}
	}
	root(t, s.cmd.Process.Pid)
	held(t, s.cmd.Process.Pid)
}

func fields(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	m := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		m[key] = value
	}
	return m
}

// namespaces: none is ours but that of control groups and time, which are the
// launcher's business.
func namespaces(t *testing.T, pid int) {
	t.Helper()
	for _, ns := range []string{"user", "mnt", "pid", "ipc", "uts", "net"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		must(t, err)
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		must(t, err)
		if ours == theirs {
			t.Errorf("process %d is in our %s namespace", pid, ns)
		}
	}
}

// root: the texts, and nothing else.
func root(t *testing.T, pid int) {
	t.Helper()
	var got []string
	at := fmt.Sprintf("/proc/%d/root/", pid)
	must(t, filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, at))
		}
		return err
	}))
	want := []string{"proc/cpuinfo", "proc/self/auxv", "proc/self/maps", "proc/sys/vm/mmap_min_addr"}
	if !slices.Equal(got, want) {
		t.Errorf("the root has %q", got)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must(t, err)
	if n := strings.Count(string(mounts), "\n"); n != 1 {
		t.Errorf("%d mounts:\n%s", n, mounts)
	}
}

// held: every descriptor of the sentry is one that it was given or made.
func held(t *testing.T, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	must(t, err)
	count := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		must(t, err)
		kind, _, _ := strings.Cut(target, ":")
		switch {
		case strings.HasPrefix(target, "/memfd:"), strings.HasPrefix(target, "anon_inode:"):
			kind, _, _ = strings.Cut(target, " ")
		case strings.HasPrefix(target, os.TempDir()):
			kind = filepath.Base(target)
		}
		count[kind]++
	}
	want := map[string]int{
		"/dev/null":           3, // 0, 1 and the program's stdin
		"words":               1, // 2
		"image":               1,
		"pipe":                5, // the program's stdout and stderr, the reports, and both ends of one of gVisor's
		"socket":              2, // the channel and the control server
		"anon_inode:seccomp":  1, // systrap's, from its stubs
		"/memfd:runsc-memory": 1, "/memfd:systrap-memory": 1, "/memfd:memory-usage": 1,
		"anon_inode:[eventfd]": 2, "anon_inode:[eventpoll]": 2, // the runtime's, gVisor's
	}
	if !maps.Equal(count, want) {
		t.Errorf("it holds %v, not %v", count, want)
	}
}
