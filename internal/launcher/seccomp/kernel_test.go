//go:build linux && (amd64 || arm64)

package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childEnv makes the test binary a child that does one thing and exits. Its
// value is one of the children.
const childEnv = "CALLCELL_SECCOMP_CHILD"

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children()[name](); err != nil {
		fmt.Fprintln(os.Stderr, name, err)
		os.Exit(1)
	}
}

// children are what a child can be.
func children() map[string]func() error {
	return map[string]func() error{
		"bare":     func() error { return askAll(allowedProbes()) },
		"filtered": filtered,
		"exec":     execFiltered,
		"foreign":  foreignCall,

		"egress bare":     func() error { return askAll(egressAllowedProbes()) },
		"egress filtered": egressFiltered,
	}
}

// install puts the cell's filter on every thread of the process.
func install() error { return installEverywhere(Cell) }

func installEverywhere(filter func() ([]unix.SockFilter, error)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code, err := filter()
	if err != nil {
		return err
	}
	return installFilter(code, unix.SECCOMP_FILTER_FLAG_TSYNC)
}

// installFilter puts a filter on the calling thread, which must be locked.
func installFilter(filter []unix.SockFilter, flags uintptr) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// probe is a call made for real. Those that are refused are made with
// arguments that the kernel itself refuses, should the filter be broken.
type probe struct {
	label string
	nr    uintptr
	args  [arguments]uintptr
	want  unix.Errno // for refused ones
}

// ask makes the call and says how it ended.
func (p probe) ask() unix.Errno {
	r, _, errno := unix.RawSyscall6(p.nr, p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
	if errno != 0 {
		return errno
	}
	switch p.nr {
	case unix.SYS_CLONE:
		if r == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // a child that should not be
		}
	case unix.SYS_SOCKET:
		unix.RawSyscall(unix.SYS_CLOSE, r, 0, 0)
	}
	return 0
}

// askAll makes the calls and prints a line with a number for each.
func askAll(probes []probe) error {
	var out bytes.Buffer
	for _, p := range probes {
		fmt.Fprintf(&out, "%d\n", p.ask())
	}
	_, err := os.Stdout.Write(out.Bytes())
	return err
}

func filtered() error {
	if err := install(); err != nil {
		return err
	}
	return askAll(slices.Concat(allowedProbes(), refusedProbes()))
}

// runChild runs a child and returns the numbers that it printed.
func runChild(t *testing.T, name string) []unix.Errno {
	t.Helper()
	cmd := child(t, name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.Bytes())
	}
	var answers []unix.Errno
	for line := range strings.Lines(string(out)) {
		var e uint
		if _, err := fmt.Sscan(line, &e); err != nil {
			t.Fatalf("%s: line %q: %v", name, line, err)
		}
		answers = append(answers, unix.Errno(e))
	}
	return answers
}

func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to hang up
	return cmd
}

// The kernel's own answer is what counts: refused calls are answered as the
// policy says, and allowed ones as they are without a filter.
func TestKernelEnforcesThePolicy(t *testing.T) {
	kernelEnforces(t, allowedProbes(), refusedProbes(), runChild(t, "bare"), runChild(t, "filtered"))
}

// kernelEnforces compares what came of allowed probes without a filter, and of
// these and refused ones with it.
func kernelEnforces(t *testing.T, allowed, refused []probe, bare, got []unix.Errno) {
	t.Helper()
	if len(bare) != len(allowed) || len(got) != len(allowed)+len(refused) {
		t.Fatalf("%d and %d answers to %d and %d probes", len(bare), len(got), len(allowed), len(refused))
	}
	for i, p := range allowed {
		if got[i] != bare[i] {
			t.Errorf("%s: %v, without a filter %v", p.label, got[i], bare[i])
		}
	}
	for i, p := range refused {
		if e := got[len(allowed)+i]; e != p.want {
			t.Errorf("%s: %v, want %v", p.label, e, p.want)
		}
	}
	t.Logf("%d calls allowed, %d refused", len(allowed), len(refused))
}

// Without the filter, some of what is refused is not: the test before would
// see a filter that does nothing.
func TestKernelAnswersOtherwiseWithoutTheFilter(t *testing.T) {
	for _, p := range []probe{
		{"prctl", unix.SYS_PRCTL, [arguments]uintptr{unix.PR_SET_PDEATHSIG, 0}, unix.EPERM},
		{"ioctl", unix.SYS_IOCTL, [arguments]uintptr{^uintptr(0), unix.TIOCSTI}, unix.EPERM},
		{"socket", unix.SYS_SOCKET, [arguments]uintptr{unix.AF_UNIX, unix.SOCK_RAW}, unix.EPERM},
	} {
		if p.ask() == p.want {
			t.Errorf("%s is refused without a filter, too", p.label)
		}
	}
}

// execFiltered runs the program that it is given behind the filter.
func execFiltered() error {
	if err := install(); err != nil {
		return err
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		return err
	}
	return unix.Exec(path, os.Args[1:], os.Environ())
}

func TestOrdinaryProgramsRun(t *testing.T) {
	programs := [][]string{
		{"true"},
		{"sh", "-c", "for i in 1 2 3; do echo $i; done | sort -r | head -n 1 | grep 3 && (exit 0) && wait"},
		{"ls", "-l", "/"},
		{"cp", "/proc/self/status", "/dev/null"},
		{"date"},
		{"awk", "BEGIN { system(\"true\") }"},
		{"tar", "-cf", "/dev/null", "doc.go"},
		{"git", "--version"},
		{"perl", "-e", "print fork() // die"},
		{"node", "-e", "require('child_process').execSync('true'); require('net').createServer().listen(0, function () { this.close() })"},
		{"python3", "-c", pythonProgram},
	}
	for _, argv := range programs {
		t.Run(argv[0], func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); errors.Is(err, exec.ErrNotFound) {
				t.Skip("not installed")
			}
			if out, err := child(t, "exec", argv...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// pythonProgram does a little of everything that tools do.
const pythonProgram = `
import asyncio, concurrent.futures, multiprocessing, os, socket, subprocess, tempfile, threading, mmap, time, json, sqlite3
assert subprocess.run(["true"]).returncode == 0
with concurrent.futures.ThreadPoolExecutor(4) as ex:
    assert sum(ex.map(lambda x: x * x, range(10))) == 285
with tempfile.TemporaryDirectory() as d:
    p = os.path.join(d, "f")
    with open(p, "w+b") as f:
        f.write(b"x" * 4096); f.flush(); os.fsync(f.fileno())
        m = mmap.mmap(f.fileno(), 4096); m[0:1] = b"y"; m.close()
    db = sqlite3.connect(os.path.join(d, "db")); db.execute("create table t (a)"); db.commit(); db.close()
    os.replace(p, p + "2"); os.chmod(p + "2", 0o600)
for family, host in ((socket.AF_INET, "127.0.0.1"),):
    s = socket.create_server((host, 0), family=family)
    c = socket.create_connection(s.getsockname()); a, _ = s.accept()
    c.sendall(b"hi"); assert a.recv(2) == b"hi"
    for x in (a, c, s): x.close()
a, b = socket.socketpair(); a.send(b"1"); assert b.recv(1) == b"1"
async def main():
    p = await asyncio.create_subprocess_exec("true"); assert await p.wait() == 0
    await asyncio.sleep(0)
asyncio.run(main())
q = multiprocessing.get_context("fork").SimpleQueue()
w = multiprocessing.get_context("fork").Process(target=q.put, args=(1,)); w.start(); assert q.get() == 1; w.join()
socket.getaddrinfo("127.0.0.1", 80)
try:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    raise SystemExit("vsock")
except OSError as e:
    import errno
    assert e.errno == errno.EAFNOSUPPORT, e
`
