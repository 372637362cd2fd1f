package container_test

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// scratchIs checks that no more was written than the scratch has room for.
func scratchIs(most envelope.Size) func(*testing.T, *ended) {
	return func(t *testing.T, e *ended) {
		t.Helper()
		if e.Scratch > int64(most) {
			t.Errorf("the scratch has %d bytes, the ceiling is %d", e.Scratch, int64(most))
		}
	}
}

// spaceRows fill every place that can be written to.
func spaceRows() []row {
	return []row{
		{name: "74 every writable place has its end, and all together", lang: "sh", want: want{events: "disk", says: `^full\n$`}, more: scratchIs(16 * envelope.MiB), code: `
for d in . /tmp /dev/shm "$HOME" /var/tmp /run /run/lock /dev /usr /etc / /proc /scratch; do head -c 100000000 /dev/zero 2>/dev/null >$d/fill; done
n=$(cat ./fill /tmp/fill /dev/shm/fill 2>/dev/null | wc -c); test $n -le 16777216 && test $n -gt 8000000 && echo full`},
		{name: "74 what is removed can be used again, and is no event", lang: "sh",
			code: `for i in 1 2 3 4 5; do head -c 15000000 /dev/zero >f || exit 1; rm f; done`},
		{name: "74 room that is held by no name", lang: "python", want: want{says: `^28\n$`}, own: nameless, code: `
import os
keep = []
try:
    while True: keep.append(os.open(".", os.O_TMPFILE | os.O_RDWR)); os.write(keep[-1], bytes(1 << 20))
except OSError as e: print(e.errno)`},
		{name: "74 files, links and pipes without end", lang: "python", change: few, want: want{events: "disk", says: `^28\n28\n28\n28\n$`}, own: func(r *row) { r.want.says = "^28\n28\n28\n$" }, code: `
import os, socket
def until(step):
    try:
        for n in range(10000): step("f%d" % n)
    except OSError as e: print(e.errno)
until(lambda n: os.symlink("x", n))
until(lambda n: os.mkdir("d" + n))
until(lambda n: os.link("main.py", "l" + n))
until(lambda n: os.mkfifo("p" + n))`},
		{name: "75 sparse files", lang: "sh", take: []string{"s", "t"}, change: sparse,
			want: want{says: `(?m)^end$`}, more: func(t *testing.T, e *ended) {
				taken(map[string]string{"s": ""}, "t")(t, e)
				scratchIs(64*envelope.KiB)(t, e)
				if strings.Contains(e.out, "made") {
					t.Errorf("it says %s", e.out)
				}
			}, code: `
truncate -s 80G s 2>/dev/null && echo made; (dd if=/dev/zero of=t bs=1 count=1 seek=60G) 2>/dev/null && echo made
truncate -s 32M t && : >s; echo end`},
	}
}

// nameless makes a program without O_TMPFILE take a name away instead.
func nameless(r *row) {
	r.code = strings.ReplaceAll(r.code, `os.open(".", os.O_TMPFILE | os.O_RDWR`, `nameless(os.O_RDWR`)
	r.code = strings.Replace(r.code, "\nkeep = []", "\ndef nameless(how, mode=0o600): f = os.open('gone', how | os.O_CREAT, mode); os.remove('gone'); return f\nkeep = []", 1)
}

func few(e *envelope.Envelope) { e.Files.Inodes = 200 }

func sparse(e *envelope.Envelope) {
	e.Resources.FileSize, e.Files.Outputs.Bytes = 32*envelope.MiB, envelope.MiB
}

// fileRows are trees that are hard to walk.
func fileRows() []row {
	caps := func(e *envelope.Envelope) { e.Files.Outputs = envelope.OutputCaps{Count: 4, Bytes: envelope.MiB} }
	return []row{
		{name: "89 ten thousand directories, one in another", lang: "python", change: caps, take: []string{"d/", "f"}, want: want{says: `^10000\n$`}, code: `
import os
open("f", "w").close()
n = 0
while n < 10000: os.mkdir("d"); os.chdir("d"); n += 1
open("deepest", "w").close()
print(n)`, more: func(t *testing.T, e *ended) {
			if len(e.files) != 1 || e.misses["d/"] == "" {
				t.Errorf("taken %v, missed %v", e.files, e.misses)
			}
		}},
	}
}
