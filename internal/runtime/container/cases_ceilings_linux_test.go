package container_test

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// small is an envelope whose ceilings are quickly met.
func small() envelope.Envelope {
	e := envelope.Default()
	e.Resources.Memory, e.Resources.Pids, e.Resources.FileSize = 64*envelope.MiB, 32, 2*envelope.GiB
	e.Resources.Wall, e.Files.Scratch = envelope.Duration(60*time.Second*unhurried()), 16*envelope.MiB
	e.Resources.CPUTime = e.Resources.Wall
	return e
}

// small is that for the cells of a ground, which have more where their kernel is
// in it.
func (g *ground) small() envelope.Envelope {
	e := small()
	if g.own != nil {
		e.Resources.Memory *= 2
	}
	return e
}

// crowded is small with room for thirty processes of Python, which want a hundred
// and seventy mebibytes where their kernel is in it.
func (g *ground) crowded() envelope.Envelope {
	e := g.small()
	if g.own != nil {
		e.Resources.Memory *= 2
	}
	return e
}

// wall shortens the wall time.
func wall(d envelope.Duration) func(*envelope.Envelope) {
	return func(e *envelope.Envelope) { e.Resources.Wall = d * envelope.Duration(unhurried()) }
}

// shortLived is for programs that make processes for a second and see each end.
// What has ended counts as the cell's memory until the kernel comes to give it
// back, which it does when it has the time: measured were 7 to 64 MiB and more.
func shortLived(e *envelope.Envelope) {
	wall(1e9)(e)
	e.Resources.Memory = envelope.GiB
}

// manyPids are more than can be left to be reaped on a busy machine.
func manyPids(e *envelope.Envelope) {
	shortLived(e)
	e.Resources.Pids = 2000
}

// TestCeilingCases is group F: programs that take what they can get.
func TestCeilingCases(t *testing.T) { ceilingCases(t, containers) }

func ceilingCases(t *testing.T, at maker) {
	g := at.ground(t)
	for _, rows := range [][]row{forkRows(), timeRows()} {
		g.play(t, g.crowded(), rows)
	}
	for _, rows := range [][]row{memoryRows(), socketRows(), kernelRows(), spaceRows(), fileRows()} {
		g.play(t, g.small(), rows)
	}
	t.Run("71 one cell's death for memory takes no other", func(t *testing.T) { g.besideOthers(t) })
}

// forkRows are bombs of processes.
func forkRows() []row {
	atCeiling := func(t *testing.T, e *ended) {
		t.Helper()
		if e.Pids > 33 { // and init
			t.Errorf("%d processes at once, want at most 32 and init", e.Pids)
		}
	}
	return []row{
		{name: "68 a fork bomb", lang: "python", want: want{events: "processes", says: `^stopped at 31\n$`}, more: atCeiling, code: `
import os, time
n = 0
try:
    while n < 6000:
        if os.fork() == 0: time.sleep(600); os._exit(0)
        n += 1
except OSError: print("stopped at", n)`},
		{name: "68 a fork bomb in which everybody forks", lang: "sh", needs: "bash", change: shortLived, far: func(e *ended) bool { return kinds(e.Events) != "" },
			want: killed(cell.CauseWall, "processes"), more: atCeiling,
			code: `exec bash -c 'b() { b | b & }; b 2>/dev/null; while :; do wait; done'`},
		{name: "68 a bomb of threads", lang: "python", want: want{events: "processes", says: `^stopped at 31\n$`}, more: atCeiling, own: func(r *row) { r.want.events = "" }, code: `
import threading, time
threading.stack_size(1 << 18) # less than a huge page: 31 of those are its memory
n = 0
try:
    while n < 6000: threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); n += 1
except RuntimeError: print("stopped at", n)`},
		{name: "68 processes that live for a moment, again and again", lang: "python", change: manyPids, want: killed(cell.CauseWall, ""), code: `
import os
while True:
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)`},
		{name: "72 a pool of processes that do not fit", lang: "python", want: killed(cell.CauseMemory, "memory"),
			code: "import multiprocessing as m\nm.Pool(20).map(bytearray, [40 << 20] * 64)\nprint('survived')"},
	}
}

// memoryRows are bombs of memory, by each way to have some.
func memoryRows() []row {
	rows := []row{
		{name: "70 memory of its own", lang: "python", code: `x = bytearray(1 << 30); x[::4096] = b"1" * len(x[::4096])`},
		{name: "70 memory in pieces", lang: "python", code: "l = []\nwhile True: l.append(bytearray(1 << 16))"},
		{name: "70 shared memory", lang: "python", code: "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"},
		{name: "70 a file in memory", lang: "python", code: "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(1 << 20))"},
		{name: "70 /dev/shm", lang: "sh", code: `cat /dev/zero >/dev/shm/f`},
		{name: "70 files of the scratch", lang: "sh", code: `while :; do cat /dev/zero >>f; done`},
		{name: "70 System V segments", lang: "python", code: `
import ctypes
c = ctypes.CDLL(None, use_errno=True); c.shmat.restype = ctypes.c_void_p
while True:
    a = ctypes.c_void_p(c.shmat(c.shmget(0, 8 << 20, 0o1600), None, 0))
    ctypes.memset(a, 1, 8 << 20); c.shmdt(a)`},
		{name: "70 System V messages and semaphores", lang: "python", code: `
import ctypes
c = ctypes.CDLL(None, use_errno=True)
m = ctypes.create_string_buffer(b"\1\0\0\0\0\0\0\0" + b"x" * 8000)
while True:
    q = c.msgget(0, 0o1600); c.semget(0, 250, 0o1600)
    while q >= 0 and c.msgsnd(q, m, 8000, 0o4000) == 0: pass`},
		{name: "70 pipes that nobody reads", lang: "python", code: hoardPipes},
		{name: "70 sockets that nobody reads", lang: "python", code: hoardPairs},
	}
	for i := range rows {
		rows[i].want, rows[i].more = killed(cell.CauseMemory, "memory"), peak
		rows[i].change = func(e *envelope.Envelope) {
			e.Files.Scratch = 2 * envelope.GiB
			e.Resources.Wall *= 5 // some take seconds for what they can get
			e.Resources.CPUTime *= 5
		}
	}
	return rows
}

// peak checks that memory went to the ceiling and no further.
func peak(t *testing.T, e *ended) {
	t.Helper()
	if most := e.most; e.Memory > most+counted || e.Memory < most*9/10 {
		t.Errorf("the peak is %d, the ceiling %d", e.Memory, most)
	}
}

// counted is what the kernel's counter of a peak may be beyond what it lets by.
const counted = 1 << 20

// kernelMemory is the default of runsc.memory: what a kernel of a cell's own has
// beside the program.
const kernelMemory = 96 << 20

// bounded checks a program that says how much it held of what the kernel keeps,
// and that either that or its end is within the ceiling.
func bounded(t *testing.T, e *ended) {
	t.Helper()
	held := regexp.MustCompile(`held (\d+)\n`).FindStringSubmatch(e.out)
	switch {
	case held != nil:
		if n, _ := strconv.ParseInt(held[1], 10, 64); n > e.most {
			t.Errorf("it held %d bytes, the ceiling is %d", n, e.most)
		}
	case e.Cause != cell.CauseMemory:
		t.Errorf("%+v: %s", e.Exit, e.out)
	}
}

const hoardPipes = `
import fcntl, os
keep = []
def hoard():
    while True:
        r, w = os.pipe(); os.set_blocking(w, False); keep.append((r, w))
        try: fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
        try:
            while True: os.write(w, bytes(65536))
        except BlockingIOError: pass
for _ in range(20):
    if os.fork() == 0:
        try: hoard()
        except OSError: os.read(os.pipe()[0], 1)
try: hoard()
except OSError: os.read(os.pipe()[0], 1)
`

const hoardPairs = `
import socket
keep = []
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) * 60:
    pair = socket.socketpair(socket.AF_UNIX, kind); keep.append(pair)
    for end in pair:
        end.setblocking(False); end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)
        try:
            while True: end.send(bytes(32768))
        except BlockingIOError: pass
`

// socketRows hoard what the kernel keeps for connections. It counts that apart
// from memory on some hosts, so that the programs say how much they got.
func socketRows() []row {
	rows := []row{
		{name: "70 buffers of TCP", lang: "python", code: hoardTCP},
		{name: "70 buffers of UDP", lang: "python", code: hoardUDP},
	}
	for i := range rows {
		rows[i].more, rows[i].either = bounded, true
	}
	return rows
}

const hoardTCP = `
import socket
keep, held = [], 0
for _ in range(80):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26); s.bind(("127.0.0.1", 0)); s.listen()
        a = socket.socket(); a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26); a.connect(s.getsockname())
        a.setblocking(False); keep.append((a, s.accept()))
    try:
        while True: held += a.send(bytes(65536))
    except BlockingIOError: pass
print("held", held)
`

const hoardQueues = `
import ctypes
c, held = ctypes.CDLL(None, use_errno=True), 0
for n in range(20000):
    q = c.mq_open(b"/q%d" % n, 0o4102, 0o600, None)
    if q < 0: break
    while c.mq_send(q, b"x" * 8192, 8192, 0) == 0: held += 8192
    c.mq_close(q)
print("held", held)
`

const hoardUDP = `
import socket
keep, held = [], 0
for _ in range(80):
    b = socket.socket(type=socket.SOCK_DGRAM); b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
    b.bind(("127.0.0.1", 0)); b.setblocking(False); keep.append(b)
    a = socket.socket(type=socket.SOCK_DGRAM); a.connect(b.getsockname())
    for _ in range(300): a.send(bytes(32000))
for b in keep:
    try:
        while True: held += len(b.recv(65536))
    except BlockingIOError: pass
print("held", held)
`

// kernelRows hoard the small things of the kernel: each has a ceiling, or is
// memory of the cell.
func kernelRows() []row {
	return []row{
		{name: "81 descriptors in many processes", lang: "python", want: want{says: `^(EMFILE 253\n){20}$`}, code: `
import os
for _ in range(20):
    if os.fork() == 0:
        n = 0
        try:
            while True: os.open("x%d" % n, os.O_CREAT); n += 1
        except OSError as e: os.write(1, b"EMFILE %d\n" % n if e.errno == 24 else str(e).encode())
        os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break`},
		{name: "81 descriptors in flight between sockets", lang: "python", want: want{says: `^ETOOMANYREFS\n$`}, own: func(r *row) { r.want.says = "^$" }, code: `
import array, errno, os, socket
a, b = socket.socketpair(); f = os.open("/dev/null", 0)
try:
    for _ in range(1000): a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f] * 200))])
except OSError as e: print(errno.errorcode[e.errno])`},
		{name: "70 POSIX message queues", lang: "python", want: want{says: `^-1 24\n$`}, own: func(r *row) { r.code, r.more, r.either = hoardQueues, bounded, true }, code: `
import ctypes
c = ctypes.CDLL(None, use_errno=True)
print(c.mq_open(b"/q", 0o102, 0o600, None), ctypes.get_errno())`},
		{name: "70 timers, watches, locks and signals that wait", lang: "python", want: want{says: `^done\n$`}, own: func(r *row) { r.want.says = "^timers: never refused\ndone\n$" }, more: func(t *testing.T, e *ended) {
			if e.Memory > e.most+counted {
				t.Errorf("the peak is %d", e.Memory)
			}
		}, code: `
import ctypes, fcntl, os, signal
c = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
def until_refused(what, step):
    for n in range(5000):
        if step(n) < 0: return
    print(what + ": never refused")
until_refused("timers", lambda n: c.timer_create(0, None, ctypes.byref(ctypes.c_void_p())))
until_refused("signals", lambda n: c.sigqueue(os.getpid(), 40, None))
until_refused("watches", lambda n: c.inotify_init())
os.closerange(3, 256)
f = os.open("locks", os.O_CREAT | os.O_RDWR)
for n in range(3000): fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * n)
for n in range(20000):
    try: os.stat("/usr/share/none%d" % n)
    except FileNotFoundError: pass
print("done")`},
	}
}

// besideOthers runs calls that take their time beside one that dies for want
// of memory.
func (g *ground) besideOthers(t *testing.T) {
	var all sync.WaitGroup
	const count = `i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.05; done`
	for range 5 {
		all.Go(func() {
			e := g.call(t, g.small(), row{lang: "sh", code: count})
			want{says: `(?s)^0\n.*\n19\n$`}.check(t, e)
		})
	}
	for range 5 {
		e := g.call(t, g.small(), row{lang: "python", code: "l = []\nwhile True: l.append(bytearray(1 << 20))"})
		killed(cell.CauseMemory, "memory").check(t, e)
	}
	all.Wait()
	g.neighbour.check(t)
}

// timeRows are programs that go on.
func timeRows() []row {
	grace := func(e *envelope.Envelope) {
		wall(300e6)(e)
		e.Cleanup.StopGrace = envelope.Duration(20e9)
	}
	short := func(e *envelope.Envelope) {
		wall(300e6)(e)
		e.Cleanup.StopGrace = envelope.Duration(300e6)
	}
	cpu := func(e *envelope.Envelope) { e.Resources.CPUTime = envelope.Duration(1e9) }
	return []row{
		{name: "78 deaf to every signal, in a loop", lang: "sh", change: wall(300e6), want: killed(cell.CauseWall, ""),
			code: `nohup sh -c 'trap "" TERM INT HUP; while :; do :; done'`},
		{name: "78 stops itself and all others", lang: "python", change: wall(300e6), want: killed(cell.CauseWall, ""), code: `
import os, signal, subprocess
for _ in range(5): os.kill(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)`},
		{name: "78 ends what it began when asked to", lang: "sh", change: grace, far: printed("on\n"), take: []string{"state"}, want: want{code: 3, cause: cell.CauseWall, says: "(?m)^bye$"},
			code: `trap 'echo saved >state; echo bye; exit 3' TERM; echo on; while :; do sleep 0.01; done`, more: taken(map[string]string{"state": "saved\n"})},
		{name: "78 is asked to end before its children are", lang: "python", change: grace, far: printed("on\n"), want: want{code: 7, cause: cell.CauseWall, says: "^on\n$"}, code: `
import os, signal, time
for _ in range(20):
    if os.fork() == 0: time.sleep(600); os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
print("on", flush=True)
os.wait()
os._exit(9)`},
		{name: "78 deaf in its grace too", lang: "sh", change: short, far: printed("on\n"), want: killed(cell.CauseWall, ""), code: `trap '' TERM; echo on; while :; do :; done`},
		{name: "78 stopped in its grace", lang: "python", change: short, far: printed("on\n"), want: killed(cell.CauseWall, ""), code: `
import os, signal, time
if os.fork() == 0:
    while "State:\tT" not in open("/proc/%d/status" % os.getppid()).read(): pass
    print("on", flush=True)
else: os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)`},
		{name: "78 forks on being asked to end", lang: "python", change: short, far: printed("on\n"), want: killed(cell.CauseWall, ""), code: `
import os, signal, time
def more(*_):
    for _ in range(3): os.fork()
signal.signal(signal.SIGTERM, more)
print("on")
while True: time.sleep(600)`},
		{name: "78 CPU time, by many processes together", lang: "sh", change: cpu, want: killed(cell.CauseCPU, ""), more: nearly,
			code: `for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait`},
		{name: "78 CPU time, by processes that end", lang: "sh", change: cpu, want: killed(cell.CauseCPU, ""), more: nearly,
			code: `while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done`},
		{name: "75 a file over its size ends a child of the program", lang: "sh", change: func(e *envelope.Envelope) { e.Resources.FileSize = 16 * envelope.KiB },
			want: want{code: 0, says: "(?m)^on$", events: "file_size"}, code: `(cat /dev/zero >f) 2>/dev/null; echo on`},
		{name: "75 a file over its size ends who writes it", lang: "python", change: func(e *envelope.Envelope) { e.Resources.FileSize = 16 * envelope.KiB },
			take: []string{"f"}, want: want{code: -1, signal: unix.SIGXFSZ, events: "file_size"}, more: taken(map[string]string{"f": strings.Repeat("x", 16<<10)}), code: `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("f", "wb", 0) as f:
    while True: f.write(b"x" * 1000)`},
	}
}

// nearly checks that a second of CPU time was a second.
func nearly(t *testing.T, e *ended) {
	t.Helper()
	if e.CPU.Seconds() < 0.9 || e.CPU.Seconds() > 20 { // who ends it may be late
		t.Errorf("it used %v, want a second", e.CPU)
	}
}
