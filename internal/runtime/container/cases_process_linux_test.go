package container_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// TestProcessCases is group I: how a program starts and ends, and how that is
// told.
func TestProcessCases(t *testing.T) { processCases(t, containers) }

func processCases(t *testing.T, at maker) {
	g := at.ground(t)
	for _, rows := range [][]row{pipeRows(), shellRows(), endRows()} {
		g.play(t, envelope.Default(), rows)
	}
	t.Run("106 a call that is cancelled says so", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p := g.begin(t, ctx)
		cancel()
		x, err := p.end()
		if err != nil {
			t.Fatal(err)
		}
		killed(cell.CauseCancel, "").check(t, &ended{Exit: x})
		g.destroy(t, p.cell)
	})
	t.Run("108 a program that cannot be started has not run", func(t *testing.T) { g.unstartable(t) })
}

// pipeRows have a child that holds the pipe, or somebody who waits for input.
func pipeRows() []row {
	sleeper, server := mark("8102"), mark("8177")
	return []row{
		{name: "102 a child holds the output open", lang: "sh", code: "sleep " + sleeper + " & echo hi", want: want{says: "^hi\n$"}, more: soon(sleeper)},
		{name: "102 a server that was started in passing", lang: "sh", want: want{says: "up\n$"}, more: soon(server), code: `
python3 -m http.server 8177 --directory ` + server + ` 2>/dev/null & i=0
until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8177))' 2>/dev/null; do i=$((i+1)); test $i -lt 200 || exit 1; done; echo up`},
		{name: "102 a child in a session of its own holds the output", lang: "sh", code: "setsid sleep " + sleeper + " & exit 4", want: want{code: 4}, more: soon(sleeper)},
		{name: "103 no standard input is its end at once", lang: "sh", want: want{code: 1, says: `(?s)\[\].*EOFError|EOFError.*\[\]`}, code: `cat; read x; echo "[$x]"; python3 -c "input()"`},
		{name: "103 standard input is read to its end", lang: "sh", stdin: []byte("one\ntwo"), want: want{says: `^\[one\]two$`}, code: `read x; printf %s "[$x]"; cat`},
		{name: "103 standard input that is not read", lang: "sh", stdin: make([]byte, 4<<20), code: `head -c 1 >/dev/null`},
		{name: "103 no terminal to ask at", lang: "python", stdin: []byte("secret\n"), want: want{says: `secret`}, code: `
import getpass, os, warnings
warnings.simplefilter("ignore")
assert not os.isatty(0) and not os.isatty(1) and not os.isatty(2)
print(getpass.getpass(""))`},
	}
}

// soon checks that the end was that of the program and not of a child that
// would have gone on for hours.
func soon(mark string) func(*testing.T, *ended) {
	return func(t *testing.T, e *ended) {
		t.Helper()
		if e.Wall.Seconds() > 20 {
			t.Errorf("it took %v", e.Wall)
		}
		gone(mark)(t, e)
	}
}

// shellRows are texts of programs that a shell line around them would break.
func shellRows() []row {
	here := "cat <<'X' >t.txt\nit's \"fine\" $HOME `id` \\\nX\ncat t.txt; # a comment, and no end of line"
	return []row{
		{name: "105 a here-document, and quotes of every kind", lang: "sh", code: here, take: []string{"t.txt"},
			want: want{says: "^it's \"fine\" \\$HOME `id` \\\\\n$"}, more: taken(map[string]string{"t.txt": "it's \"fine\" $HOME `id` \\\n"})},
		{name: "105 nothing but a comment", lang: "sh", code: "#"},
		{name: "105 nothing at all", lang: "sh", code: ""},
		{name: "105 line ends of another system", lang: "sh", code: "echo a\r\necho b\r\n", more: exactly("a\r\nb\r\n")},
		{name: "105 ten thousand lines", lang: "sh", code: strings.Repeat("x=$((x+1))\n", 10_000) + "echo $x", want: want{says: "^10000\n$"}},
		{name: "105 arguments as they are", argv: []string{"/usr/bin/python3", "-c", "import sys; print(sys.argv[1:])", "a b", "", "$HOME", "*", "it's", "-", "--", "\n"},
			want: want{says: `^\['a b', '', '\$HOME', '\*', "it's", '-', '--', '\\n'\]\n$`}},
		{name: "109 the working directory is the cell's, whatever a program does to it", lang: "sh", want: want{code: 2, says: "^/work\n/work\n/proc/\\d+/fd\n"},
			code: `pwd; echo "$HOME"; cd /proc/self/fd && pwd -P; mkdir /work/d; cd /work/d; rmdir /work/d; ls; chmod 0 /work; cd /work 2>/dev/null`},
	}
}

// endRows are ends that look alike and are not.
func endRows() []row {
	signalled := func(s unix.Signal) want { return want{code: -1, signal: s} }
	return []row{
		{name: "106 time is up", lang: "sh", change: wall(300e6), code: `trap '' TERM; while :; do :; done`, want: killed(cell.CauseWall, "")},
		{name: "106 memory is used up", lang: "python", code: "x = bytearray(1 << 30); x[::4096] = b'1' * len(x[::4096])", want: killed(cell.CauseMemory, "memory")},
		{name: "106 memory is used up by a child", lang: "sh", want: killed(cell.CauseMemory, "memory"),
			code: `python3 -c 'x = bytearray(1 << 30); x[::4096] = b"1" * len(x[::4096])'; echo $?; sleep 60`},
		{name: "106 a program kills itself", lang: "sh", code: `kill -9 $$`, want: signalled(unix.SIGKILL)},
		{name: "106 a program kills all it can", lang: "sh", code: `setsid sleep 600 & sleep 600 & kill -9 -1; wait; kill -9 1; exit 6`, want: want{code: 6}},
		{name: "108 a fault", lang: "python", code: "import ctypes\nctypes.string_at(0)", want: signalled(unix.SIGSEGV)},
		{name: "108 an abort", lang: "python", code: "import os\nos.abort()", want: signalled(unix.SIGABRT)},
		{name: "108 asked to end, by itself", lang: "sh", code: `kill -TERM $$`, want: signalled(unix.SIGTERM)},
		{name: "108 a code that does not fit", lang: "sh", code: `exit 300`, want: want{code: 44}},
		{name: "108 a code that looks like a signal", lang: "sh", code: `exit 137`, want: want{code: 137}},
		{name: "108 a child's signal is the shell's code", lang: "sh", code: `sh -c 'kill -9 $$'; exit $?`, want: want{code: 137}},
		{name: "108 a command that is not there", lang: "sh", code: `no-such-command`, want: want{code: 127, says: "not found"}},
		{name: "108 a file that may not be run", lang: "sh", code: `./main.sh`, want: want{code: 126, says: "denied"}},
	}
}

// unstartable gives programs that cannot be started: none of them is a success,
// and each says why.
func (g *ground) unstartable(t *testing.T) {
	files := []envelope.File{
		{Name: "plain", Data: []byte("#!/bin/sh\n")}, {Name: "odd", Data: []byte("#!/no/such/interpreter\n"), Executable: true},
		{Name: "none", Data: []byte{0x7f, 'E', 'L', 'F', 0}, Executable: true}, {Name: "d/f"},
	}
	for name, errno := range map[string]syscall.Errno{
		"no-such-program": unix.ENOENT, "/no/such/program": unix.ENOENT, "./plain": unix.EACCES, "./odd": unix.ENOENT, "./none": unix.ENOEXEC, "./d": unix.EACCES,
		"./plain/x": unix.ENOTDIR, strings.Repeat("x", 5000): unix.ENOENT,
	} {
		c, err := g.cells().Open(context.Background(), shape())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Put(files); err != nil {
			t.Fatal(err)
		}
		x, err := c.Exec(context.Background(), cell.Command{Argv: []string{name}, Env: variables(), Stdout: io.Discard})
		var refused *cell.Error
		if !errors.Is(err, cell.ErrNotStarted) || !errors.Is(err, errno) || !errors.As(err, &refused) || refused.Reason != envelope.ReasonRequest {
			t.Errorf("%.40s: %+v, %v; want %v", name, x, err, errno)
		}
		if errno == unix.ENOENT && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.40s: %v is not ErrNotExist", name, err)
		}
		g.destroy(t, c)
	}
}
