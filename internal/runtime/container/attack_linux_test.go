package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/runtime/container"
)

// inside runs a script in a fresh cell and returns what it printed.
func inside(t testing.TB, r *container.Runtime, lang, code string, files ...envelope.File) string {
	t.Helper()
	out, x := insideExit(t, r, envelope.Default(), lang, code, files...)
	if x.Code != 0 || x.Signal != 0 {
		t.Fatalf("exit %+v\n%s", x, out)
	}
	return out
}

func insideExit(t testing.TB, r *container.Runtime, env envelope.Envelope, lang, code string, files ...envelope.File) (string, cell.Exit) {
	t.Helper()
	s := shape()
	s.Envelope = env
	return insideShape(t, r, s, lang, code, files...)
}

// insideShape runs a script in a cell of that shape, and returns what it writes
// and how it ended.
func insideShape(t testing.TB, r *container.Runtime, s cell.Shape, lang, code string, files ...envelope.File) (string, cell.Exit) {
	t.Helper()
	ctx := context.Background()
	c, err := r.Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if report := c.Close(ctx); !report.Complete {
			t.Errorf("teardown: %+v", report)
		}
	}()
	argv := map[string][]string{"sh": {"/bin/sh", "code"}, "python": {"/usr/bin/python3", "code"}}[lang]
	if err := c.Put(append(files, envelope.File{Name: "code", Data: []byte(code)})); err != nil {
		t.Fatal(err)
	}
	var out locked
	x, err := c.Exec(ctx, cell.Command{Argv: argv, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), x
}

// TestSockets tries every family and type of socket inside a cell against the
// exact set that the filter lets by. A family that no namespace holds back,
// such as VSOCK where this machine is itself virtual, must not be in it.
func TestSockets(t *testing.T) {
	r := newRuntime(t)
	out := inside(t, r, "python", `
import socket, json
got = []
for family in range(0, 46):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        try:
            socket.socket(family, kind, 0).close()
            got.append([family, kind])
        except OSError:
            pass
print(json.dumps(got))
`)
	var got [][2]int
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err, out)
	}
	want := map[[2]int]bool{}
	for _, s := range seccomp.Sockets() {
		want[[2]int{int(s.Family), int(s.Type)}] = true
	}
	for _, g := range got {
		if !want[g] {
			t.Errorf("socket(%d, %d) works and is not in the allow set", g[0], g[1])
		}
		delete(want, g)
	}
	for _, must := range [][2]int{{unix.AF_UNIX, unix.SOCK_STREAM}, {unix.AF_INET, unix.SOCK_STREAM}, {unix.AF_INET6, unix.SOCK_DGRAM}} {
		if want[must] {
			t.Errorf("socket(%d, %d) does not work", must[0], must[1])
		}
	}
}

// TestNothingOfTheHost looks, from inside, for what must not be there.
func TestNothingOfTheHost(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("CANARY"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CALLCELL_CANARY", "CANARY")
	r := newRuntime(t)
	for name, code := range map[string]string{
		"home":             "! test -e /root && ! test -e /home && ! test -e /var && ! test -e /opt && ! test -e /srv && ! test -e /sys && test -z \"$(ls -A /run)\"",
		"daemon's file":    "! test -e " + canary,
		"environment":      "! env | grep -q CANARY && ! grep -q CANARY /proc/*/environ 2>/dev/null",
		"host sockets":     "test -z \"$(find / -xdev -type s 2>/dev/null)\"",
		"devices":          "test \"$(find / -xdev \\( -type b -o -type c \\) 2>/dev/null | wc -l)\" = 0 && test \"$(find /dev -type c | sort | tr '\\n' ' ')\" = '/dev/full /dev/null /dev/random /dev/urandom /dev/zero ' && test -z \"$(find /dev -type b)\"",
		"proc sys":         "! test -e /proc/sys && ! test -e /proc/kcore && ! test -e /proc/sysrq-trigger && ! test -e /proc/keys && ! test -e /proc/kallsyms",
		"own processes":    "test \"$(ls -d /proc/[0-9]* | wc -l)\" -le 6",
		"init is sealed":   "! cat /proc/1/environ 2>/dev/null && ! ls /proc/1/fd 2>/dev/null && ! cat /.callcell/init 2>/dev/null && ! kill -9 1 2>/dev/null || test -d /proc/self",
		"no route":         "test \"$(wc -l < /proc/self/net/route)\" -le 1 && test \"$(grep -c : /proc/self/net/dev)\" = 1",
		"status":           "grep -q 'CapEff:.0000000000000000' /proc/self/status && grep -q 'CapBnd:.0000000000000000' /proc/self/status && grep -q 'NoNewPrivs:.1' /proc/self/status && grep -q 'Seccomp:.2' /proc/self/status",
		"uid":              "test $(id -u) = 1000 && test \"$(cat /proc/self/setgroups)\" = deny && ! id -G | grep -q ' '",
		"read-only":        "! touch /usr/x 2>/dev/null && ! touch /etc/x 2>/dev/null && ! touch /x 2>/dev/null && ! touch /dev/x 2>/dev/null && ! mkdir /.callcell/x 2>/dev/null",
		"no mounts":        "! mount -t tmpfs x /tmp 2>/dev/null && ! umount /proc 2>/dev/null && ! unshare -r true 2>/dev/null && ! chroot / true 2>/dev/null",
		"no set-uid":       "! find / -xdev -perm -4000 -exec true {} + 2>/dev/null || ! su -c true 2>/dev/null",
		"metadata":         "! timeout 2 python3 -c 'import socket; socket.create_connection((\"169.254.169.254\", 80), 1)' 2>/dev/null",
		"no names":         "! getent hosts example.com && ! getent ahosts metadata.google.internal",
		"hostname":         "test $(hostname) = cell",
		"no terminal":      "! test -t 0 && ! sh -c ': < /dev/tty' 2>/dev/null",
		"descriptors":      "test \"$(ls /proc/self/fd | wc -l)\" = 4",
		"limits":           "test $(ulimit -c) = 0 && test $(ulimit -n) = 256",
		"cgroup is a root": "! grep -v ':/$' /proc/self/cgroup",
	} {
		t.Run(name, func(t *testing.T) {
			out, x := insideExit(t, r, envelope.Default(), "sh", code)
			if x.Code != 0 {
				t.Errorf("%+v\n%s", x, out)
			}
		})
	}
}

// TestApart runs two cells at once, and then two in a row, which look for
// each other.
func TestApart(t *testing.T) {
	r := newRuntime(t)
	ctx := context.Background()
	const leave = `
import socket, os, time, subprocess, sys
open("/work/left", "w").write("LEFT"); open("/tmp/left", "w").write("LEFT"); open("/dev/shm/left", "w").write("LEFT"); open("/run/left", "w").write("LEFT")
os.environ["LEFT"] = "LEFT"
a = socket.socket(socket.AF_UNIX); a.bind("\0left"); a.listen()
b = socket.socket(); b.bind(("127.0.0.1", 7777)); b.listen()
subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for make in (lambda: libc.shmget(0x77, 4096, 0o1666), lambda: libc.msgget(0x77, 0o1666), lambda: libc.semget(0x77, 1, 0o1666)):
    make()
print("ready", flush=True)
sys.stdin.read()
`
	const look = `
import socket, os, ctypes, glob
bad = []
for p in ("/work/left", "/tmp/left", "/dev/shm/left", "/run/left"):
    if os.path.exists(p): bad.append(p)
for f, a in ((socket.AF_UNIX, "\0left"), (socket.AF_INET, ("127.0.0.1", 7777))):
    s = socket.socket(f)
    try: s.connect(a); bad.append(a)
    except OSError: pass
libc = ctypes.CDLL(None)
for name, got in (("shm", libc.shmget(0x77, 4096, 0)), ("msg", libc.msgget(0x77, 0)), ("sem", libc.semget(0x77, 1, 0))):
    if got >= 0: bad.append(name)
procs = [open(p).read() for p in glob.glob("/proc/[0-9]*/comm") if os.access(p, os.R_OK)]
if any("sleep" in p for p in procs): bad.append("process")
if "LEFT" in os.environ: bad.append("environment")
print(bad, open("/proc/self/uid_map").read().split())
`
	c, err := r.Open(ctx, shape())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	ready := &signalWriter{at: make(chan struct{})}
	execCtx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(execCtx, cell.Command{Argv: []string{"/usr/bin/python3", "-c", leave}, Env: environ(), Stdin: bytes.Repeat([]byte("x"), 1<<20), Stdout: ready, Stderr: ready})
		done <- err
	}()
	select {
	case <-ready.at:
	case err := <-done:
		t.Fatal("the first ended early:", err, ready.String())
	}
	during := inside(t, r, "python", look)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if report := c.Close(ctx); !report.Complete {
		t.Errorf("teardown: %+v", report)
	}
	after := inside(t, r, "python", look)
	for _, got := range []string{during, after} {
		if !strings.HasPrefix(got, "[] ") {
			t.Errorf("seen of another cell: %s", got)
		}
	}
}

// locked takes both streams of a program.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *locked) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *locked) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// signalWriter tells when something was written.
type signalWriter struct {
	locked
	once sync.Once
	at   chan struct{}
}

func (w *signalWriter) Write(b []byte) (int, error) {
	defer w.once.Do(func() { close(w.at) })
	return w.locked.Write(b)
}

// TestCeilings provokes each ceiling for real.
func TestCeilings(t *testing.T) {
	r := newRuntime(t)
	small := envelope.Default()
	small.Resources.Memory, small.Resources.Pids = 64*envelope.MiB, 16
	small.Files.Scratch, small.Files.Inodes = 4*envelope.MiB, 64
	for _, tc := range []struct {
		name, lang, code string
		change           func(*envelope.Envelope)
		check            func(cell.Exit, string) bool
	}{
		{"memory", "python", "l=[]\nwhile True: l.append(bytearray(1<<20))", nil,
			func(x cell.Exit, _ string) bool { return x.Cause == cell.CauseMemory && has(x, "memory") }},
		{"memory kills the whole", "sh", "(python3 -c 'l=[]\nwhile True: l.append(bytearray(1<<20))'); echo survived; sleep 5", nil,
			func(x cell.Exit, out string) bool {
				return x.Cause == cell.CauseMemory && !strings.Contains(out, "survived")
			}},
		{"processes", "python", "import os,time\nn=0\ntry:\n  while True:\n    if os.fork()==0: time.sleep(9); os._exit(0)\n    n+=1\nexcept OSError: print(n)", nil,
			func(x cell.Exit, out string) bool { return has(x, "processes") && strings.TrimSpace(out) == "15" }},
		{"scratch", "sh", "head -c 8000000 /dev/zero > big; echo $?", nil,
			func(x cell.Exit, out string) bool { return has(x, "disk") && strings.Contains(out, "No space") }},
		{"inodes", "sh", "i=0; while [ $i -lt 100 ]; do : > f$i || exit 0; i=$((i+1)); done; exit 9", nil,
			func(x cell.Exit, _ string) bool { return has(x, "disk") }},
		{"shm counts", "sh", "head -c 8000000 /dev/zero > /dev/shm/big; echo $?", nil,
			func(x cell.Exit, out string) bool { return has(x, "disk") && strings.Contains(out, "No space") }},
		{"wall", "sh", "trap '' TERM INT HUP; while :; do :; done", func(e *envelope.Envelope) { e.Resources.Wall = envelope.Duration(3e8) },
			func(x cell.Exit, _ string) bool { return x.Cause == cell.CauseWall && x.Signal == int(unix.SIGKILL) }},
		{"stopped", "sh", "kill -STOP $$", func(e *envelope.Envelope) { e.Resources.Wall = envelope.Duration(3e8) },
			func(x cell.Exit, _ string) bool { return x.Cause == cell.CauseWall }},
		{"grace", "sh", "trap 'echo bye; exit 3' TERM; echo on; while :; do :; done",
			func(e *envelope.Envelope) {
				e.Resources.Wall, e.Cleanup.StopGrace = envelope.Duration(3e8), envelope.Duration(5e9)
			},
			func(x cell.Exit, out string) bool {
				return x.Cause == cell.CauseWall && x.Code == 3 && strings.Contains(out, "bye")
			}},
		{"file size", "sh", "head -c 40000 /dev/zero > big; echo $?", func(e *envelope.Envelope) { e.Resources.FileSize = 16 * envelope.KiB },
			func(_ cell.Exit, out string) bool {
				return strings.Contains(out, "153") || strings.Contains(out, "large")
			}},
		{"open files", "python", "l=[]\ntry:\n  while True: l.append(open('/dev/null'))\nexcept OSError as e: print(e.errno, len(l))", nil,
			func(_ cell.Exit, out string) bool { return strings.HasPrefix(out, "24 ") }},
		{"waiting connections", "python", "import socket\ns=socket.socket(); s.bind(('127.0.0.1',7777)); s.listen(100000)\nl=[]\ntry:\n  while len(l)<240:\n    c=socket.socket(); c.settimeout(.2); c.connect(('127.0.0.1',7777)); l.append(c)\nexcept OSError: pass\nprint(len(l))", func(e *envelope.Envelope) { e.Resources.Memory, e.Resources.OpenFiles = 256*envelope.MiB, 1024 },
			func(_ cell.Exit, out string) bool {
				n, err := strconv.Atoi(strings.TrimSpace(out))
				return err == nil && n > 0 && n < 100
			}},
		{"netlink", "python", "import socket\ntry: socket.socket(16, 3, 0)\nexcept OSError as e: print(e.errno)", nil,
			func(_ cell.Exit, out string) bool { return strings.TrimSpace(out) == "97" }},
		{"message queues", "python", "import ctypes\nprint(ctypes.CDLL('librt.so.1').mq_open(b'/q', 0o102, 0o600, None))", nil,
			func(_ cell.Exit, out string) bool { return strings.TrimSpace(out) == "-1" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := small
			if tc.change != nil {
				tc.change(&env)
			}
			out, x := insideExit(t, r, env, tc.lang, tc.code)
			for tc.name == "grace" && !strings.Contains(out, "on\n") && env.Resources.Wall < longWall { // not as far yet
				env.Resources.Wall *= 4
				out, x = insideExit(t, r, env, tc.lang, tc.code)
			}
			if !tc.check(x, out) {
				t.Errorf("%+v\n%.2000s", x, out)
			}
		})
	}
}

func has(x cell.Exit, kind string) bool {
	for _, e := range x.Events {
		if e.Kind == kind && e.Count > 0 {
			return true
		}
	}
	return false
}

// TestOutputs tries to make the host read or give what is not the call's.
func TestOutputs(t *testing.T) {
	r := newRuntime(t)
	ctx := context.Background()
	s := shape()
	s.Envelope.Resources.FileSize = 2 * envelope.GiB
	c, err := r.Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	code := `
ln -s /etc/passwd link; ln -s /proc/self/environ env; ln -s .. up; mkdir d; ln -s / d/root; mkfifo fifo
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
echo good > good; ln good hard; echo deep > d/deep; ln -s deep d/alias
truncate -s 1G sparse; printf x > "$(printf 'bad\nname')"; mkdir tree; echo 1 > tree/1; ln -s 1 tree/2; mkfifo tree/3
printf y > tree/"$(printf 'a\033b')"; printf z > tree/"$(printf '\377')"; printf u > tree/u; chmod 000 tree/u
`
	var out locked
	x, err := c.Exec(ctx, cell.Command{Argv: []string{"/bin/sh", "-c", code}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil || x.Code != 0 {
		t.Fatal(x, err, out.String())
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	names := []string{"link", "env", "up/code", "d/root/etc/passwd", "fifo", "sock", "good", "hard", "d/deep", "d/alias", "d", "sparse", "../etc/passwd", "/etc/passwd", "absent", "tree/"}
	files, misses, err := c.Get(ctx, names, envelope.OutputCaps{Count: 16, Bytes: envelope.MiB})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		got[f.Name] = string(f.Data)
	}
	want := map[string]string{"good": "good\n", "hard": "good\n", "d/deep": "deep\n", "tree/1": "1\n", "tree/u": "u"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("taken: %q\nwant:  %q", got, want)
	}
	t.Log(misses)
	if len(misses) != len(names)-4+4 { // good, hard, d/deep and tree/ are taken; tree/ has two bad names, a link and a fifo
		t.Errorf("%d misses", len(misses))
	}
}
