package container_test

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestEverydayCases is group M: what people run all day, under the default
// ceilings. Nothing of it may meet one.
func TestEverydayCases(t *testing.T) { everydayCases(t, containers) }

func everydayCases(t *testing.T, at maker) {
	g := at.ground(t)
	for _, rows := range [][]row{pythonRows(), shellToolRows(), languageRows(), noNetworkRows(), textRows()} {
		g.play(t, envelope.Default(), rows)
	}
}

// pythonRows are parts of the standard library that lean on the kernel.
func pythonRows() []row {
	return done([]row{
		{name: "148 process pools, locks and shared memory", lang: "python", code: `
from multiprocessing import Pool, Lock, Queue, shared_memory
with Lock(): pass
s = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[0] = 1; s.close(); s.unlink()
assert Pool(2).map(abs, [-1, -2]) == [1, 2]
q = Queue(); q.put(1); assert q.get() == 1`},
		{name: "149 a thread for each CPU, and much address space", lang: "python", code: `
import concurrent.futures, mmap, os
n = len(os.sched_getaffinity(0))
assert n >= 1 and os.cpu_count() >= 1
with concurrent.futures.ThreadPoolExecutor(min(32, n + 4)) as pool: assert list(pool.map(abs, [-1] * 50)) == [1] * 50
for _ in range(4): mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, 0)`},
		{name: "157 modules that call for much", lang: "python", code: `
import asyncio, ctypes, decimal, gzip, hashlib, json, lzma, sqlite3, ssl, subprocess, threading, uuid, zoneinfo
assert json.loads(json.dumps({"a": [1, None, "ž"]}))["a"][2] == "ž"
subprocess.run(["true"], check=True)
assert subprocess.run("echo $((6*7)) | tr 4 5", shell=True, capture_output=True, text=True).stdout == "52\n"
t = threading.Thread(target=lambda: None); t.start(); t.join()
async def main():
    p = await asyncio.create_subprocess_exec("echo", "x", stdout=-1)
    assert (await p.communicate())[0] == b"x\n"
    s = await asyncio.start_server(lambda r, w: (w.write(b"yes"), w.close()), "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
    assert await r.read() == b"yes"
asyncio.run(main())
assert len(uuid.uuid4().hex) == 32 and hashlib.sha256(b"").digest() and lzma.decompress(lzma.compress(b"x")) == b"x"
ssl.create_default_context()`},
		{name: "157 a database in a file", lang: "python", code: `
import sqlite3
for mode in ("wal", "delete", "memory"):
    d = sqlite3.connect(mode + ".db"); d.execute("pragma journal_mode=" + mode); d.execute("create table t(a)")
    d.executemany("insert into t values(?)", [(i,) for i in range(2000)]); d.commit()
    assert d.execute("select sum(a) from t").fetchone() == (1999000,)
    d.close()`},
		{name: "157 files of every kind", lang: "python", own: named, code: `
import ctypes, fcntl, mmap, os, tempfile
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g:
    assert d.startswith("/tmp/"); f.write(b"x" * 10); f.flush(); assert os.stat(f.name).st_size == 10; g.write(b"x")
f = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(f, b"anonymous"); os.posix_fallocate(f, 0, 1 << 16)
assert ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%d" % f, -100, b"named", 0x400) == 0
fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
m = mmap.mmap(f, 1 << 16); m[100:105] = b"hello"; m.flush(); assert os.pread(f, 5, 100) == b"hello"
os.symlink("named", "link"); os.mkfifo("fifo"); os.rename("link", "moved"); os.truncate("main.py", 10)
os.sendfile(os.open("out", os.O_CREAT | os.O_WRONLY), f, 0, 100); os.copy_file_range(f, os.open("copy", os.O_CREAT | os.O_WRONLY), 10, 0)
os.setxattr("out", "user.note", b"x"); os.utime("out", (1, 2)); os.chmod("out", 0o751); os.fsync(f)
assert os.statvfs(".").f_bavail > 0`},
		{name: "157 watches, events and waits", lang: "python", code: `
import ctypes, os, select, signal, time
c = ctypes.CDLL(None)
i = c.inotify_init1(0); assert c.inotify_add_watch(i, b".", 0x100) > 0
open("new", "w").close(); assert b"new" in os.read(i, 4096)
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"x"); assert e.poll(5)
v = os.eventfd(1); assert os.eventfd_read(v) == 1
p = os.pidfd_open(os.getpid()); signal.pidfd_send_signal(p, 0)
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1)); signal.setitimer(signal.ITIMER_REAL, 60)
child = os.fork()
if child == 0: os.kill(os.getppid(), signal.SIGUSR1); signal.pause()
while not got: signal.sigtimedwait([], 0.01)
os.kill(child, signal.SIGTERM); assert os.waitpid(child, 0)[1] == signal.SIGTERM
assert time.get_clock_info("monotonic") and time.time() > 1e9`},
		{name: "157 servers and clients on the loopback", lang: "python", code: `
import http.server, os, socket, threading, urllib.request
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
assert b"main.py" in urllib.request.urlopen("http://localhost:%d/" % s.server_port).read()
for family, at in ((socket.AF_UNIX, "sock"), (socket.AF_UNIX, "\0name"), (socket.AF_INET6, ("::1", 0)), (socket.AF_INET, ("0.0.0.0", 0))):
    l = socket.socket(family); l.bind(at); l.listen()
    a = socket.socket(family); a.connect(l.getsockname()); b, _ = l.accept(); a.sendall(b"x"); assert b.recv(1) == b"x"
u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"x", u.getsockname()); assert u.recv(9) == b"x"
a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [0]); assert len(socket.recv_fds(b, 9, 1)[1]) == 1
assert socket.gethostbyname("localhost") == "127.0.0.1" and socket.gethostbyname(socket.gethostname())
assert socket.getservbyname("https") == 443`},
		{name: "157 who and where one is", lang: "python", code: `
import datetime, getpass, grp, locale, os, platform, pwd, time, zoneinfo
assert pwd.getpwuid(os.getuid()).pw_name == getpass.getuser() == "cell" and grp.getgrgid(os.getgid()).gr_name == "cell"
assert os.path.expanduser("~") == os.getcwd() == os.environ["HOME"] == "/work"
assert locale.setlocale(locale.LC_ALL, "") == "C.UTF-8" and os.fsencode("ž") == b"\xc5\xbe"
assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Vienna")).utcoffset().seconds == 7200
os.environ["TZ"] = "Asia/Tokyo"; time.tzset(); assert time.tzname[0] == "JST"
assert platform.system() == "Linux" and platform.node() == "cell" and os.uname().sysname
os.nice(5); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.getrandom(16); os.urandom(16)`},
	})
}

// named makes a program give a file its name at once, and not at the end.
func named(r *row) {
	r.code = strings.NewReplacer(`os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)`, `os.open("named", os.O_CREAT | os.O_RDWR, 0o600)`,
		`assert ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%d" % f, -100, b"named", 0x400) == 0`, "").Replace(r.code)
}

// done makes each program say that it came to its end.
func done(rows []row) []row {
	end := map[string]string{"python": "\nprint('done')\n", "sh": "\necho done\n", "node": "\nprocess.on('exit', () => console.log('done'))\n"}
	for i, r := range rows {
		if r.lang == "sh" {
			rows[i].code = "set -e\n" + r.code
		}
		rows[i].code += end[r.lang]
		rows[i].want.says = `(?m)^done$`
	}
	return rows
}

// shellToolRows are the small tools.
func shellToolRows() []row {
	return done([]row{
		{name: "157 text tools", lang: "sh", code: `
test "$(seq 10 | awk '{s += $1} END {print s}')" = 55; test "$(echo abc | sed s/b/X/)" = aXc
test "$(printf '3\n1\n2\n' | sort -n | tr '\n' ,)" = 1,2,3,; test "$(yes | head -3 | wc -l)" -eq 3
cat >t <<X
a	1
b	2
X
test "$(cut -f2 t | paste -sd+)" = 1+2; grep -q '^b' t; uniq t | diff - t; printf 'x y' | xargs -n1 echo | tail -1 | grep -q y; test "$(date -u -d @0 +%Y)" = 1970; test "$(TZ=Asia/Tokyo date +%Z)" = JST`},
		{name: "157 archives", lang: "sh", code: `
mkdir d; echo hi >d/f; chmod 751 d/f; ln -s f d/l
for z in gzip xz bzip2; do command -v $z >/dev/null || continue; tar cf a.tar d; $z a.tar; rm -rf d; tar xf a.tar.*; test "$(cat d/l)" = hi; test "$(stat -c %a d/f)" = 751; rm a.tar.*; done`},
		{name: "157 processes, locks and time limits", lang: "sh", code: `
flock lock true; sleep 600 & kill $!; wait $! || test $? = 143; timeout 0.1 sleep 60 || test $? = 124
ps -e >/dev/null; kill -0 $$; nohup true; nice true; (exit 3) || test $? = 3; trap 'echo trapped >t' USR1; kill -USR1 $$; test "$(cat t)" = trapped; test $(mktemp | cut -c1-5) = /tmp/; find . -name lock | grep -q lock; df . >/dev/null`},
		{name: "157 git, from nothing to a clone", lang: "sh", needs: "git", code: `
git init -q r; cd r; git config user.email a@example.com; git config user.name a; echo 1 >f; git add f; git commit -qm one; echo 2 >f; git diff | grep -q '^+2'
git commit -qam two; git log --oneline | wc -l | grep -q 2; git gc -q; git clone -q . ../c; test "$(cat ../c/f)" = 2; git status --short`},
		{name: "152 a login shell touches nothing that it may not", lang: "sh", needs: "bash", code: `bash -lc true 2>err; test ! -s err; bash -ic true 2>/dev/null`},
		{name: "152 an environment of Python's own", lang: "python", code: `
import importlib.util, subprocess, sys
subprocess.run([sys.executable, "-m", "venv", "--without-pip", "v"], check=True)
assert subprocess.run(["v/bin/python", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout == "/work/v\n"`},
	})
}

// languageRows are programs in other languages.
func languageRows() []row {
	return done([]row{
		{name: "157 C, compiled and run", lang: "sh", needs: "gcc", code: `
cat >a.c <<'X'
#include <pthread.h>
#include <stdio.h>
static void *twice(void *p) { *(int *)p *= 2; return p; }
int main(void) { int n = 21; pthread_t t; return pthread_create(&t, 0, twice, &n) || pthread_join(t, 0) || printf("%d\n", n) < 0; }
X
gcc -O2 -Wall -pthread -o a a.c; test "$(./a)" = 42`},
		{name: "157 Node, with its threads, workers and servers", lang: "node", needs: "node", code: `
const fs = require('fs'), cp = require('child_process'), http = require('http'), os = require('os'), crypto = require('crypto'), zlib = require('zlib');
const assert = require('assert');
assert.equal(cp.execSync('echo child').toString(), 'child\n'); assert.equal(os.homedir(), '/work'); assert.equal(os.userInfo().username, 'cell');
fs.writeFileSync('f', 'x'); fs.watch('.').close(); assert.equal(zlib.gunzipSync(zlib.gzipSync('x')).toString(), 'x'); crypto.pbkdf2Sync('a', 'b', 10, 20, 'sha256');
const s = http.createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1', async () => { assert.equal(await (await fetch('http://localhost:' + s.address().port)).text(), 'ok'); s.closeAllConnections(); s.close() });
new (require('worker_threads').Worker)('require("worker_threads").parentPort.postMessage(42)', { eval: true }).on('message', m => assert.equal(m, 42));`},
		{name: "157 Perl", lang: "sh", needs: "perl", code: `test "$(perl -MPOSIX -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die; print floor(6.5) * 7')" = 42`},
		{name: "157 Java, from its source", lang: "sh", needs: "java", code: `
cat >A.java <<'X'
public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println(6 * 7)); t.start(); t.join(); } }
X
test "$(java A.java)" = 42`},
		{name: "157 make", lang: "sh", needs: "make", code: `printf 'all: a b\na b:\n\t@echo $@ >$@\n' >Makefile; make -j4; cat a b`},
	})
}

// noNetworkRows ask for what a call without network has not. Each is told so,
// at once.
func noNetworkRows() []row {
	quick := func(t *testing.T, e *ended) {
		t.Helper()
		if e.Wall.Seconds() > 25 {
			t.Errorf("the refusal took %v", e.Wall)
		}
	}
	return []row{
		{name: "151 a name that is not allowed asks nobody", lang: "sh", needs: "curl", code: `curl -sS https://denied.example.com`, want: want{code: 6, says: "(?i)resolve host"}, more: quick},
		{name: "153 the answer to a name is that it is not there", lang: "python", want: want{says: `^-2\n$`}, more: quick, code: `
import socket
try: socket.getaddrinfo("denied.example.com", 443)
except socket.gaierror as e: print(e.errno)`},
		{name: "153 the same, to Node", lang: "node", needs: "node", want: want{says: `^ENOTFOUND ENOTFOUND\n$`}, more: quick, code: `
require('dns').lookup('denied.example.com', e => fetch('https://denied.example.com').catch(f => console.log(e.code, f.cause.code)))`},
		{name: "153 an address that leads nowhere", lang: "python", want: want{says: `^ENETUNREACH ENETUNREACH\n$`}, more: quick, code: `
import errno, socket
def to(family, at):
    try: socket.socket(family).connect(at)
    except OSError as e: return errno.errorcode[e.errno]
print(to(socket.AF_INET, ("192.0.2.1", 443)), to(socket.AF_INET6, ("2001:db8::1", 443)))`},
		{name: "153 package tools give up when told not to try again", lang: "sh", needs: "npm", want: want{code: 1, says: "ENOTFOUND"}, more: quick,
			code: `npm view left-pad --fetch-retries=0`},
		{name: "153 a package list", lang: "sh", needs: "apt-get", want: want{code: 100}, more: quick, code: `apt-get update`},
	}
}

// textRows are large and odd arguments, variables and names.
func textRows() []row {
	large := strings.Repeat("x", 100_000)
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Repeat("y", 500)
	}
	return []row{
		{name: "158 variables are there for every program", lang: "sh", env: []string{"A=1", "B=two words", "TZ=UTC"},
			want: want{says: `^1\n1\n1\ntwo words\n$`}, code: `echo $A; printenv A; python3 -c 'import os; print(os.environ["A"])'; env -i B="$B" sh -c 'echo "$B"'`},
		{name: "158 variables for a program without a shell", argv: []string{"/usr/bin/printenv", "A"}, env: []string{"A=1"}, want: want{says: `^1\n$`}},
		{name: "158 a large variable", lang: "sh", env: []string{"LARGE=" + large}, want: want{says: `^100000\n$`}, code: `printf %s "$LARGE" | wc -c`},
		{name: "105 a large argument, and many", argv: append([]string{"/bin/sh", "-c", `echo $# ${#1}`, "sh", large}, many...), want: want{says: `^1001 100000\n$`}},
		{name: "105 names of files in other scripts", lang: "python", take: []string{"žluťoučký kůň.txt", "名前/ファイル", "🐴"}, want: want{says: `^\['main.py', 'žluťoučký kůň.txt', '名前', '🐴'\]\n$`},
			files: []envelope.File{{Name: "名前/ファイル", Data: []byte("x")}}, more: taken(map[string]string{"žluťoučký kůň.txt": "1", "名前/ファイル": "x", "🐴": "2"}), code: `
import os
open("žluťoučký kůň.txt", "w").write("1"); open("🐴", "w").write("2"); print(sorted(os.listdir(".")))`},
	}
}
