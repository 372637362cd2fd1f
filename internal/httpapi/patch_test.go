package httpapi_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// unpacked is a version of a workspace: bytes by name, with an x before those of
// what may be executed.
func unpacked(t *testing.T, c *client.Client, name string, version int64) map[string]string {
	t.Helper()
	r, err := c.ExportWorkspace(t.Context(), name, version)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := map[string]string{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return files
		}
		text, failed := io.ReadAll(archive)
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = marked(h.Mode&0o100 != 0, text)
	}
}

func marked(executable bool, text []byte) string {
	if executable {
		return "x" + string(text)
	}
	return "-" + string(text)
}

// applied is what git apply makes of files by a patch.
func applied(t *testing.T, files map[string]string, patch string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at, mode := filepath.Join(dir, name), fs.FileMode(0o644)
		if text[0] == 'x' {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text[1:]), mode)); err != nil {
			t.Fatal(err)
		}
	}
	apply := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	apply.Dir, apply.Stdin = dir, strings.NewReader(patch)
	apply.Env = append(apply.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%.8000s", err, out, patch)
	}
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, failed := d.Info()
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		got[name] = marked(info.Mode()&0o100 != 0, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestGitAppliesThePatchOfADiff: of one version git makes the other by it, and
// the first of nothing.
func TestGitAppliesThePatchOfADiff(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	tree := &envelope.Tree{Files: []envelope.File{
		{Name: "a b/ž.txt", Data: []byte("1\n")}, {Name: "data", Data: []byte("\x00\x01\x02")}, {Name: "gone", Data: []byte("x\n")},
		{Name: "same", Data: []byte("s\n")}, {Name: "tool", Data: []byte("#!/bin/sh\n")},
	}}
	r, err := c.Run(t.Context(), &envelope.Call{Argv: []string{"/bin/print"}, Tree: tree, Workspace: &envelope.Workspace{Name: "w"}})
	if err != nil || !r.OK() || r.Workspace.Wrote != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	next(t, c, "w", 1, "/bin/turn")
	was, now := unpacked(t, c, "w", 1), unpacked(t, c, "w", 2)
	d, err := c.DiffWorkspace(t.Context(), "w", 1, 2)
	if err != nil || d.Cut || len(d.Files) != 6 {
		t.Fatalf("%+v %v", d, err)
	}
	if got := applied(t, was, d.Patch); !maps.Equal(got, now) {
		t.Errorf("%q, want %q, by\n%s", got, now, d.Patch)
	}
	d, err = c.DiffWorkspace(t.Context(), "w", 0, 1)
	if err != nil || d.Cut {
		t.Fatalf("%+v %v", d, err)
	}
	if got := applied(t, nil, d.Patch); !maps.Equal(got, was) {
		t.Errorf("%q, want %q, by\n%s", got, was, d.Patch)
	}
}

// TestHalfAPatchIsNone: where a patch would have more than it may, or be made of
// more, there is none, though all files are compared.
func TestHalfAPatchIsNone(t *testing.T) {
	s := newStand(t, nil)
	c := s.client("blue", gateway.RoleCall)
	for program, files := range map[string]int{"noise": 15, "zeros": 70} {
		next(t, c, program, 0, "/bin/"+program)
		d, err := c.DiffWorkspace(t.Context(), program, 0, 1)
		if err != nil || d.Cut || len(d.Files) != files || !strings.Contains(d.Files[files-1].Diff, "binary") || d.Patch != "" {
			t.Errorf("%s: %v: %d files, cut %t, a patch of %d bytes", program, err, len(d.Files), d.Cut, len(d.Patch))
		}
	}
}
