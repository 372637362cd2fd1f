package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startFront starts a callcell run whose program runs until the test ends, with
// more descriptors than it should have, if any. It returns the front's number
// and its state directory.
func startFront(t *testing.T, more ...*os.File) (pid int, state string) {
	t.Helper()
	bin := binaries(t)
	conf, state := stand(t)
	program := fmt.Sprintf("sleep 50.%d", rand.Uint64()) // this one, and no other
	cmd := exec.Command(filepath.Join(bin, "callcell"), append([]string{"--config", conf, "run", "--trust", "reviewed",
		"--level", "container", "--timeout", "60s", "--"}, strings.Fields(program)...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"PATH=/usr/bin:/bin"}, "/", more
	// What started the tests may have left more open: that is not the front's.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := startHearing(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // cancels the call, which ends in order
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: %s", err, out.String())
		}
	})
	wait(t, "its program runs", func() bool {
		return len(processes(func(_, cmdline string) bool { return strings.HasPrefix(cmdline, program) })) > 0
	})
	return cmd.Process.Pid, state
}

// children are the processes that a process started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that ended
		}
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// wait waits until ok, for at most forty seconds: a program sleeps longer.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(40 * time.Second); !ok(); <-tick.C {
		if time.Now().After(until) {
			t.Fatal("it did not come to it: " + what)
		}
	}
}

// status returns a field of a thread's status, "gone" where it has ended.
func status(t *testing.T, task, field string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(task, "status"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "none"
}

// frontPosture is everything about the front's standing that /proc tells from
// outside, a line each, the same on every host. What differs between threads is
// a line of its own.
func frontPosture(t *testing.T, pid int, state string) (lines []string) {
	t.Helper()
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	tasks, err := filepath.Glob(at("task/*"))
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	for _, name := range []string{"Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp", "TracerPid"} {
		for _, task := range tasks {
			lines = append(lines, "status "+name+" "+status(t, task, name))
		}
	}
	lines = append(lines, descriptors(t, at("fd"), state)...)
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		theirs, err := os.Readlink(at("ns/" + name))
		ours, err2 := os.Readlink("/proc/self/ns/" + name)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		lines = append(lines, fmt.Sprintf("namespace %s of the user %v", name, theirs == ours))
	}
	for _, name := range []string{"cwd", "root"} {
		target, err := os.Readlink(at(name))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, name+" "+target)
	}
	// Who can read its memory: with no dump, root alone.
	info, err := os.Stat(at("environ"))
	if err != nil {
		t.Fatal(err)
	}
	lines = append(lines, "memory of "+strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)))
	slices.Sort(lines[:len(tasks)*9])
	return slices.Compact(lines)
}

// descriptors are those of a process: the first three by number, the others
// sorted by what they are.
func descriptors(t *testing.T, dir, state string) (lines []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var more []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if kind, _, ok := strings.Cut(target, ":["); ok && !strings.HasPrefix(target, "anon_inode") {
			target = kind
		}
		target = strings.Replace(target, state, "STATE", 1)
		if strings.HasPrefix(target, "/sys/fs/cgroup/") && strings.HasPrefix(filepath.Base(target), "cpu.") {
			continue // the Go runtime's: which, and how many, is the host's version of cgroups to say
		}
		if number := e.Name(); number <= "2" && len(number) == 1 {
			lines = append(lines, "fd "+number+" "+target)
		} else {
			more = append(more, "fd more "+target)
		}
	}
	slices.Sort(more)
	for i, line := range more { // of one kind there may be several
		lines = append(lines, fmt.Sprintf("%s #%d", line, i-slices.Index(more, line)+1))
	}
	return lines
}

// TestFrontPosture compares the process that has the store, the key and the
// caller's words with a golden list, line by line, while a call runs.
func TestFrontPosture(t *testing.T) {
	pid, state := startFront(t)
	golden := filepath.Join("testdata", "front_posture.golden")
	if *update {
		text := strings.Join(frontPosture(t, pid, state), "\n") + "\n"
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}()
	wait(t, "every line is explained, and all are there", func() bool {
		got = frontPosture(t, pid, state)
		return slices.Equal(got, want)
	})
}

// TestFrontPostureSeesADescriptor: one more than there should be makes it red.
func TestFrontPostureSeesADescriptor(t *testing.T) {
	leaked, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Close()
	pid, state := startFront(t, leaked)
	text, err := os.ReadFile(filepath.Join("testdata", "front_posture.golden"))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the leaked one is all that differs", func() bool {
		got := slices.DeleteFunc(frontPosture(t, pid, state), func(line string) bool { return line == "fd more /etc/passwd #1" })
		return strings.Join(got, "\n")+"\n" == string(text)
	})
	wait(t, "the leaked one is seen", func() bool { return slices.Contains(frontPosture(t, pid, state), "fd more /etc/passwd #1") })
	var launchers int
	for _, child := range children(t, pid) {
		launchers++
		if got := descriptors(t, fmt.Sprintf("/proc/%d/fd", child), state); slices.Contains(got, "fd more /etc/passwd #1") {
			t.Errorf("what the front inherited went on to its child: %q", got)
		}
	}
	if launchers == 0 {
		t.Error("the front has no child")
	}
}
