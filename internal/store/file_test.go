package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestModes(t *testing.T) {
	path := file(t)
	d := open(t, path)
	fill(t, log(t, d, audit.Options{}), 1)
	if d.Path() != path {
		t.Errorf("path %s, want %s", d.Path(), path)
	}
	for name, want := range map[string]fs.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 {
		t.Errorf("%v (%v), want the file, its log and its index", entries, err)
	}
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	leak.Check(t)
	for name, prepare := range map[string]func(path string) error{
		"symbolic link": func(path string) error {
			return errors.Join(os.WriteFile(path+".real", nil, 0o600), os.Symlink(path+".real", path))
		},
		"dangling link": func(path string) error { return os.Symlink(path+".real", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"readable":      func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o640)) },
		"open dir": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(filepath.Dir(path), 0o777))
		},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		path := filepath.Join(dir, "callcell.db")
		if err := errors.Join(os.Mkdir(dir, 0o700), prepare(path)); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path)
		var insecure *InsecureError
		if !errors.As(err, &insecure) || !errors.Is(err, ErrInsecure) || insecure.Hint == "" {
			t.Errorf("%s: %v, want ErrInsecure", name, err)
		}
		if _, err := os.Lstat(path + ".real-wal"); err == nil {
			t.Errorf("%s: it was followed", name)
		}
	}
}

func TestDirectoryThatIsAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "callcell.db")); err == nil {
		t.Error("it was opened")
	}
}

// TestOddPath has a path that is not to be read as a URI.
func TestOddPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?mode=memory&x=%41#é", "c:d.db")
	d := open(t, path)
	fill(t, log(t, d, audit.Options{}), 1)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestNotADatabase has something else in the file.
func TestNotADatabase(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "callcell.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}

func TestNewerVersion(t *testing.T) {
	leak.Check(t)
	path := file(t)
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := runSQL(t, path, "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path)
	var newer *NewerError
	if !errors.As(err, &newer) || !errors.Is(err, ErrNewer) || newer.Found != 99 || newer.Known != len(migrations()) {
		t.Errorf("%v, want ErrNewer", err)
	}
	if err := runSQL(t, path, "PRAGMA user_version = -1"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("version -1: %v, want ErrCorrupt", err)
	}
}

// TestMigrationsAreComplete has the list name the files that are there.
func TestMigrationsAreComplete(t *testing.T) {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil || len(entries) != len(migrations()) || len(entries) == 0 {
		t.Fatalf("%d files, %d names (%v)", len(entries), len(migrations()), err)
	}
	for i, e := range entries {
		if e.Name() != migrations()[i] {
			t.Errorf("step %d is %s, the file %s", i+1, migrations()[i], e.Name())
		}
	}
}
