package userkernel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
)

// A difference is a program that says one thing at the container level and another
// at this one. It is Python, and has os, ctypes, errno, mmap, resource, socket and
// subprocess, libc, and attempt, which does what it is given, a function or a system
// call by its number, and returns "ok" or the name of the error.
type difference struct{ name, code, container, userkernel string }

// differences are the ways in which the level is another than the container one.
// docs/levels.md lists them by these names.
func differences() []difference {
	return []difference{
		{"another kernel", `print("gvisor" in os.uname().release)`, "False", "True"},
		{"a /sys that is empty of devices", `print(os.path.isdir("/sys/kernel"))`, "False", "True"},
		{"all of /proc, of the cell's own kernel", `print(os.path.exists("/proc/meminfo"))`, "False", "True"},
		{"memory is what the call asked for", `
try: print([l.split()[1] for l in open("/proc/meminfo") if l.startswith("MemTotal")][0])
except OSError: print("none")`, "none", "262144"},
		{"parts of /proc/self", `print(*[n for n in ("maps", "pagemap", "status", "syscall", "timers") if os.path.exists("/proc/self/" + n)])`, "maps pagemap status syscall timers", "maps status"},
		{"pseudo terminals", `print(attempt(os.openpty))`, "ENOENT", "ok"},
		{"other devices of the cell's own kernel", `print(*[n for n in ("fuse", "net", "null", "tty") if os.path.exists("/dev/" + n)])`, "null", "fuse net null tty"},
		{"user namespaces", `print(libc.unshare(0x10000000))`, "-1", "0"},
		{"a debugger may trace its own children", `
pid = os.fork()
if pid == 0:
    os._exit(libc.ptrace(0, 0, 0, 0) & 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`, "1", "0"},
		{"memory and descriptors of its own processes", `
v = (ctypes.c_ulong * 2)(ctypes.addressof(ctypes.create_string_buffer(5)), 5)
print(attempt(310, os.getpid(), v, 1, v, 1, 0), attempt(438, os.pidfd_open(os.getpid()), 1, 0))`, "EPERM EPERM", "ok ok"},
		{"one that is stopped, in a session of its own", `
import signal
(told, tell), (go, begin) = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(1, signal.SIG_IGN); os.read(go, 1); subprocess.run(["/bin/true"]); os.write(tell, b"x"); os.read(go, 1); os._exit(0)
    os.kill(os.getpid(), 19); os._exit(7)
os.waitpid(pid, os.WUNTRACED); os.write(begin, b"x"); os.read(told, 1)
os.kill(pid, 18); os.write(begin, b"x"); print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`, "7", "-1"},
		{"files without a name", `print(*[attempt(os.open, d, os.O_TMPFILE | os.O_RDWR) for d in ("/tmp", "/work")])`, "ok ok", "ENOTSUP ENOTSUP"},
		{"holes in files", `
f = os.open("holes", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 20); print(os.fstat(f).st_blocks)
print(attempt(os.lseek, f, 0, os.SEEK_HOLE), attempt(285, f, 3, 0, 4096))`, "0\nok ok", "2048\nEINVAL ENOTSUP"},
		{"leases of files", `
import fcntl
f = open("lease", "w+"); print(attempt(fcntl.fcntl, f.fileno(), fcntl.F_SETLEASE, fcntl.F_WRLCK))`, "ok", "EINVAL"},
		{"too long a command line", `print(attempt(subprocess.run, ["/bin/true", "x" * 200000]))`, "E2BIG", "ENAMETOOLONG"},
		{"what is refused at container is not there", `print(attempt(425, 4, ctypes.create_string_buffer(120)), attempt(323, 0))`, "EPERM EPERM", "ENOSYS ENOSYS"},
		{"asynchronous input and output of the kernel", `print(attempt(206, 1, ctypes.byref(ctypes.c_ulong())))`, "ENOSYS", "ok"},
		{"nodes of memory", `print(attempt(239, 0, 0, 0, 0, 0))`, "ENOSYS", "ok"},
		{"sync of everything", `print(attempt(162), attempt(306, 0))`, "EPERM EPERM", "ok ok"},
		{"POSIX message queues", `print(attempt(240, b"queue", 0x42, 0o600, 0) == "ok")`, "False", "True"},
		{"a process may raise its priority again", `os.nice(5); print(attempt(os.nice, -1))`, "EPERM", "ok"},
		{"page faults and switches of threads", `
bytearray(1 << 22); r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_minflt > 0, r.ru_maxrss > 0)`, "True True", "False True"},
		{"to become another user", `print(attempt(os.setuid, 0), attempt(os.chown, "/work", 0, 0))`, "EINVAL EINVAL", "EPERM EPERM"},
		{"ports below 1024", `print(attempt(socket.create_server, ("127.0.0.1", 80)))`, "EACCES", "ok"},
		{"the list of network interfaces", `print(attempt(socket.if_nameindex))`, "EAFNOSUPPORT", "ok"},
	}
}

// differencesTour runs the programs of rows.json, each in a process of its own, and
// prints what each has printed.
const differencesTour = `
import ctypes, errno, json, mmap, os, resource, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, *args):
    if isinstance(what, int):
        return "ok" if libc.syscall(what, *args, *[0] * (6 - len(args))) >= 0 else errno.errorcode[ctypes.get_errno()]
    try: what(*args); return "ok"
    except OSError as e: return errno.errorcode[e.errno]
said = {}
for name, code in json.load(open("rows.json")):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(w, 1); os.dup2(w, 2)
        try: exec(code)
        except BaseException as e: print(type(e), e)
        sys.stdout.flush(); os._exit(0)
    os.close(w)
    said[name] = b"".join(iter(lambda: os.read(r, 65536), b"")).decode().strip()
    os.close(r); os.waitpid(pid, 0)
print(json.dumps(said))
`

// toured is what the programs of all differences say at a level.
func toured(t *testing.T, rt cell.Runtime) (said map[string]string, exit cell.Exit) {
	t.Helper()
	var rows [][2]string
	for _, d := range differences() {
		rows = append(rows, [2]string{d.name, d.code})
	}
	list, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rt.Open(context.Background(), shape())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	if err := c.Put([]envelope.File{{Name: "rows.json", Data: list}, {Name: "tour.py", Data: []byte(differencesTour)}}); err != nil {
		t.Fatal(err)
	}
	var out buffer
	exit, err = c.Exec(context.Background(), cell.Command{Argv: []string{"/usr/bin/python3", "tour.py"}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.data, &said); err != nil {
		t.Fatalf("%v: %s", err, bytes.TrimSpace(out.data))
	}
	return said, exit
}

// TestDifferences are the ways in which the level is another than the container
// one.
func TestDifferences(t *testing.T) {
	rows := listed(t)
	g := newGround(t)
	host := container.New(g.launchers)
	there, read := toured(t, host)
	here, told := toured(t, g.Runtime)
	for _, d := range differences() {
		rows.tested(t, d.name)
		t.Run(d.name, func(t *testing.T) {
			if got := there[d.name]; got != d.container {
				t.Errorf("container says %q, want %q", got, d.container)
			}
			if got := here[d.name]; got != d.userkernel {
				t.Errorf("userkernel says %q, want %q", got, d.userkernel)
			}
		})
	}
	rows.tested(t, "exit code, signal, disk and file_size")
	t.Run("exit code, signal, disk and file_size", func(t *testing.T) {
		if read.Source != "host" || told.Source != "guest" {
			t.Errorf("read by %q at container, by %q here", read.Source, told.Source)
		}
	})
	rows.tested(t, "peak of processes")
	t.Run("peak of processes", func(t *testing.T) {
		if read.Pids < 2 || told.Pids != -1 {
			t.Errorf("%d at container, %d here", read.Pids, told.Pids)
		}
	})
	t.Run("threads that were refused, and are gone at the end, are not told of", func(t *testing.T) {
		const bomb = `
import os, threading, time
try:
    while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError: print("stopped", flush=True); os._exit(0)`
		for _, rt := range []cell.Runtime{host, g.Runtime} {
			_, x := said(t, rt, bomb)
			if told, want := len(x.Events) > 0, rt.Level() == envelope.LevelContainer; told != want {
				t.Errorf("%s: events %+v", rt.Level(), x.Events)
			}
		}
	})
	rows.tested(t, "threads that were refused, and are gone at the end, are not told of")
	if len(rows) > 0 {
		t.Errorf("docs/levels.md lists without a test: %q", slices.Collect(maps.Keys(rows)))
	}
}

// rows are the names of differences that docs/levels.md lists without a test of
// another name.
type rows map[string]bool

func listed(t *testing.T) rows {
	t.Helper()
	page, err := os.ReadFile("../../../docs/levels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "### Not as at container\n")
	list, _, _ = strings.Cut(list, "\nWhat is the same")
	out := rows{}
	for line := range strings.Lines(list) {
		if name, ok := strings.CutPrefix(line, "| "); ok && !strings.Contains(line, " (`Test") && !strings.HasPrefix(name, "---") && !strings.HasPrefix(name, "what | ") {
			name, _, _ = strings.Cut(name, " | ")
			out[name] = true
		}
	}
	return out
}

// tested strikes a name off.
func (r rows) tested(t *testing.T, name string) {
	t.Helper()
	if !r[name] {
		t.Errorf("docs/levels.md does not list: %s", name)
	}
	delete(r, name)
}
