//go:build unix

package guarded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// file makes a file with a mode in a directory with a mode.
func file(t *testing.T, dirMode, mode fs.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		mode fs.FileMode
	}{{path, mode}, {dir, dirMode}} {
		if err := os.Chmod(c.path, c.mode); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestReadModes(t *testing.T) {
	for _, c := range []struct {
		name      string
		dir, file fs.FileMode
		want      error
	}{
		{"private", 0o700, 0o600, nil},
		{"readable by all", 0o755, 0o644, nil},
		{"a group can write it", 0o755, 0o664, ErrUnsafe},
		{"all can write it", 0o755, 0o646, ErrUnsafe},
		{"a group can replace it", 0o775, 0o644, ErrUnsafe},
		{"all can replace it", 0o757, 0o644, ErrUnsafe},
		{"sticky: all can add beside it", 0o777 | fs.ModeSticky, 0o644, nil},
		{"a sticky file", 0o755, 0o666 | fs.ModeSticky, ErrUnsafe},
	} {
		data, err := Read(file(t, c.dir, c.file), 100)
		if !errors.Is(err, c.want) || (err == nil) != (string(data) == "text") {
			t.Errorf("%s: %q, %v, want %v", c.name, data, err, c.want)
		}
	}
}

func TestReadKinds(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{fifo, ErrKind}, {dir, ErrKind}, {"/dev/null", ErrKind}, {"relative", ErrPath},
		{filepath.Join(dir, "none"), fs.ErrNotExist}, {filepath.Join(fifo, "x"), syscall.ENOTDIR},
	} {
		if data, err := Read(c.path, 100); !errors.Is(err, c.want) || data != nil {
			t.Errorf("%s: %q, %v, want %v", c.path, data, err, c.want)
		}
	}
}

func TestReadSize(t *testing.T) {
	path := file(t, 0o700, 0o600)
	if data, err := Read(path, 4); err != nil || string(data) != "text" {
		t.Errorf("as long as the cap: %q, %v", data, err)
	}
	if _, err := Read(path, 3); !errors.Is(err, ErrSize) {
		t.Errorf("over the cap: %v", err)
	}
}

func TestReadLinks(t *testing.T) {
	safe, open := file(t, 0o755, 0o644), file(t, 0o777, 0o644)
	for _, c := range []struct {
		name, at, to string
		want         error
	}{
		{"to a safe place", filepath.Join(t.TempDir(), "l"), safe, nil},
		{"to a place that all can write", filepath.Join(t.TempDir(), "l"), open, ErrUnsafe},
		{"from a place that all can write", filepath.Join(filepath.Dir(open), "l"), safe, ErrUnsafe},
	} {
		if err := os.Symlink(c.to, c.at); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(c.at, 100); !errors.Is(err, c.want) {
			t.Errorf("a link %s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReadOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := file(t, 0o755, 0o644)
	if err := os.Chown(path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	var fault *Error
	if _, err := Read(path, 100); !errors.Is(err, ErrUnsafe) || !errors.As(err, &fault) || fault.Hint == "" {
		t.Errorf("a file of another user: %v", err)
	}
	path = file(t, 0o755, 0o644)
	if err := os.Chown(filepath.Dir(path), 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 100); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a directory of another user: %v", err)
	}
}
