package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	childEnv  = "CALLCELL_CGROUP_TEST_CHILD" // "role procs": how many descriptors from 3 on to enter by
	cgroupDir = "/sys/fs/cgroup"
)

// The first thread runs TestMain and nothing else: a test that changes its
// thread and lets it end would not get rid of this one.
func init() { runtime.LockOSThread() }

// TestMain is the child, too: what runs inside a group is this binary again.
func TestMain(m *testing.M) {
	if role, procs, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		n, _ := strconv.Atoi(procs)
		child(role, n)
	}
	os.Exit(m.Run())
}

func child(role string, procs int) {
	for fd := 3; fd < 3+procs; fd++ {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			fmt.Println("enter:", err)
			os.Exit(1)
		}
		_ = unix.Close(fd)
	}
	if role != "burn" {
		fmt.Println("in")
	}
	switch role {
	case "bomb":
		bomb()
	case "forks":
		forks()
	case "storm":
		// Its orphans are to vanish, not to wait for the host's init.
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		signal.Ignore(syscall.SIGCHLD)
		for range 8 {
			if pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); pid == 0 {
				comet()
			}
		}
		fmt.Println("storm")
	case "burn":
		for used := (unix.Timespec{}); used.Nano() < int64(100*time.Millisecond); {
			_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used)
		}
		fmt.Println("in")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed or told to go
	os.Exit(0)
}

// bomb touches memory until it is killed.
func bomb() {
	for held := [][]byte(nil); ; {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += 4096 {
			piece[i] = 1
		}
		held = append(held, piece)
		runtime.KeepAlive(held)
	}
}

// forks makes children, which only wait, until it gets no more. What runs in a
// forked child must be no more than raw system calls.
func forks() {
	full := []byte("full\n")
	for {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&full[0])), uintptr(len(full))) // there is no thread left for Go
		}
		if errno != 0 || pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
}

// comet forks and exits, for ever: nobody who reads a list of processes and
// then kills them meets it. There is no Go scheduler in a forked child to call
// into, so not even the stack may be checked.
//
//go:nosplit
//go:norace
func comet() {
	for {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// running is a child inside a group.
type running struct {
	*exec.Cmd
	out   *bufio.Reader
	stdin io.Closer
}

// start runs a child in a group and returns when it has entered.
func start(t *testing.T, g *Group, role string) *running {
	t.Helper()
	join := g.Join()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", childEnv, role, len(join.Procs)))
	cmd.Stderr = os.Stderr
	for _, fd := range join.Procs {
		// A Go child has several threads: it enters by cgroup.procs.
		tasks, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(filepath.Dir(tasks), "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if join.Into >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: join.Into}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: cmd, out: bufio.NewReader(out), stdin: in}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r.expect(t, "in")
	return r
}

// expect reads a line of the child.
func (r *running) expect(t *testing.T, want string) {
	t.Helper()
	if line, err := r.out.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}

// died waits for the child's end and tells whether it was SIGKILL.
func (r *running) died() bool {
	var exit *exec.ExitError
	if !errors.As(r.Wait(), &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

var trees atomic.Int64 // makes parents' names differ

// realTree opens a tree on this host's cgroups, with a parent of its own that is
// removed in the end; what is in it then fails the test. It is skipped where
// there is nothing to test.
func realTree(t *testing.T) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: cgroups are made and limits set")
	}
	parent := fmt.Sprintf("callcell-test-%d-%d", os.Getpid(), trees.Add(1))
	tree, err := Open(cgroupDir, parent)
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrController) {
		removeParent(t, parent)
		t.Skipf("this host has no cgroups that could be used: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := tree.Sweep(context.Background(), func(string) bool { return false }); err != nil {
			t.Error(err)
		}
		check(t, tree.Close())
		removeParent(t, parent)
	})
	return tree
}

// parentDirs are the places where a parent may be.
func parentDirs(t *testing.T, parent string) []string {
	t.Helper()
	direct, err := filepath.Glob(filepath.Join(cgroupDir, parent))
	if err != nil {
		t.Fatal(err)
	}
	mounted, err := filepath.Glob(filepath.Join(cgroupDir, "*", parent))
	if err != nil {
		t.Fatal(err)
	}
	return append(direct, mounted...)
}

func removeParent(t *testing.T, parent string) {
	t.Helper()
	for _, dir := range parentDirs(t, parent) {
		if claim := filepath.Join(dir, ClaimName); exists(claim) {
			check(t, os.Remove(claim))
		}
		check(t, os.Remove(dir))
	}
}

// parentPaths are the parent's directories, found by their descriptors.
func parentPaths(t *testing.T, tree *Tree) []string {
	t.Helper()
	var paths []string
	for _, h := range tree.hierarchies {
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.parent))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// snapshot lists all groups below the parent.
func snapshot(t *testing.T, tree *Tree) []string {
	t.Helper()
	var all []string
	for _, path := range parentPaths(t, tree) {
		for _, dir := range dirsBelow(t, path) {
			all = append(all, filepath.Join(path, dir))
		}
	}
	return all
}

func openFDs(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil { // not that of the listing
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

// done is a context that is over.
func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// readable waits for a descriptor.
func readable(t *testing.T, fd int, limit time.Duration) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	err := retry(func() error {
		_, err := unix.Poll(fds, int(limit.Milliseconds()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fds[0].Revents&unix.POLLIN != 0
}
