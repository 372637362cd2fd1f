package vfork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

const (
	regA Reg = iota + 1
	regB
)

// start runs a program on a thread of its own. The program is released.
func start(p *Program, namespaces uint64, cgroup int) (pid, pidfd int, err error) {
	defer p.Release()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return p.Start(namespaces, cgroup)
}

// run runs a program to its end and returns its wait status.
func run(t testing.TB, p *Program) syscall.WaitStatus {
	t.Helper()
	pid, pidfd, err := start(p, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return ended(t, pid, pidfd)
}

func ended(t testing.TB, pid, pidfd int) syscall.WaitStatus {
	t.Helper()
	defer unix.Close(pidfd)
	var ws syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &ws, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || got != pid {
			t.Errorf("wait for %d: %d, %v", pid, got, err)
		}
		return ws
	}
}

// childless checks that no child is left, not even a dead one.
func childless(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("child %d is left: %v", pid, err)
	}
}

// program returns one that ends in an exec of argv.
func program(argv ...string) *Program {
	p := New()
	p.Exec(argv[0], argv, []string{"A=1"})
	return p
}

// into returns a program that writes what argv says into w.
func into(w *os.File, argv ...string) *Program {
	p := New()
	p.Call("stdout", unix.SYS_DUP3, []Arg{int(w.Fd()), 1, 0})
	p.Exec(argv[0], argv, []string{"A=1"})
	return p
}

// says runs argv and returns what it writes.
func says(t *testing.T, argv ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := into(w, argv...)
	pid, pidfd, err := start(p, 0, -1)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if ws := ended(t, pid, pidfd); err != nil || ws != 0 {
		t.Errorf("%v: %v, status %#x", argv, err, ws)
	}
	return string(text)
}

func TestStartRunsAProgram(t *testing.T) {
	leak.Check(t)
	if ws := run(t, program("/bin/sh", "-c", "exit 42")); ws.ExitStatus() != 42 {
		t.Errorf("status %#x", ws)
	}
	if got := says(t, "/bin/sh", "-c", `echo "$0 $1 $A"`, "zero", "one"); got != "zero one 1\n" {
		t.Errorf("%q", got)
	}
	childless(t)
}

// TestFailedStep: the error names the step, the rest does not run, and nothing
// is left, whichever step it is.
func TestFailedStep(t *testing.T) {
	leak.Check(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for at := range 6 {
		p := New()
		for i := range 5 {
			fd := -100
			if i != at {
				fd = 0
			}
			p.Call(fmt.Sprintf("look at %d", i), unix.SYS_FCNTL, []Arg{fd, unix.F_GETFD})
		}
		path := "/bin/touch"
		if at == 5 {
			path = "/nowhere"
		}
		p.Exec(path, []string{"touch", ran}, nil)
		_, pidfd, err := start(p, 0, -1)
		var step *StepError
		if !errors.As(err, &step) || pidfd != -1 {
			t.Fatalf("step %d: %v", at, err)
		}
		want := &StepError{at, fmt.Sprintf("look at %d", at), syscall.EBADF}
		if at == 5 {
			want = &StepError{5, "exec /nowhere", syscall.ENOENT}
		}
		if *step != *want || !errors.Is(err, want.Errno) {
			t.Errorf("%+v, want %+v", step, want)
		}
		if text := err.Error(); !strings.Contains(text, want.Name) || !strings.Contains(text, want.Errno.Error()) {
			t.Errorf("%q names neither step nor cause", text)
		}
		childless(t)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("the program ran")
	}
}

func TestIgnoredStep(t *testing.T) {
	p := New()
	p.Call("fails", unix.SYS_CLOSE, []Arg{-1}, Ignore())
	p.Exec("/bin/true", []string{"true"}, nil)
	if ws := run(t, p); ws != 0 {
		t.Errorf("status %#x", ws)
	}
}

// TestRefusedClone: the kernel makes no child.
func TestRefusedClone(t *testing.T) {
	leak.Check(t)
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, _, err = start(program("/bin/true"), 0, int(dir.Fd())) // no cgroup
	var step *StepError
	if err == nil || errors.As(err, &step) || !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v, want clone3's EBADF", err)
	}
	childless(t)
}

// TestDeathInTheList: there is a child, and it is the caller's to wait for.
func TestDeathInTheList(t *testing.T) {
	p := New()
	p.Call("self", unix.SYS_GETPID, nil, To(regA))
	p.Call("die", unix.SYS_KILL, []Arg{nil, int(unix.SIGKILL)}, From(0, regA))
	p.Exec("/bin/true", []string{"true"}, nil)
	if ws := run(t, p); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %#x", ws)
	}
	childless(t)
}

func TestRegisters(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	open := func(p *Program, name string, to Reg) {
		p.Call("open", unix.SYS_OPENAT, []Arg{unix.AT_FDCWD, filepath.Join(dir, name), unix.O_WRONLY | unix.O_CREAT, 0o600}, To(to))
	}
	p := New()
	open(p, "a", regA)
	open(p, "b", regB)
	p.Call("write a", unix.SYS_WRITE, []Arg{nil, "first", 5}, From(0, regA))
	p.Call("write b", unix.SYS_WRITE, []Arg{nil, "second", nil}, From(0, regB), From(2, regB)) // as many bytes as b's number says
	open(p, "c", regA)
	p.Call("write c", unix.SYS_WRITE, []Arg{nil, "third", 5}, From(0, regA))
	p.Exec("/bin/true", []string{"true"}, nil)
	if ws := run(t, p); ws != 0 {
		t.Fatalf("status %#x", ws)
	}
	for name, want := range map[string]string{"a": "first", "c": "third"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || !strings.HasPrefix(string(got), "second") {
		t.Errorf("b: %q, %v", got, err)
	}
}

func TestKindsOfArguments(t *testing.T) {
	leak.Check(t)
	file := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	type pair struct{ a, b uint32 }
	p := New()
	p.Call("string, int64, uint64", unix.SYS_PWRITE64, []Arg{fd, "text", int64(4), uint64(0)})
	p.Call("bytes, uintptr", unix.SYS_PWRITE64, []Arg{uintptr(fd), []byte("bytes"), uintptr(5), 4})
	p.Call("pointer", unix.SYS_PWRITE64, []Arg{fd, Ptr{unsafe.Pointer(&pair{0x64636261, 0x68676665})}, 8, 9})
	p.Call("nil", unix.SYS_PWRITE64, []Arg{fd, "", nil, nil})
	p.Exec("/bin/true", []string{"true"}, nil)
	if ws := run(t, p); ws != 0 {
		t.Fatalf("status %#x", ws)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "textbytesabcdefgh" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFaultsOfThePlan are ours, not a caller's, and found when the list is
// made.
func TestFaultsOfThePlan(t *testing.T) {
	for name, arg := range map[string]Arg{"a kind that is none": 1.5, "NUL in a string": "a\x00b"} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("taken")
				}
			}()
			p := New()
			defer p.Release()
			p.Call("step", unix.SYS_CLOSE, []Arg{arg})
		})
	}
}

func TestLines(t *testing.T) {
	p := New()
	defer p.Release()
	p.Call("first", unix.SYS_GETPID, nil, Why("because"), To(regA))
	p.Call("second", unix.SYS_CLOSE, []Arg{nil}, From(0, regA), Ignore())
	p.Exec("/x", []string{"x"}, nil)
	got := p.Lines()
	want := []Line{{"first", "because"}, {"second", ""}, {"exec /x", got[len(got)-1].Why}}
	if !slices.Equal(got, want) || got[2].Why == "" {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestChildStartsClean: the Go runtime's signal handlers and its mask stay
// with us.
func TestChildStartsClean(t *testing.T) {
	status := says(t, "/bin/cat", "/proc/self/status")
	for _, set := range []string{"SigPnd", "ShdPnd", "SigBlk", "SigCgt"} { // what we ignore stays ignored
		if !strings.Contains(status, set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, status)
		}
	}
	got := strings.Fields(says(t, "/bin/ls", "/proc/self/fd"))
	for _, fd := range got {
		if target, err := os.Readlink("/proc/self/fd/" + fd); fd != "3" && err == nil && strings.HasPrefix(target, "anon_inode") {
			t.Errorf("descriptor %s: %s", fd, target) // the runtime's poller
		}
	}
}

// TestPidfd is of the child, and close-on-exec.
func TestPidfd(t *testing.T) {
	leak.Check(t)
	pid, pidfd, err := start(program("/bin/sleep", "1000"), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(pidfd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0); err != nil {
		t.Error(err)
	}
	if ws := ended(t, pid, pidfd); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("status %#x", ws)
	}
}

// TestNamespaces: what the child changes in one of its own is not changed
// outside.
func TestNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces")
	}
	leak.Check(t)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := New()
	p.Call("name", unix.SYS_SETHOSTNAME, []Arg{"inside", 6})
	p.Call("stdout", unix.SYS_DUP3, []Arg{int(w.Fd()), 1, 0})
	p.Exec("/bin/sh", []string{"sh", "-c", "echo $$; cat /proc/sys/kernel/hostname"}, nil)
	pid, pidfd, err := start(p, unix.CLONE_NEWUTS|unix.CLONE_NEWPID, -1)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if ended(t, pid, pidfd); err != nil || string(text) != "1\ninside\n" {
		t.Errorf("inside: %q, %v", text, err)
	}
	if after, err := os.Hostname(); err != nil || after != before {
		t.Errorf("outside: %q, %v; was %q", after, err, before)
	}
}

// churn keeps the collector and the allocator busy until ctx ends.
func churn(ctx context.Context) {
	for keep := [][]byte(nil); ctx.Err() == nil; {
		keep = append(keep, make([]byte, 1+rand.IntN(1<<12)))
		if len(keep) > 1<<10 {
			keep = nil
			runtime.GC()
		}
	}
}

// TestHammer starts children from several threads at once, some of which fail,
// while garbage is collected and stacks grow.
func TestHammer(t *testing.T) {
	leak.Check(t)
	const threads, each = 4, 125
	ctx, cancel := context.WithCancel(context.Background())
	var noise, work sync.WaitGroup
	noise.Go(func() { churn(ctx) })
	for i := range threads {
		work.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for k := range each {
				deep(k%64, func() { hammer(t, i, k) })
			}
		})
	}
	work.Wait()
	cancel()
	noise.Wait()
	childless(t)
}

// deep runs f with that many more frames on the stack.
//
//go:noinline
func deep(frames int, f func()) {
	var pad [256]byte
	if frames > 0 {
		deep(frames-1, f)
	} else {
		f()
	}
	runtime.KeepAlive(&pad)
}

// hammer starts one child on the calling thread.
func hammer(t *testing.T, i, k int) {
	p := New()
	defer p.Release()
	for range 20 {
		p.Call("pid", unix.SYS_GETPID, nil, To(regA))
	}
	if k%8 == 3 {
		p.Call("fail", unix.SYS_CLOSE, []Arg{-1})
	}
	p.Exec("/bin/true", []string{"true"}, nil)
	pid, pidfd, err := p.Start(0, -1)
	var step *StepError
	if k%8 == 3 {
		if !errors.As(err, &step) || step.Index != 20 {
			t.Errorf("start %d of thread %d: %v", k, i, err)
		}
		return
	}
	if err != nil {
		t.Errorf("start %d of thread %d: %v", k, i, err)
		return
	}
	if ws := ended(t, pid, pidfd); ws != 0 {
		t.Errorf("start %d of thread %d: status %#x", k, i, ws)
	}
}

// BenchmarkStart is a bare start and end, beside which a cell's is to be seen.
func BenchmarkStart(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		p := program("/bin/true")
		pid, pidfd, err := p.Start(0, -1)
		if err != nil {
			b.Fatal(err)
		}
		ended(b, pid, pidfd)
		p.Release()
	}
}
