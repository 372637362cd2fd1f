package launcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// These tests run callcell-init as a program of this host, outside of any
// cell: what it does does not depend on being sealed.

// An initRun is one life of callcell-init. dir is its working directory.
type initRun struct {
	*exec.Cmd
	dir    string
	status *os.File // our end of its conversation
}

// newInit prepares callcell-init with a payload, which need not be one.
func newInit(t testing.TB, payload *os.File) *initRun {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	run := &initRun{Cmd: exec.Command(helper("callcell-init")), dir: t.TempDir(), status: os.NewFile(uintptr(pair[0]), "ours")}
	theirs := os.NewFile(uintptr(pair[1]), "init's")
	t.Cleanup(func() {
		run.status.Close()
		theirs.Close()
	})
	run.Args, run.Env, run.Dir = []string{"callcell-init"}, []string{}, run.dir
	run.ExtraFiles = []*os.File{theirs}
	must(t, sendFDs(pair[0], []int{int(payload.Fd())})) // it keeps its own streams
	return run
}

// launch starts it. What a failed test leaves is killed.
func (run *initRun) launch(t testing.TB) {
	t.Helper()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	run.ExtraFiles[0].Close()
	watchdog := time.AfterFunc(patience, func() { _ = run.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		_ = run.Process.Kill() // it is dead
		_ = run.Wait()
	})
}

// end waits for its end, and returns the status record and the exit status.
func (run *initRun) end(t testing.TB) ([]byte, syscall.WaitStatus) {
	t.Helper()
	record, err := io.ReadAll(run.status)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := run.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return record, run.ProcessState.Sys().(syscall.WaitStatus)
}

// word is the record's number i, from 0.
func word(record []byte, i int) int {
	if len(record) < 4*(i+1) {
		return -1
	}
	return int(int32(binary.LittleEndian.Uint32(record[4*i:])))
}

// runInit runs one payload to its end. It fails the test unless there is just
// one record, and returns its stage, value and index.
func runInit(t testing.TB, payload []byte, prepare func(*initRun)) (stage, value, index int) {
	t.Helper()
	run := newInit(t, memfd(t, payload))
	if prepare != nil {
		prepare(run)
	}
	run.launch(t)
	record, exit := run.end(t)
	if len(record) != statusSize || word(record, 0) != statusMagic {
		t.Fatalf("record % x; exit status %#x", record, exit)
	}
	if code := exit.ExitStatus(); (code == 0) != (word(record, 1) == stageExited) {
		t.Errorf("exit code %d after stage %d", code, word(record, 1))
	}
	return word(record, 1), word(record, 2), word(record, 3)
}

func payloadOf(t testing.TB, argv, env []string, files ...wire.PayloadFile) []byte {
	t.Helper()
	b, err := wire.Payload(argv, env, files)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// say runs a command to its end and returns what it wrote.
func say(t *testing.T, argv, env []string, files ...wire.PayloadFile) string {
	t.Helper()
	var out bytes.Buffer
	stage, value, _ := runInit(t, payloadOf(t, argv, env, files...), func(run *initRun) { run.Stdout = &out })
	if stage != stageExited || value != 0 {
		t.Fatalf("%q: stage %d, value %#x", argv, stage, value)
	}
	return out.String()
}

func TestInitUnpacks(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	files := []wire.PayloadFile{
		{Name: "plain", Data: []byte("x")},
		{Name: "run", Data: []byte("#!/bin/sh\n"), Executable: true},
		{Name: "a/b/c/deep", Data: []byte("deep")},
		{Name: "a/b/second"},
		{Name: "a/third", Data: []byte("1234567")},
		{Name: "big", Data: big},
		{Name: "\xff new\nline", Data: []byte("name")},
	}
	unix.Umask(unix.Umask(0o022)) // what the plan sets; the default of tests too
	var dir string
	stage, value, _ := runInit(t, payloadOf(t, []string{"/bin/true"}, nil, files...), func(run *initRun) { dir = run.dir })
	if stage != stageExited || value != 0 {
		t.Fatalf("stage %d, value %d", stage, value)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, f.Data) {
			t.Errorf("%q: %d bytes, %v; want %d", f.Name, len(got), err, len(f.Data))
		}
		want := os.FileMode(0o644)
		if f.Executable {
			want = 0o755
		}
		if info.Mode() != want {
			t.Errorf("%q: mode %v, want %v", f.Name, info.Mode(), want)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "a/b")); err != nil || info.Mode() != os.ModeDir|0o755 {
		t.Errorf("a directory on the way: %v, %v", info, err)
	}
}

// TestInitUnpackFails: each says which file, and the program does not run.
// Names are the front's to judge: init takes them as they are.
func TestInitUnpackFails(t *testing.T) {
	ok := wire.PayloadFile{Name: "ok"}
	for _, c := range []struct {
		name  string
		files []wire.PayloadFile
		index int
		errno syscall.Errno
	}{
		{"twice", []wire.PayloadFile{ok, {Name: "a"}, {Name: "a"}}, 2, syscall.EEXIST},
		{"through a file", []wire.PayloadFile{ok, {Name: "ok/x"}}, 1, syscall.ENOTDIR},
		{"a directory", []wire.PayloadFile{ok, {Name: "a/x"}, {Name: "a"}}, 2, syscall.EEXIST},
		{"a trailing slash", []wire.PayloadFile{{Name: "a/"}}, 0, syscall.EISDIR},
		{"a component too long", []wire.PayloadFile{ok, {Name: strings.Repeat("x", 256)}}, 1, syscall.ENAMETOOLONG},
		{"a name too long", []wire.PayloadFile{ok, {Name: strings.Repeat("x/", 2100) + "x"}}, 1, syscall.ENAMETOOLONG},
		{"through a link", []wire.PayloadFile{{Name: "link/x"}}, 0, syscall.ENOENT},
		{"a link", []wire.PayloadFile{{Name: "link"}}, 0, syscall.EEXIST},
	} {
		t.Run(c.name, func(t *testing.T) {
			payload := payloadOf(t, []string{"touch", "ran"}, nil, c.files...)
			var dir string
			stage, value, index := runInit(t, payload, func(run *initRun) {
				dir = run.dir
				if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
			})
			if stage != stageUnpack || syscall.Errno(value) != c.errno || index != c.index {
				t.Errorf("stage %d, %v, file %d; want file %d: %v", stage, syscall.Errno(value), index, c.index, c.errno)
			}
			if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
				t.Error("the program ran")
			}
		})
	}
}

func TestInitUnpackHitsTheEndOfTheSpace(t *testing.T) {
	needRoot(t)
	payload := payloadOf(t, []string{"true"}, nil, wire.PayloadFile{Name: "fits", Data: make([]byte, 4096)},
		wire.PayloadFile{Name: "does not", Data: make([]byte, 1<<20)})
	stage, value, index := runInit(t, payload, func(run *initRun) {
		if err := unix.Mount("init-test", run.dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(run.dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	})
	if stage != stageUnpack || syscall.Errno(value) != syscall.ENOSPC || index != 1 {
		t.Errorf("stage %d, %v, file %d", stage, syscall.Errno(value), index)
	}
}

func TestInitPassesArgvAndEnvironment(t *testing.T) {
	argv := []string{"sh", "-c", `cat /proc/$$/cmdline; echo "|"; cat /proc/$$/environ`, "", "a b", "\n", "\xff", strings.Repeat("long", 5000)}
	env := []string{"PATH=/usr/bin:/bin", "A=1", "A=2", "EMPTY=", "NOEQUALS", "=x", "", "B=\xff\n"}
	got := say(t, argv, env)
	if want := strings.Join(argv, "\x00") + "\x00|\n" + strings.Join(env, "\x00") + "\x00"; got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestInitSearchesPATH(t *testing.T) {
	shell := "#!/bin/sh\necho "
	files := []wire.PayloadFile{
		{Name: "one/tool", Data: []byte(shell + "one"), Executable: true},
		{Name: "two/tool", Data: []byte(shell + "two"), Executable: true},
		{Name: "plain/tool", Data: []byte(shell + "plain")},
		{Name: "junk/tool", Data: []byte("\x00\x01junk"), Executable: true},
		{Name: "dir/tool/x"},
		{Name: "badinterp/tool", Data: []byte("#!/nowhere\n"), Executable: true},
		{Name: "tool", Data: []byte(shell + "here"), Executable: true},
	}
	far := strings.Repeat("/far", 1024)
	for _, c := range []struct {
		path, argv0 string
		says        string
		errno       syscall.Errno
	}{
		{"one:two", "tool", "one\n", 0},
		{"two:one", "tool", "two\n", 0},
		{"nowhere:one", "tool", "one\n", 0},
		{"tool:one", "tool", "one\n", 0},          // an entry that is no directory is passed
		{"plain:two", "tool", "two\n", 0},         // what may not be executed is passed
		{"dir:two", "tool", "two\n", 0},           // a directory of that name is passed
		{"badinterp:two", "tool", "two\n", 0},     // its interpreter is not there: passed, as execvp does
		{"junk:one", "tool", "", syscall.ENOEXEC}, // what is no program decides
		{"plain", "tool", "", syscall.EACCES},
		{"plain:nowhere", "tool", "", syscall.EACCES}, // says why, not just that it is not there
		{"nowhere", "tool", "", syscall.ENOENT},
		{"", "tool", "", syscall.ENOENT}, // an empty entry is not the working directory
		{":", "tool", "", syscall.ENOENT},
		{":one", "tool", "one\n", 0},
		{"one:", "nothing", "", syscall.ENOENT},
		{".", "tool", "here\n", 0},
		{far + ":one", "tool", "one\n", 0}, // an entry too long for any path is passed
		{"one", "./tool", "here\n", 0},     // a slash: no search
		{"one", "two/tool", "two\n", 0},
		{"one", "plain/tool", "", syscall.EACCES},
		{"one", "junk/tool", "", syscall.ENOEXEC},
		{"one", "dir/tool", "", syscall.EACCES},
		{"one", "missing/tool", "", syscall.ENOENT},
		{"one", "tool/x", "", syscall.ENOTDIR},
		{"one", strings.Repeat("t", 4100), "", syscall.ENOENT},
		{"one", strings.Repeat("t", 300), "", syscall.ENAMETOOLONG},
	} {
		t.Run(c.path[:min(20, len(c.path))]+" "+c.argv0[:min(20, len(c.argv0))], func(t *testing.T) {
			var out bytes.Buffer
			stage, value, _ := runInit(t, payloadOf(t, []string{c.argv0}, []string{"PATH=" + c.path}, files...), func(run *initRun) { run.Stdout = &out })
			if c.errno == 0 && (stage != stageExited || value != 0 || out.String() != c.says) {
				t.Errorf("stage %d, value %v, says %q; want %q", stage, syscall.Errno(value), out.String(), c.says)
			}
			if c.errno != 0 && (stage != stageExec || syscall.Errno(value) != c.errno) {
				t.Errorf("stage %d, %v; want %v", stage, syscall.Errno(value), c.errno)
			}
		})
	}
}

func TestInitHasAPATHWhereTheCallHasNone(t *testing.T) {
	if got := say(t, []string{"sh", "-c", "echo found"}, nil); got != "found\n" {
		t.Errorf("%q", got)
	}
}

func TestInitReportsExitCodes(t *testing.T) {
	for code := range 256 {
		stage, value, _ := runInit(t, payloadOf(t, []string{"/bin/sh", "-c", fmt.Sprint("exit ", code)}, nil), nil)
		if ws := syscall.WaitStatus(value); stage != stageExited || !ws.Exited() || ws.ExitStatus() != code {
			t.Errorf("exit %d: stage %d, status %#x", code, stage, value)
		}
	}
}

func TestInitReportsSignals(t *testing.T) {
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG, syscall.SIGWINCH, 32, 33:
			continue // by default they do not end a process, or are the C library's
		}
		script := fmt.Sprintf("ulimit -c 0; kill -%d $$; exit 99", sig)
		stage, value, _ := runInit(t, payloadOf(t, []string{"/bin/sh", "-c", script}, nil), nil)
		if ws := syscall.WaitStatus(value); stage != stageExited || !ws.Signaled() || ws.Signal() != sig {
			t.Errorf("signal %d: stage %d, status %#x", sig, stage, value)
		}
	}
}

// TestProgramStartsClean: what init was started with does not reach the
// program, but for its three streams.
func TestProgramStartsClean(t *testing.T) {
	script := `ls /proc/$$/fd; cut -d' ' -f5,6 /proc/$$/stat; echo $$ $$; exec cat /proc/self/status`
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/sh", "-c", script}, nil)))
	run.Path, run.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP INT PIPE USR1 CHLD; exec "$0"`, helper("callcell-init")}
	var out bytes.Buffer
	run.Stdout = &out
	run.launch(t)
	run.end(t)
	got := strings.Fields(out.String())
	if len(got) < 7 || !slices.Equal(got[:3], []string{"0", "1", "2"}) {
		t.Fatalf("descriptors: %q", got)
	}
	if group, self := got[3:5], got[5:7]; !slices.Equal(group, self) {
		t.Errorf("process group and session %v, want its own: %v", group, self)
	}
	for _, set := range []string{"SigPnd", "SigBlk", "SigIgn", "SigCgt"} {
		if !strings.Contains(out.String(), set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, out.String())
		}
	}
}

// TestInitLetsGoOfTheStreams: a program that closes its output has closed it,
// while it runs on.
func TestInitLetsGoOfTheStreams(t *testing.T) {
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/sh", "-c", `exec >&- 2>&-; read x; exit 7`}, nil)))
	run.Stdin, run.Stdout, run.Stderr = inR, outW, outW
	run.launch(t)
	outW.Close()
	inR.Close()
	if b, err := io.ReadAll(outR); err != nil || len(b) != 0 {
		t.Fatalf("%q, %v", b, err)
	}
	if fds := fdsOf(t, run.Process.Pid); !slices.Equal(fds, []string{"3 socket"}) {
		t.Errorf("init holds %v, want its status alone", fds)
	}
	inW.Close()
	if record, _ := run.end(t); word(record, 1) != stageExited || syscall.WaitStatus(word(record, 2)).ExitStatus() != 7 {
		t.Errorf("% x", record)
	}
}

// TestInitReapsOrphans needs init to be a namespace's first process.
func TestInitReapsOrphans(t *testing.T) {
	needRoot(t)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/sh", "-c", `(sleep 1000 & sleep 1000 & sleep 1000 &); echo; read x`}, nil)))
	run.Stdin, run.Stdout = inR, outW
	run.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	run.launch(t)
	inR.Close()
	await(t, "the program's word", lines(outR))
	pid := run.Process.Pid
	var orphans []int
	eventually(t, "the orphans are init's", func() bool {
		orphans = slices.DeleteFunc(children(t, pid), func(child int) bool { return procField(child, "Name") != "sleep" })
		return len(orphans) == 3
	})
	for _, child := range orphans {
		must(t, unix.Kill(child, unix.SIGTERM))
	}
	eventually(t, "the dead orphans are reaped", func() bool { return len(children(t, pid)) == 1 })
	inW.Close()
	if record, _ := run.end(t); word(record, 1) != stageExited {
		t.Errorf("% x", record)
	}
}

// TestInitEndsWithTheProgram: the kernel then ends the namespace.
func TestInitEndsWithTheProgram(t *testing.T) {
	needRoot(t)
	outR, outW := pipe(t)
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/sh", "-c", `(sleep 1000 &); echo`}, nil)))
	run.Stdout = outW
	run.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	run.launch(t)
	outW.Close()
	if record, _ := run.end(t); word(record, 1) != stageExited {
		t.Errorf("% x", record)
	}
	if b, err := io.ReadAll(outR); err != nil || string(b) != "\n" { // no end of file while the orphan lives
		t.Errorf("%q, %v", b, err)
	}
}

// TestInitWithoutALauncher: its death came before it could be a signal.
func TestInitWithoutALauncher(t *testing.T) {
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/touch", "ran"}, nil)))
	run.status.Close()
	run.launch(t)
	var exit *exec.ExitError
	if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	if _, err := os.Lstat(filepath.Join(run.dir, "ran")); err == nil {
		t.Error("the program ran")
	}
}
