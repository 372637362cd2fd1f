package launcher

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// unpackRun has init unpack files in a jail that has a /run, or has none.
func unpackRun(t *testing.T, withRun bool, files ...wire.PayloadFile) (root string, stage, value, index int) {
	t.Helper()
	root = jail(t)
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
