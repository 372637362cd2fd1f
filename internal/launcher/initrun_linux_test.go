package launcher

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// unpackRun has init unpack files in a jail that has a /run, or has none.
func unpackRun(t *testing.T, withRun bool, files ...wire.PayloadFile) (root string, stage, value, index int) {
	t.Helper()
	root = initRoot(t)
	must(t, os.Mkdir(filepath.Join(root, "work"), 0o755))
	if withRun {
		must(t, os.Mkdir(filepath.Join(root, "run"), 0o755))
	}
	stage, value, index = runInit(t, payloadOf(t, []string{"/nothing"}, nil, files...), func(run *initRun) {
		run.Path, run.Dir = "/callcell-init", "/work"
		run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	})
	return root, stage, value, index
}

// TestInitUnpacksFilesOfOurs: they land below /run with modes of their own, and
// neither they nor the call's land in the others' place.
func TestInitUnpacksFilesOfOurs(t *testing.T) {
	root, stage, value, _ := unpackRun(t, true,
		wire.PayloadFile{Name: "same", Data: []byte("the call's")},
		wire.PayloadFile{Name: "same", Data: []byte("ours"), Run: true},
		wire.PayloadFile{Name: "keys/deep/key", Data: []byte("secret"), Run: true, Private: true},
		wire.PayloadFile{Name: "keys/empty", Run: true, Executable: true})
	if stage != stageExited || value != 0 {
		t.Fatalf("stage %d, value %d", stage, value)
	}
	for name, want := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"work/same": {"the call's", 0o644}, "run/same": {"ours", 0o444}, "run/keys/deep/key": {"secret", 0o400}, "run/keys/empty": {"", 0o444},
		"run/keys": {"", os.ModeDir | 0o755},
	} {
		at := filepath.Join(root, name)
		info, err := os.Lstat(at)
		if err != nil || info.Mode() != want.mode {
			t.Errorf("%s: %v, %v; want %v", name, info, err, want.mode)
			continue
		}
		if text, err := os.ReadFile(at); !info.IsDir() && (err != nil || !bytes.Equal(text, []byte(want.text))) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for dir, want := range map[string]int{"work": 1, "run": 2} {
		if entries, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(entries) != want {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

// TestInitWithoutAPlaceForOurs says which file it could not write.
func TestInitWithoutAPlaceForOurs(t *testing.T) {
	ours := wire.PayloadFile{Name: "ca", Run: true}
	for name, c := range map[string]struct {
		run   bool
		files []wire.PayloadFile
		errno syscall.Errno
	}{
		"no /run":       {false, []wire.PayloadFile{{Name: "ok"}, ours}, syscall.ENOENT},
		"twice":         {true, []wire.PayloadFile{ours, ours}, syscall.EEXIST},
		"through one":   {true, []wire.PayloadFile{ours, {Name: "ca/x", Run: true}}, syscall.ENOTDIR},
		"a directory":   {true, []wire.PayloadFile{{Name: "ca/x", Run: true}, ours}, syscall.EEXIST},
		"a dot segment": {true, []wire.PayloadFile{{Name: "ok"}, {Name: "..", Run: true}}, syscall.EEXIST},
	} {
		_, stage, value, index := unpackRun(t, c.run, c.files...)
		if stage != stageUnpack || syscall.Errno(value) != c.errno || index != 1 {
			t.Errorf("%s: stage %d, %v, file %d; want file 1: %v", name, stage, syscall.Errno(value), index, c.errno)
		}
	}
}

// TestInitIsNotDumpable: its memory, and its status pipe, are not the
// program's although both have one uid.
func TestInitIsNotDumpable(t *testing.T) {
	needRoot(t)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	script := `ls -l /proc/$PPID/fd; cat /proc/$PPID/environ; true > /proc/$PPID/mem; echo done; read x`
	run := newInit(t, memfd(t, payloadOf(t, []string{"/bin/sh", "-c", script}, nil)))
	run.Stdin, run.Stdout, run.Stderr = inR, outW, outW
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	run.Dir = "/"
	if err := os.Chmod(os.Getenv(helpersEnv), 0o755); err != nil {
		t.Fatal(err)
	}
	run.launch(t)
	inR.Close()
	outW.Close()
	refused := 0
	for said := lines(outR); ; {
		line, ok := await(t, "the program's word", said)
		if !ok || line == "done" {
			break
		}
		if !strings.Contains(line, "ermission denied") {
			t.Errorf("%q", line)
		}
		refused++
	}
	if refused != 3 {
		t.Errorf("%d refusals, want 3", refused)
	}
	inW.Close()
	run.end(t)
}

// TestInitWithoutACommand: a launcher that hangs up without a word has nobody to
// run for; a message without descriptors is no command.
func TestInitWithoutACommand(t *testing.T) {
	for name, say := range map[string]func(sock int) error{
		"a hang-up": func(int) error { return nil }, "an empty message": func(sock int) error { return unix.Sendmsg(sock, []byte{0}, nil, nil, 0) },
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		cmd := exec.Command(helper("callcell-init"))
		cmd.Args, cmd.ExtraFiles = []string{"callcell-init"}, []*os.File{os.NewFile(uintptr(pair[1]), "init's")}
		must(t, cmd.Start(), cmd.ExtraFiles[0].Close(), say(pair[0]))
		if name == "a hang-up" {
			unix.Close(pair[0])
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit status 1", name, err)
		}
		if name == "a hang-up" {
			continue
		}
		if s := readStatus(pair[0]); s.stage != stagePayload || syscall.Errno(s.value) != syscall.EINVAL {
			t.Errorf("%s: %+v", name, s)
		}
		unix.Close(pair[0])
	}
}
