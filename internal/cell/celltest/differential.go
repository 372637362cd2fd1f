package celltest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// An everyday program is one of those that must do the same at every level that
// runs programs of a Linux system.
type everyday struct {
	name   string
	shell  string // a program, or
	python string // one
	stdin  string
	take   []string // its outputs
}

// Differential runs everyday programs in cells of two runtimes, and wants the
// same exit, output, files and ceilings of both.
func Differential(t *testing.T, one, other cell.Runtime) {
	for _, p := range everydays() {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.run(t, one), p.run(t, other)
			if a != b {
				t.Errorf("at %s:\n%s\nat %s:\n%s", one.Level(), a, other.Level(), b)
			}
		})
	}
}

// run returns all that can be compared, as a text.
func (p *everyday) run(t *testing.T, rt cell.Runtime) string {
	t.Helper()
	ctx := context.Background()
	env := envelope.Default()
	env.Files.Scratch, env.Resources.Pids = 16*envelope.MiB, 32
	c, err := rt.Open(ctx, cell.Shape{ID: id(), Envelope: env})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := c.Close(ctx); !r.Complete {
			t.Errorf("teardown: %+v", r)
		}
	}()
	if err := c.Put([]envelope.File{{Name: "in/data.txt", Data: []byte("b\na\nc\na\n")}, {Name: "run", Data: []byte("#!/bin/sh\necho ran $0\n"), Executable: true}}); err != nil {
		t.Fatal(err)
	}
	var out, say bytes.Buffer
	x, err := c.Exec(ctx, p.command(&out, &say))
	text := fmt.Sprintf("exit %d signal %d cause %q error %v\nout %q\nerr %q\n", x.Code, x.Signal, x.Cause, err, out.String(), say.String())
	var kinds []string
	for _, e := range x.Events {
		kinds = append(kinds, e.Kind)
	}
	slices.Sort(kinds)
	text += "events " + strings.Join(kinds, " ") + "\n"
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	files, misses, err := c.Get(ctx, p.take, envelope.OutputCaps{Count: 50, Bytes: envelope.MiB})
	for _, f := range files {
		text += fmt.Sprintf("file %q %v %q\n", f.Name, f.Executable, f.Data)
	}
	return text + fmt.Sprintf("misses %+v %v\n", misses, err)
}

func (p *everyday) command(out, say *bytes.Buffer) cell.Command {
	cmd := cell.Command{Argv: []string{"/bin/sh", "-c", p.shell}, Env: environment(), Stdout: out, Stderr: say}
	if p.python != "" {
		cmd.Argv = []string{"/usr/bin/python3", "-c", p.python}
	}
	if p.stdin != "" {
		cmd.Stdin = []byte(p.stdin)
	}
	return cmd
}

func everydays() []everyday {
	return []everyday{
		{name: "streams and exit", shell: `cat; echo err >&2; exit 7`, stdin: "one\ntwo\n"},
		{name: "pipes and filters", shell: `sort in/data.txt | uniq -c | sed 's/ *//'; seq 1 1000 | grep -c 7; wc -l <in/data.txt`},
		{name: "an input that is executed", shell: `./run; PATH=. run`},
		{name: "files of every kind", shell: `mkdir -p d/e; echo x >d/f; ln -s f d/l; ln d/f d/h; mkfifo p; chmod 751 d/f; ls -l d | sed '1d; s/.*:.. //'; stat -c '%a %h %F' d/f d/l p d`, take: []string{"d/", "p", "d/l"}},
		{name: "signals", shell: `trap 'echo usr1' USR1; kill -USR1 $$; sh -c 'kill -SEGV $$'; echo $?; kill -TERM $$`},
		{name: "children", shell: `(sleep 0.05; echo later) & echo now; wait; echo $?; timeout 0.1 sleep 10; echo $?`},
		{name: "who and where", shell: `id; pwd; echo $HOME $PATH; umask; hostname 2>/dev/null || cat /etc/hostname; cat /etc/passwd /etc/hosts /etc/resolv.conf`},
		{name: "what is not there", shell: `cat /etc/shadow; ls /home /root /var; touch /usr/x /x; no-such-program`},
		{name: "a file over its size", shell: `head -c 40000000 /dev/zero >big; echo $?; wc -c <big`},
		{name: "a full scratch", shell: `head -c 20000000 /dev/zero >big || echo full; head -c 4 big | wc -c`},
		{name: "too many open files", python: "import os\nn = 0\ntry:\n    while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.errno)"},
		{name: "threads", python: "import threading\nr = []\nts = [threading.Thread(target=r.append, args=(i,)) for i in range(20)]\n[x.start() for x in ts]; [x.join() for x in ts]; print(sorted(r))"},
		{name: "processes of python", python: "import subprocess as s\nprint(s.run(['cat'], input=b'x' * 100000, capture_output=True).stdout == b'x' * 100000, s.run('exit 5', shell=True).returncode)"},
		{name: "a socket of loopback", python: "import socket\nwith socket.create_server(('127.0.0.1', 0)) as s, socket.create_connection(s.getsockname()) as a, s.accept()[0] as b:\n    a.sendall(b'hello'); print(b.recv(9))"},
		{name: "names that are not answered", python: "import socket\nfor n in ('localhost', 'example.com'):\n    try: print(socket.gethostbyname(n))\n    except OSError as e: print(e.errno)"},
		{name: "memory that is mapped", python: "import mmap\nf = open('m', 'w+b'); f.truncate(8192); m = mmap.mmap(f.fileno(), 8192); m[4096:4099] = b'abc'; m.flush(); f.seek(4096); print(f.read(3))", take: []string{"m"}},
		{name: "locks of files", python: "import fcntl, os\na = open('l', 'w'); fcntl.flock(a, fcntl.LOCK_EX)\nb = open('l', 'w')\ntry: fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB); print('got')\nexcept OSError as e: print(e.errno)"},
		{name: "waiting for many", python: "import os, select\nr, w = os.pipe(); e = select.epoll(); e.register(r, select.EPOLLIN); print(e.poll(0.01)); os.write(w, b'x'); print(len(e.poll(1)), select.select([r], [], [], 0)[0] == [r])"},
		{name: "names of every kind", python: "import os\nfor n in (b'a b', 'ž'.encode(), b'n' * 255): open(n, 'w').write('x')\ntry: open(b'n' * 256, 'w')\nexcept OSError as e: print(e.errno)\nprint(sorted(os.listdir(b'.')))", take: []string{"a b", "ž", strings.Repeat("n", 255)}},
		{name: "modes and times", python: "import os\nopen('t', 'w'); os.utime('t', (1, 2)); os.chmod('t', 0o640); s = os.stat('t'); print(s.st_mtime, oct(s.st_mode), s.st_uid, s.st_gid, s.st_size)\nfor f in (lambda: os.chown('t', 0, 0), lambda: os.setuid(0)):\n    try: f(); print('got in')\n    except OSError as e: print('no')"},
		{name: "a database", python: "import sqlite3\na = sqlite3.connect('db'); print(a.execute('pragma journal_mode=wal').fetchone()); a.execute('create table t(x)')\nwith a: a.executemany('insert into t values(?)', [(i,) for i in range(1000)])\nb = sqlite3.connect('db'); print(b.execute('select sum(x) from t').fetchone())"},
		{name: "timers of every kind", python: "import signal, time\ngot = []\nfor s, w in ((signal.SIGALRM, signal.ITIMER_REAL), (signal.SIGVTALRM, signal.ITIMER_VIRTUAL), (signal.SIGPROF, signal.ITIMER_PROF)):\n    signal.signal(s, lambda n, _: got.append(n)); signal.setitimer(w, 0.01); end = time.monotonic() + 15\n    while s not in got and time.monotonic() < end: pass\nprint(got)"},
		{name: "who sent a signal", python: "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2); i = signal.sigwaitinfo([signal.SIGUSR2]); print(i.si_signo, i.si_pid == os.getpid(), i.si_uid)"},
		{name: "how a child was ended", python: "import ctypes, os\nfor end in (os.abort, lambda: ctypes.string_at(0), lambda: os._exit(3)):\n    pid = os.fork()\n    if pid == 0: end()\n    print(os.waitpid(pid, 0)[1])"},
		{name: "sockets of the file system", python: "import os, socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); r, w = os.pipe(); os.write(w, b'through'); socket.send_fds(a, [b'x'], [r]); m, fds, _, _ = socket.recv_fds(b, 9, 4); print(m, os.read(fds[0], 9))\nfor at in ('s', '\\0abstract'):\n    s = socket.socket(socket.AF_UNIX); s.bind(at); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(at); print(int.from_bytes(c.getsockopt(1, 17, 12)[4:8], 'little'))"},
		{name: "files in memory", python: "import fcntl, os, subprocess\nf = os.memfd_create('m', os.MFD_ALLOW_SEALING); os.write(f, open('/bin/true', 'rb').read()); fcntl.fcntl(f, 1033, 15)\ntry: os.write(f, b'x')\nexcept OSError as e: print(e.errno)\nprint(subprocess.run([f'/proc/self/fd/{f}'], pass_fds=[f]).returncode)"},
		{name: "from file to file", python: "import os, socket\nopen('f', 'wb').write(b'a' * 70000); f = os.open('f', os.O_RDONLY); t = os.open('t', os.O_RDWR | os.O_CREAT); a, b = socket.socketpair(); r, w = os.pipe()\nprint(os.sendfile(a.fileno(), f, 0, 1000), os.sendfile(t, f, 0, 70000), os.copy_file_range(f, t, 500, 0, 0), os.splice(f, w, 1000))", take: []string{"t"}},
		{name: "what happens to files", python: "import ctypes, os, struct\nc = ctypes.CDLL(None); i = c.inotify_init1(0); os.mkdir('d'); c.inotify_add_watch(i, b'd', 0xfff); open('d/a', 'w').write('x'); os.rename('d/a', 'd/b'); os.unlink('d/b'); d = os.read(i, 4096)\nwhile d: _, m, _, n = struct.unpack_from('iIII', d); print(hex(m), d[16:16 + n].rstrip(b'\\0')); d = d[16 + n:]"},
		{name: "memory of several processes", python: "import multiprocessing as m\nfrom multiprocessing import shared_memory as s\nx = s.SharedMemory(create=True, size=4096); x.buf[0] = 7; y = s.SharedMemory(x.name); print(y.buf[0]); y.close(); x.unlink(); x.close()\nc = m.get_context('fork')\nwith c.Pool(2) as p: print(p.map(abs, [-1, -2]))\nl = c.Lock(); l.acquire(); print(l.acquire(timeout=0.01))"},
		{name: "code that is made", python: "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x2a\\0\\0\\0\\xc3' if __import__('os').uname().machine == 'x86_64' else b'\\x40\\x05\\x80\\x52\\xc0\\x03\\x5f\\xd6'); print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())"},
		{name: "random bytes", python: "import os\nprint(len(os.getrandom(256, os.GRND_NONBLOCK)), *[len(open(d, 'rb').read(8)) for d in ('/dev/zero', '/dev/urandom', '/dev/random')])"},
		{name: "limits", python: "import resource as r\nprint([r.getrlimit(n) for n in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_STACK, r.RLIMIT_AS)])\nfor n in (r.RLIMIT_NOFILE, r.RLIMIT_NPROC, r.RLIMIT_FSIZE):\n    try: r.setrlimit(n, (1 << 50, 1 << 50)); print('raised')\n    except ValueError: print('no')"},
		{name: "where it runs from", shell: `for d in /work /tmp /dev/shm /run; do cp /bin/true $d/t 2>/dev/null || cat /bin/true >$d/t; chmod +x $d/t; $d/t; echo $d $?; done`},
	}
}
