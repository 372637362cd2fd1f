package userkernel_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// python runs a script in a cell, which must end well, and returns what it
// printed.
func (g *ground) python(t *testing.T, code string) string {
	t.Helper()
	r, _ := g.run(t, shape(), nil, "/usr/bin/python3", "-c", code)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("%+v, %v\n%s%s", r.exit, r.err, r.out.data, r.say.data)
	}
	return string(r.out.data)
}

// TestKernelSeenInside: it is gVisor's, and says nothing of this host's.
func TestKernelSeenInside(t *testing.T) {
	var host unix.Utsname
	if err := unix.Uname(&host); err != nil {
		t.Fatal(err)
	}
	g := newGround(t)
	out := g.python(t, `
import os
print(*os.uname()); print(open("/proc/version").read()); print(open("/proc/cmdline").read()); print(open("/proc/mounts").read())
for f in ("/proc/1/cmdline", "/proc/1/environ", "/proc/1/maps", "/proc/net/route", "/proc/self/cgroup"):
    try: print(f, open(f).read())
    except OSError as e: print(f, e.errno)`)
	if !strings.Contains(out, "gvisor") {
		t.Errorf("the kernel seen is not gVisor's: %s", out)
	}
	if f := strings.Fields(out); f[1] != "cell" {
		t.Errorf("its name is %s", f[1])
	}
	for _, secret := range []string{unix.ByteSliceToString(host.Release[:]), g.parent, os.Getenv(helpersEnv)} {
		if strings.Contains(out, secret) {
			t.Errorf("the cell sees %q of the host:\n%s", secret, out)
		}
	}
}

// TestSockets tries every family and type of socket in a cell against the exact
// set: none of them is the host's, VSOCK is not there.
func TestSockets(t *testing.T) {
	out := newGround(t).python(t, `
import socket, json
got = []
for family in range(0, 46):
    kinds = []
    for kind in (1, 2, 3, 4, 5, 6, 10):
        try:
            socket.socket(family, kind, 0).close()
            kinds.append(kind)
        except OSError: pass
    if kinds: got.append([family, kinds])
print(json.dumps(got))`)
	var got, want []any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err, out)
	}
	const set = `[[1,[1,2,3,5]],[2,[1,2]],[10,[1,2]],[16,[2,3]]]` // UNIX, INET, INET6, NETLINK
	if err := json.Unmarshal([]byte(set), &want); err != nil {
		t.Fatal(err)
	}
	if a, _ := json.Marshal(got); string(a) != set {
		t.Errorf("sockets %s, want %s", a, set)
	}
}

// TestAttacks: what a program does to get at its guest, at another's files or
// at more than it has. Each prints an errno, or says that it got in.
func TestAttacks(t *testing.T) {
	g := newGround(t)
	for _, tc := range []struct{ name, code, want string }{
		{"ends the guest", `import os; os.kill(1, 9)`, "PermissionError"},
		{"traces the guest", `
import ctypes; c = ctypes.CDLL(None, use_errno=True)
print(c.ptrace(16, 1, 0, 0), ctypes.get_errno())`, "-1 1\n"},
		{"reads the guest's memory", `open("/proc/1/mem", "rb").read(1)`, "Error"},
		{"takes the guest's channel", `
import os
try: print(os.listdir("/proc/1/fd"))
except OSError as e: print(e.errno)
try: os.pidfd_getfd
except AttributeError: pass
for n in range(3, 64):
    try: os.fstat(n); print("descriptor", n)
    except OSError: pass`, "13\n"},
		{"becomes root", `
import os
for f in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setresgid(0, 0, 0)):
    try: f(); print("got in")
    except OSError as e: print(e.errno)`, "1\n1\n1\n"},
		{"mounts", `
import ctypes; c = ctypes.CDLL(None, use_errno=True)
for args in ((b"x", b"/tmp", b"tmpfs", 0, b""), (b"proc", b"/tmp", b"proc", 0, b""), (b"/etc", b"/tmp", None, 4096, None)):
    print(c.mount(*args), ctypes.get_errno())
print(c.umount2(b"/etc/passwd", 2), ctypes.get_errno())`, "-1 1\n-1 1\n-1 1\n-1 1\n"},
		{"makes a device", `
import os
try: os.mknod("/work/d", 0o20666, os.makedev(1, 1)); print("got in")
except OSError as e: print(e.errno)`, "1\n"},
		{"loads code into the kernel", `
import ctypes; c = ctypes.CDLL(None, use_errno=True)
for nr in (175, 246, 321, 165, 169): # init_module kexec_load bpf mount reboot
    print(c.syscall(nr, 0, 0, 0, 0, 0) < 0)`, "True\nTrue\nTrue\nTrue\nTrue\n"},
		{"raises its limits", `
import resource
for what in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    soft, hard = resource.getrlimit(what)
    try: resource.setrlimit(what, (hard + 1, hard + 1)); print("got in")
    except (OSError, ValueError) as e: print("no")`, "no\nno\nno\n"},
		{"reaches the host's network", `
import socket
for at in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"):
    s = socket.socket(); s.settimeout(2)
    try: s.connect((at, 22)); print("got in")
    except OSError as e: print("no")
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (at, 53)); print("sent" if at != "127.0.0.1" else "no")
    except OSError as e: print("no")`, strings.Repeat("no\n", 8)},
		{"finds the control server of the sandbox", `
import socket
s = socket.socket(socket.AF_UNIX)
for name in ("\0runsc-cell", "\0runsc-sandbox.cell", "\0cell"):
    try: s.connect(name); print("got in")
    except OSError as e: print("no")`, "no\nno\nno\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := g.run(t, shape(), nil, "/usr/bin/python3", "-c", tc.code)
			all := string(r.out.data) + string(r.say.data)
			if r.err != nil || !strings.HasSuffix(tc.want, "\n") && !strings.Contains(all, tc.want) || strings.HasSuffix(tc.want, "\n") && all != tc.want {
				t.Errorf("%+v, %v\n%s, want %s", r.exit, r.err, all, tc.want)
			}
		})
	}
}

// TestUserNamespaceInside: a program may make one, of the cell's own kernel. It
// owns nothing of the cell with it, and is not above its limits.
func TestUserNamespaceInside(t *testing.T) {
	s := shape()
	s.Envelope.Resources.Pids = 16
	r, _ := newGround(t).run(t, s, nil, "/usr/bin/python3", "-c", `
import ctypes, os, resource; c = ctypes.CDLL(None, use_errno=True)
before = open("/etc/passwd").read()
pid = os.fork()
if pid == 0:
    c.unshare(0x10000000 | 0x20000)
    c.mount(b"x", b"/etc", b"tmpfs", 0, b"")
    try: open("/etc/passwd", "w").write("mine")
    except OSError: pass
    try: os.kill(1, 9); print("ended the guest")
    except OSError: pass
    try: resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)); print("raised a limit")
    except (OSError, ValueError): pass
    n = 0
    try:
        while n < 50:
            if os.fork() == 0: os.read(os.pipe()[0], 1)
            n += 1
    except OSError: pass
    if n > 15: print("forked", n)
    os._exit(0)
os.waitpid(pid, 0)
print("the same" if open("/etc/passwd").read() == before else "changed")`)
	if out := string(r.out.data); r.err != nil || out != "the same\n" {
		t.Errorf("%+v, %v\n%s%s", r.exit, r.err, out, r.say.data)
	}
}

// TestOutputsOfHostileTrees: what a program leaves does not lead out of its
// working directory, and hurts nobody.
func TestOutputsOfHostileTrees(t *testing.T) {
	g := newGround(t)
	r, c := g.run(t, shape(), nil, "/usr/bin/python3", "-c", `
import os
os.symlink("/etc/passwd", "away"); os.symlink("/proc/self/environ", "environ"); os.mkfifo("fifo"); os.symlink("/", "root")
os.mkdir("d"); os.symlink("../../etc", "d/up"); open("d/ok", "w").write("ok")
open(b"d/bad\xff\n", "w"); open("d/" + "n" * 255, "w")
open("sparse", "w").truncate(1 << 24)`)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("%+v, %v\n%s", r.exit, r.err, r.say.data)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	names := []string{"away", "environ", "fifo", "root/etc/passwd", "d/up/passwd", "sparse", "d/"}
	files, misses, err := c.Get(context.Background(), names, envelope.OutputCaps{Count: 10, Bytes: envelope.MiB})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name)
	}
	if want := []string{"d/" + strings.Repeat("n", 255), "d/ok"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q; misses %+v", got, want, misses)
	}
	if len(misses) != 8 {
		t.Errorf("misses %+v", misses)
	}
	if _, ok := c.(cell.Lister); !ok {
		t.Error("it cannot be listed")
	}
}
