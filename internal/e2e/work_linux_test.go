package e2e_test

import "testing"

// A work is something that programs do among themselves, and what it prints.
type work struct{ name, needs, sh, want string }

func works() []work {
	return []work{
		{"node: files, workers, processes and a server of its own", "/usr/bin/node", `
cat >main.mjs <<'END'
import { Worker } from "node:worker_threads"; import { createServer } from "node:http"; import { execFileSync } from "node:child_process"; import { writeFileSync, readFileSync, watch } from "node:fs"; import { createHash } from "node:crypto"; import { gzipSync, gunzipSync } from "node:zlib";
writeFileSync("f", "x".repeat(1e6));
console.log(gunzipSync(gzipSync(readFileSync("f"))).length, createHash("sha256").update("abc").digest("hex").slice(0, 8));
console.log(execFileSync("/bin/sh", ["-c", "echo from a child"]).toString().trim());
const sums = await Promise.all([1, 2, 3, 4].map(n => new Promise((ok, no) => new Worker("const { parentPort, workerData } = require('node:worker_threads'); let s = 0; for (let i = 0; i < 1e6; i++) s += workerData; parentPort.postMessage(s)", { eval: true, workerData: n }).on("message", ok).on("error", no))));
console.log(sums.join(" "));
const server = createServer((q, a) => a.end("served " + q.url)); await new Promise(ok => server.listen(0, "127.0.0.1", ok));
console.log(await (await fetch("http://127.0.0.1:" + server.address().port + "/x")).text()); server.close(); server.closeAllConnections();
const seen = new Promise(ok => { const w = watch(".", (kind, name) => { if (name === "new") { w.close(); ok(name) } }) }); writeFileSync("new", ""); console.log("saw", await seen);
END
node main.mjs`, "1000000 ba7816bf\nfrom a child\n1000000 2000000 3000000 4000000\nserved /x\nsaw new\n"},
		{"git: commits, branches, a merge, a clone and its objects packed", "/usr/bin/git", `
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=n@test GIT_CONFIG_KEY_2=init.defaultBranch GIT_CONFIG_VALUE_2=main
git init -q r && cd r && for i in $(seq 40); do echo $i >f$i; done && git add -A && git commit -qm one
git checkout -q -b side && echo side >f1 && git commit -qam side && git checkout -q main && echo main >f2 && git commit -qam main && git merge -q -m merged side
git gc -q && git fsck --no-progress && git clone -q . ../c && cd ../c && git log --oneline | wc -l && cat f1 f2 && git status --short | wc -l`, "4\nside\nmain\n0\n"},
		{"tar, gzip, find and xargs", "/usr/bin/tar", `
mkdir -p t/a/b && for i in $(seq 200); do echo $i >t/a/b/$i; done; ln -s b t/a/l; ln t/a/b/1 t/a/h; chmod 750 t/a/b/2
tar -czf t.tgz t && mkdir o && tar -xzf t.tgz -C o && tar -df t.tgz -C o && find o -type f | wc -l && find o -type l -printf '%l\n' && find o -links 2 -type f -name h && find o -type f -print0 | xargs -0 -n 50 cat | wc -l && stat -c %a o/t/a/b/2`,
			"201\nb\no/t/a/h\n201\n750\n"},
		{"Python: threads, processes, a database, files of every kind", "/usr/bin/python3", `
cat >main.py <<'END'
import asyncio, concurrent.futures as f, hashlib, json, lzma, os, sqlite3, ssl, subprocess, sys, tempfile, threading, zipfile
ready = threading.Barrier(100); done = []
def one(i): ready.wait(); done.append(i)
ts = [threading.Thread(target=one, args=(i,)) for i in range(100)]
for t in ts: t.start()
for t in ts: t.join()
print(len(done))
with f.ProcessPoolExecutor(2) as p: print(sum(p.map(abs, range(-100, 0))))
db = sqlite3.connect("db"); db.execute("create virtual table t using fts5(x)"); db.executemany("insert into t values(?)", [(f"word{i} other",) for i in range(500)]); db.commit(); print(db.execute("select count(*) from t where t match 'word7 OR word8'").fetchone()[0])
with zipfile.ZipFile("z", "w", zipfile.ZIP_LZMA) as z: z.writestr("a", "x" * 100000)
print(len(zipfile.ZipFile("z").read("a")), os.path.getsize("z") < 1000)
async def main():
    async def serve(r, w): w.write(await r.readexactly(5)); await w.drain(); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"hello"); print(await r.read())
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1); print(len((await p.communicate(b"x" * 300000))[0]))
asyncio.run(main())
with tempfile.NamedTemporaryFile() as t, tempfile.TemporaryFile() as u: print(os.path.exists(t.name), u.write(b"x"))
END
python3 main.py`, "100\n5050\n2\n100000 True\nb'hello'\n300000\nTrue 1\n"},
		{"a C program is compiled and run", "/usr/bin/gcc", `
cat >main.c <<'END'
#include <math.h>
#include <pthread.h>
#include <stdio.h>
static void *half(void *p) { *(double *)p = sqrt(*(double *)p); return p; }
int main(void) { double n[8]; pthread_t t[8]; double sum = 0;
	for (int i = 0; i < 8; i++) { n[i] = i * i; pthread_create(&t[i], 0, half, &n[i]); }
	for (int i = 0; i < 8; i++) { pthread_join(t[i], 0); sum += n[i]; }
	printf("%g\n", sum); return 0; }
END
gcc -O2 -g -pthread -o main main.c -lm && ./main`, "28\n"},
	}
}

// TestOrdinaryWork: what programs do without a network, they do in a cell.
func TestOrdinaryWork(t *testing.T) { ordinaryWork(t, usual(t), works()) }

func ordinaryWork(t *testing.T, s *stand, works []work) {
	t.Helper()
	for _, tt := range works {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			a := s.run(call{sh: "set -e\n" + tt.sh})
			if a.ok(t); a.stdout != tt.want {
				t.Errorf("%q, want %q\n%s", a.stdout, tt.want, a.stderr)
			}
		})
	}
}
