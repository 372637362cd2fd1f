package diff_test

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/diff"
)

// A treeFile is one file of a tree: its bytes, and whether it may be executed.
type treeFile struct {
	text string
	exec bool
}

// noise is n bytes that do not compress.
func noise(n int) string {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data) // it never fails
	return string(data)
}

// TestGitAppliesPatches: what a patch says of a tree, git apply makes of it,
// whatever is in the files, and whatever they are called.
func TestGitAppliesPatches(t *testing.T) {
	long := strings.Repeat("line\n", 60_000)
	was := map[string]treeFile{
		"plain": {"a\nb\nc\n", false}, "no end": {"a\nb", false}, "gone": {"x\n", false}, "gone empty": {"", false}, "gone binary": {"x\x00", false},
		"run": {"#!/bin/sh\n", false}, "stop": {"#!/bin/sh\n", true}, "both": {"a\n", true}, "text": {"a\n", false}, "binary": {noise(700), false}, "not utf-8": {"\xff\xfe", false},
		"emptied": {"a\n", false}, "filled": {"", false}, "large": {long, false}, "both and run": {"a\n", false}, "both and stop": {"a\n", true}, "binary and run": {noise(70), false}, "gone run": {"x\n", true}, "dir/a b/c d": {"1\n", false}, "same": {"s\n", false},
		`quo"ted`: {"q\n", false}, "ž": {"1\n", false}, "bi\u202edi x": {"1\n", false}, "-rf": {"1\n", false}, "a\u00a0b": {"1\n", false}, "😀": {"1\n", false},
	}
	now := maps.Clone(was)
	for _, name := range []string{"gone", "gone run", "gone empty", "gone binary"} {
		delete(now, name)
	}
	for name, f := range map[string]treeFile{
		"plain": {"a\nB\nc\n", false}, "no end": {"a\nb\nc", false}, "run": {"#!/bin/sh\n", true}, "stop": {"#!/bin/sh\n", false}, "both": {"b\n", true},
		"text": {"a\x00\n", false}, "binary": {noise(701), false}, "not utf-8": {"\xff\xfe\xfd", false}, "emptied": {"", false}, "filled": {"x\n", false}, "large": {long + "end\n", false}, "both and run": {"b\n", true}, "both and stop": {"b\n", false}, "binary and run": {noise(71), true},
		"dir/a b/c d": {"2\n", false}, `quo"ted`: {"Q\n", false}, "ž": {"2\n", false}, "bi\u202edi x": {"2\n", false}, "-rf": {"2\n", false}, "a\u00a0b": {"2\n", false}, "😀": {"2\n", false},
		"new/x y": {"n\n", false}, "new/empty": {"", false}, "new/binary": {noise(5), true}, "new/zeros": {strings.Repeat("\x00", 100_000), false}, "new/run": {"#!/bin/sh\n", true}, "new/\u2028": {"n", false},
	} {
		now[name] = f
	}
	dir := t.TempDir()
	writeTree(t, dir, was)
	apply := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	apply.Dir, apply.Stdin = dir, strings.NewReader(patchOf(was, now))
	apply.Env = append(apply.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%.8000s", err, out, patchOf(was, now))
	}
	got := readTree(t, dir)
	for name, want := range now {
		if got[name] != want {
			t.Errorf("%q: %.100q, executable %t", name, got[name].text, got[name].exec)
		}
	}
	for name := range got {
		if _, ok := now[name]; !ok {
			t.Errorf("%q is there", name)
		}
	}
}

// TestAPatchThatIsNotWhole: git refuses one with a file that is too large for it.
func TestAPatchThatIsNotWhole(t *testing.T) {
	f := diff.Of(nil, false, &envelope.Change{Name: "big", Kind: envelope.ChangeAdded, Data: bytes.Repeat([]byte{0}, 9<<20)})
	apply := exec.Command("git", "apply", "-")
	apply.Dir, apply.Stdin = t.TempDir(), strings.NewReader(f.Patch())
	apply.Env = append(apply.Environ(), "GIT_CEILING_DIRECTORIES=/")
	if out, err := apply.CombinedOutput(); err == nil || !strings.Contains(string(out), "big") {
		t.Errorf("%v %s", err, out)
	}
}

// patchOf is the patch of all that differs.
func patchOf(was, now map[string]treeFile) string {
	var text strings.Builder
	add := func(c envelope.Change) {
		f := diff.Of([]byte(was[c.Name].text), was[c.Name].exec, &c)
		text.WriteString(f.Patch())
	}
	for name, f := range now {
		c := envelope.Change{Name: name, Kind: envelope.ChangeChanged, Data: []byte(f.text), Executable: f.exec}
		before, there := was[name]
		switch {
		case !there:
			c.Kind = envelope.ChangeAdded
		case before == f:
			continue
		case before.text == f.text:
			c.Kind = envelope.ChangeMode
		}
		add(c)
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			add(envelope.Change{Name: name, Kind: envelope.ChangeRemoved})
		}
	}
	return text.String()
}

func writeTree(t *testing.T, dir string, files map[string]treeFile) {
	t.Helper()
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if f.exec {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(f.text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t *testing.T, dir string) map[string]treeFile {
	t.Helper()
	files := map[string]treeFile{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[name] = treeFile{string(text), info.Mode()&0o100 != 0}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
