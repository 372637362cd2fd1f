package launcher

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// The environment by which this binary tells itself what it is.
const (
	roleEnv    = "CALLCELL_LAUNCHER_TEST_ROLE"
	helpersEnv = "CALLCELL_LAUNCHER_TEST_HELPERS"
)

// TestMain builds the programs that the tests run: the helpers as they are
// shipped, and what plays the hostile tool.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	// What the tests were started with is not for the programs they start.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(helpersEnv) != "" { // built outside, for another machine
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "callcell-launcher-test-")
	if err == nil {
		err = helpers.Build(dir, "callcell-image")
	}
	if err == nil {
		err = helpers.Tools("testdata", dir)
	}
	if err == nil {
		err = errors.Join(helpers.Probe(dir), helpers.Unpacker(dir))
	}
	if err == nil {
		err = helpers.Runsc(dir)
	}
	if err == nil {
		err = helpers.Guest(dir)
	}
	if err == nil {
		_, err = helpers.Image(dir, nil, nil)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // cells of their own kernel are made of what their users can read
	}
	if err == nil {
		err = os.Setenv(helpersEnv, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// play is this binary in another process.
func play(role string) int {
	switch role {
	case "lease":
		return playLease()
	case "elsewhere":
		return playElsewhere()
	}
	fmt.Fprintln(os.Stderr, "unknown role", role)
	return 2
}

// helper returns the path of a program that TestMain built.
func helper(name string) string { return filepath.Join(os.Getenv(helpersEnv), name) }

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: cells are made of what only root may make")
	}
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// eventually waits until ok says yes.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// procField returns one line's value of /proc/PID/status, "" where there is
// no such process.
func procField(pid int, field string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	state := procField(pid, "State")
	return state != "" && state[0] != 'Z' && state[0] != 'X'
}

// fdsOf returns what the descriptors of a process lead to, as "3 socket".
func fdsOf(t testing.TB, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind, inode, ok := strings.Cut(target, ":["); ok && number(strings.TrimSuffix(inode, "]")) >= 0 {
			target = kind // a socket or a pipe; anon_inode:[pidfd] stays as it is
		}
		all = append(all, e.Name()+" "+target)
	}
	slices.SortFunc(all, func(a, b string) int { return number(a) - number(b) })
	return all
}

func itoa(n int) string { return strconv.Itoa(n) }

func number(text string) int {
	digits, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// children returns the children of a process, zombies too.
func children(t testing.TB, pid int) []int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, word := range strings.Fields(string(text)) {
		all = append(all, number(word))
	}
	return all
}

// pipe returns the two ends of a pipe, which are closed in the end.
func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// memfd returns a sealed file with that content.
func memfd(t testing.TB, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "payload")
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	return f
}

// lines reads a stream line by line, into a channel that is closed at its end.
func lines(r io.Reader) <-chan string {
	ch := make(chan string, 64)
	go func() {
		defer close(ch)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			ch <- scan.Text()
		}
	}()
	return ch
}

// await receives from a channel, for a limited time.
func await[T any](t testing.TB, what string, ch <-chan T) (v T, ok bool) {
	t.Helper()
	return awaitFor(t, patience, what, ch)
}

func awaitFor[T any](t testing.TB, limit time.Duration, what string, ch <-chan T) (v T, ok bool) {
	t.Helper()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case v, ok = <-ch:
	case <-timeout.C:
		t.Fatalf("not within %v: %s", limit, what)
	}
	return v, ok
}

const (
	cgroups    = "/sys/fs/cgroup"
	leasesFile = leasesDir + "/uids"
)

// parentGroup returns the name of a parent group that is this test's alone.
// What is below it when the test has ended fails the test.
func parentGroup(t testing.TB) string {
	t.Helper()
	needRoot(t)
	name := fmt.Sprintf("callcell-test-launcher-%d-%x", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		if left := groupDirs(name, "*"); len(left) > 0 {
			t.Errorf("groups are left: %v", left)
			for _, dir := range left {
				killGroup(dir)
			}
		}
		for _, dir := range slices.Concat(groupDirs(name, "*"), groupDirs(name, cgroup.ClaimName), groupDirs(name, ".")) {
			if err := os.Remove(filepath.Clean(dir)); err != nil {
				t.Error(err)
			}
		}
	})
	return name
}

// groupDirs returns the directories of groups below a parent, one a hierarchy. The
// one that claims it is none of them, unless it is asked for.
func groupDirs(parent, name string) []string {
	var dirs []string
	for _, pattern := range []string{cgroups + "/" + parent, cgroups + "/*/" + parent} {
		found, err := filepath.Glob(filepath.Clean(pattern + "/" + name))
		if err != nil {
			panic(err) // a pattern of ours
		}
		for _, dir := range found {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() && (name != "*" || info.Name() != cgroup.ClaimName) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// killGroup ends what a failed test left in a group of its own.
func killGroup(dir string) {
	for _, pid := range pidsIn(dir) {
		_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
	}
}

// pidsIn returns the members of a group.
func pidsIn(dir string) []int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, word := range strings.Fields(string(text)) {
		pids = append(pids, number(word))
	}
	return pids
}

// members returns all processes below a parent.
func members(parent string) []int {
	var all []int
	for _, dir := range groupDirs(parent, "*") {
		all = append(all, pidsIn(dir)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tree opens a parent of this test's own.
func tree(t testing.TB) (*cgroup.Tree, string) {
	t.Helper()
	parent := parentGroup(t)
	groups, err := cgroup.Open(cgroups, parent)
	if err != nil {
		t.Skipf("this host has no cgroups that could be used: %v", err)
	}
	t.Cleanup(func() {
		if err := groups.Close(); err != nil {
			t.Error(err)
		}
	})
	return groups, parent
}

// shell returns a command that runs a script with a file as descriptor 3.
func shell(script string, file *os.File) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env, cmd.Dir = []string{}, "/"
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	return cmd
}
