package keyfile

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestMadeOnce: many ask at once, all get the one key, and nothing else is left.
func TestMadeOnce(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.key")
	var wg sync.WaitGroup
	keys := make([]audit.PublicKey, 20)
	for i := range keys {
		wg.Go(func() {
			k, err := Load(path)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = k.Public()
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Fatal("two keys")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	other, err := Load(filepath.Join(dir, "other"))
	if err != nil || other.Public() == keys[0] {
		t.Errorf("another file has the same key, %v", err)
	}
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	good := word + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	for name, c := range map[string]struct {
		make func(path string) error
		want error
	}{
		"readable": {func(p string) error { return errors.Join(os.WriteFile(p, []byte(good), 0o600), os.Chmod(p, 0o640)) }, ErrInsecure},
		"a link": {func(p string) error {
			return errors.Join(os.WriteFile(p+"x", []byte(good), 0o600), os.Symlink(p+"x", p))
		}, syscall.ELOOP},
		"a pipe":      {func(p string) error { return syscall.Mkfifo(p, 0o600) }, ErrInsecure},
		"a directory": {func(p string) error { return os.Mkdir(p, 0o700) }, ErrInsecure},
		"empty":       {func(p string) error { return os.WriteFile(p, nil, 0o600) }, ErrForm},
		"cut":         {func(p string) error { return os.WriteFile(p, []byte(good[:40]), 0o600) }, ErrForm},
		"more":        {func(p string) error { return os.WriteFile(p, []byte(good+"x"), 0o600) }, ErrForm},
		"large":       {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 1<<16)), 0o600) }, ErrForm},
		"no place":    {func(string) error { return nil }, audit.ErrUnwritable},
	} {
		path := filepath.Join(t.TempDir(), "audit.key")
		if name == "no place" {
			path = filepath.Join(path, "below")
		}
		if err := c.make(path); err != nil {
			t.Fatal(name, err)
		}
		key, err := Load(path)
		if key != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		var fault *Error
		if errors.As(err, &fault) && (fault.Path != path || strings.Contains(err.Error(), good[30:50])) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "audit.key")
	if err := os.WriteFile(path, []byte(good), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Errorf("a read-only one of one's own: %v", err)
	}
}
