package container_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
)

// A stage is what of the host a program looks for: services that listen, and
// descriptors that whoever started the launcher left open.
type stage struct {
	bait
	sock, abstract string
	port           int
	visits         chan string // a line for each connection that was made
}

// newStage sets it up. It comes before the ground, whose launcher is to inherit
// the descriptors.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{bait: newBait(t), visits: make(chan string, 100)}
	s.sock, s.abstract = filepath.Join(s.dir, "sock"), "callcell-cases-"+strconv.Itoa(os.Getpid())
	for _, at := range [][2]string{{"unix", s.sock}, {"unix", "@" + s.abstract}, {"tcp", "127.0.0.1:0"}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			s.port = a.Port
		}
		go s.receive(l)
	}
	if err := os.Chmod(s.sock, 0o777); err != nil {
		t.Fatal(err)
	}
	s.leaveOpen(t)
	return s
}

func (s *stage) receive(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
		s.visits <- l.Addr().String()
	}
}

// leaveOpen opens a file, a directory and a connection, which every child gets.
func (s *stage) leaveOpen(t *testing.T) {
	t.Helper()
	for _, name := range []string{s.canary, s.dir} {
		fd, err := unix.Open(name, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: s.port}); err != nil {
		t.Fatal(err)
	}
	<-s.visits
}

// TestPrivilegeCases is group D: ways to more than a program was given.
func TestPrivilegeCases(t *testing.T) { privilegeCases(t, containers) }

func privilegeCases(t *testing.T, at maker) {
	s := newStage(t)
	g := at.ground(t)
	core := readHost(t, "/proc/sys/kernel/core_pattern")
	rows := s.guard(t, s.rows())
	for i := range rows {
		rows[i].env = append(rows[i].env, "SOCK="+s.sock, "ABSTRACT="+s.abstract, "PORT="+strconv.Itoa(s.port))
	}
	g.play(t, envelope.Default(), rows)
	if now := readHost(t, "/proc/sys/kernel/core_pattern"); now != core {
		t.Errorf("core_pattern was %q and is %q", core, now)
	}
	select {
	case at := <-s.visits:
		t.Errorf("a cell reached %s", at)
	default:
	}
}

func readHost(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s *stage) rows() []row {
	return append(s.reachRows(), []row{
		{name: "44 masked paths, and what a mask is made of", lang: "python", code: maskedPaths, want: want{says: "^done\n$"},
			own: func(r *row) {
				r.want.says = "^THERE /sys\nTHERE /sys/firmware\nTHERE /sys/fs/cgroup\nTHERE /dev/net/tun\nTHERE /dev/fuse\nTHERE /dev/ptmx\nTHERE /dev/tty\nTHERE /dev/pts\ndone\n$"
			}},
		{name: "45 keystrokes pushed into a terminal", lang: "python", code: pushedKeys, want: want{says: "^done\n$"},
			own: func(r *row) { r.env = append(r.env, "ERRNO=25") }},
		{name: "46 a native call past a list of the language", lang: "python", want: want{says: "(?m)^1000$"}, code: `
import ctypes
ctypes.CDLL(None).system(b"id -u; touch $D/ran; cat $C; cat /etc/shadow; su -c id; sudo id 2>&1")`},
		{name: "50 out of an engine's object into its process", lang: "node", needs: "node", want: want{says: "^done\n$"}, code: `
const seen = p => { if (p.pid > 50 || Object.keys(p.env).some(k => /KEY|TOKEN|CALLCELL/.test(k)) || p.ppid !== 1) console.log("HOST", p.pid, p.ppid, p.env) };
try { null.x } catch (e) { seen(e.constructor.constructor("return process")()) }
(async () => { try { await Promise.reject(new Error) } catch (e) { seen(e.constructor.constructor("return process")()) } console.log("done") })()`},
		{name: "55 shell words in names and arguments", argv: []string{"/usr/bin/printf", "<%s>", "$(touch $D/ran)", ";touch born", "`id`", "a b", "-rf", "|id", "\n"},
			files: shellNames(), take: []string{"born"}, want: want{says: "^" + `<\$\(touch \$D/ran\)><;touch born><` + "`id`" + `><a b><-rf><\|id><` + "\n>$"},
			more: taken(nil, "born")},
		{name: "55 shell words in the names of inputs", lang: "sh", files: shellNames(), take: []string{"born"}, want: want{says: "^7\n$"},
			code: `ls -A | wc -l; for f in *; do cat -- "$f" >/dev/null || echo "no $f"; done`, more: taken(nil, "born")},
		{name: "56 an install script has the rights of its call", lang: "sh", needs: "npm", want: want{says: "^installed\n"}, code: `
mkdir p; echo '{"name":"p","version":"1.0.0","scripts":{"install":"touch $D/ran; cat $C; setsid sleep 7756 & echo installed > ../mark"}}' >p/package.json
cd p && npm install --offline --no-audit --no-fund >log 2>&1 || cat log; cat ../mark`},
	}...)
}

// shellNames are files whose names are commands to a careless shell.
func shellNames() (files []envelope.File) {
	for _, name := range []string{"a$(touch born).sh", ";touch born;", "`touch born`", "-rf", "a b", "'\"'"} {
		files = append(files, envelope.File{Name: name, Data: []byte("x")})
	}
	return files
}

// reachRows look for the host behind descriptors, sockets and other processes.
func (s *stage) reachRows() []row {
	return []row{
		{name: "43 the working directory is a leaked descriptor", lang: "python", code: leakedDirectories, want: want{says: "^done\n$"}},
		{name: "51 sockets of the host in what can be read", lang: "python", code: walkedSockets, want: want{says: "^done\n$"}},
		{name: "52 abstract sockets, ports and virtual machines' sockets", lang: "python", code: otherSockets, want: want{says: "^done\n$"}},
		{name: "54 descriptors of whoever started us", lang: "python", code: leakedDescriptors, want: want{says: "^done\n$"},
			more: func(t *testing.T, _ *ended) {
				if fds := inheritable(t, s.dir); fds < 2 {
					t.Errorf("%d descriptors were left open: the row would prove nothing", fds)
				}
			}},
	}
}

// inheritable counts our descriptors of the bait that every child gets.
func inheritable(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if flags, errno := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && errno == nil && flags&unix.FD_CLOEXEC == 0 && strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}

const leakedDirectories = `
import os
top = os.stat("/")
places = ["/proc/self/fd/%d" % n for n in range(300)] + ["/proc/1/root", "/proc/1/cwd", "/proc/thread-self/cwd", "/proc/self/root", "/proc/self/cwd", "/scratch", "/.callcell"]
for p in places + ["/proc/%d/root" % n for n in range(1, 40)] + ["/proc/%d/cwd" % n for n in range(1, 40)]:
    try: os.chdir(p)
    except OSError: continue
    for _ in range(60): os.chdir("..")
    if not os.path.samestat(os.stat("."), top): print("OUTSIDE", p, os.listdir(".")[:9])
    os.chdir("/work")
print("done")
`

const maskedPaths = `
import os, stat
for p in ("kcore", "keys", "key-users", "timer_list", "acpi", "kallsyms", "kmsg", "sched_debug", "scsi", "sysvipc", "interrupts", "latency_stats", "bus", "fs", "irq", "sys", "sys/kernel/core_pattern", "sysrq-trigger", "1/mem", "1/environ", "1/maps", "config.gz"):
    for mode in ("rb", "wb"):
        try:
            with open("/proc/" + p, mode) as f: f.write(b"x") if mode == "wb" else f.read(1)
            print("OPEN", p, mode)
        except OSError: pass
for p in ("/sys", "/sys/firmware", "/sys/fs/cgroup", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/net/tun", "/dev/fuse", "/dev/ptmx", "/dev/tty", "/dev/pts"):
    if os.path.lexists(p): print("THERE", p)
for p in ("null", "zero", "full", "random", "urandom"):
    st = os.lstat("/dev/" + p)
    if not stat.S_ISCHR(st.st_mode) or os.major(st.st_rdev) != 1: print("NO DEVICE", p)
    for change in (os.remove, lambda p: os.rename(p, "/tmp/x"), lambda p: os.chmod(p, 0), lambda p: os.symlink("/proc/self/environ", p)):
        try: change("/dev/" + p); print("CHANGED", p)
        except OSError: pass
print("done")
`

const pushedKeys = `
import ctypes, os
errno = int(os.environ.get("ERRNO", 1)) # by the filter
c = ctypes.CDLL(None, use_errno=True)
TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423
for request in (TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD):
    for high in (0, 1 << 32, 1 << 63):
        for fd in range(20):
            ctypes.set_errno(0)
            if c.syscall(16, fd, ctypes.c_ulong(request | high), b"#") != -1: print("PUSHED", hex(request | high), fd)
            elif ctypes.get_errno() != (errno if fd < 3 or errno == 1 else 9): print("OTHERWISE", hex(request | high), fd, ctypes.get_errno())
for p in ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/pts/0"):
    try: print("OPEN", open(p, "w"))
    except OSError: pass
print("done")
`

const walkedSockets = `
import os, socket, stat
found = [os.environ["SOCK"], "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"]
for top, dirs, names in os.walk("/"):
    if top == "/": dirs.remove("proc")
    for n in names:
        p = os.path.join(top, n)
        try:
            if stat.S_ISSOCK(os.lstat(p).st_mode): found.append(p)
        except OSError: pass
for p in found:
    try: socket.socket(socket.AF_UNIX).connect(p); print("CONNECTED", p)
    except OSError: pass
print("done")
`

const otherSockets = `
import os, socket
for family, at in ((socket.AF_UNIX, "\0" + os.environ["ABSTRACT"]), (socket.AF_INET, ("127.0.0.1", int(os.environ["PORT"]))), (socket.AF_INET6, ("::1", int(os.environ["PORT"]))),
    (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET, ("10.0.0.1", 22)), (40, (2, 1024)), (40, (1, 1024))):
    try:
        s = socket.socket(family); s.settimeout(2); s.connect(at); print("CONNECTED", at)
    except OSError: pass
mine = socket.socket(socket.AF_UNIX); mine.bind("\0mine")
names = [l.split()[-1] for l in open("/proc/self/net/unix") if "@" in l]
if names != ["@mine"]: print("NAMES", names)
print("done")
`

const leakedDescriptors = `
import os
there = sorted(map(int, os.listdir("/proc/self/fd")))
if there[:3] != [0, 1, 2] or len(there) != 4: print("THERE", there)
for fd in range(3, 20000):
    for use in (lambda: os.read(fd, 100), lambda: os.write(fd, b"GET"), lambda: os.fchdir(fd), lambda: os.fstat(fd)):
        try: print("OPEN", fd, use())
        except OSError as e:
            if e.errno != 9: print("OPEN", fd, e)
print("done")
`
