package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// namesIn is what is below a directory, nil where that is not there.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestExportMakesADirectoryOfItsOwn: all of a version or nothing, also where it has
// no files; and nothing where something is already, or where a link leads.
func TestExportMakesADirectoryOfItsOwn(t *testing.T) {
	files := []envelope.File{{Name: "a"}, {Name: "b/c", Data: []byte("x")}}
	over, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		files  []envelope.File
		before func(dir string) error
		want   []string // in the directory afterwards
		left   int
		fails  string
	}{
		{"all of it", t.Context(), files, nil, []string{"", "/a", "/b", "/b/c"}, 0, ""},
		{"no files", t.Context(), nil, nil, []string{""}, 0, ""},
		{"what git acts on is left out", t.Context(), append(files, envelope.File{Name: ".git/hooks/pre-commit"}), nil, []string{"", "/a", "/b", "/b/c"}, 1, ""},
		{"a file that cannot be written", t.Context(), append(files, envelope.File{Name: "b"}), nil, nil, 0, "nothing is exported: b: "},
		{"cancelled", over, files, nil, nil, 0, "context canceled"},
		{"there meanwhile", t.Context(), files, func(dir string) error { return os.Mkdir(dir, 0o700) }, []string{""}, 0, "it is there"},
		{"a link meanwhile", t.Context(), files, func(dir string) error { return os.Symlink(t.TempDir(), dir) }, []string{""}, 0, "it is there"},
		{"a link to nothing", t.Context(), files, func(dir string) error { return os.Symlink(dir+".not", dir) }, []string{""}, 0, "it is there"},
	} {
		dir := filepath.Join(t.TempDir(), "not/yet")
		if c.before != nil {
			if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), c.before(dir)); err != nil {
				t.Fatal(err)
			}
		}
		left, err := export(c.ctx, dir, c.files)
		if got := namesIn(t, dir); !slices.Equal(got, c.want) || len(left) != c.left || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, left %q, %v", c.name, got, left, err)
		}
		if to, err := filepath.EvalSymlinks(dir); err == nil && to != dir && len(namesIn(t, to)) != 1 {
			t.Errorf("%s: written through the link: %q", c.name, namesIn(t, to))
		}
	}
}
