package project

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// A scene is a tree on disk and what is to become of it.
type scene struct {
	dir, journals string
	tree          *Tree
}

// newScene makes a tree of files: NAME -> what it holds; a name that ends in *
// may be executed.
func newScene(t *testing.T, files map[string]string) *scene {
	t.Helper()
	s := &scene{dir: t.TempDir(), journals: filepath.Join(t.TempDir(), "journals")}
	for name, text := range files {
		s.put(t, name, text)
	}
	return s
}

func (s *scene) at(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *scene) put(t testing.TB, name, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	name, executable := strings.CutSuffix(name, "*")
	if executable {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(s.at(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.at(name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.at(name), mode); err != nil {
		t.Fatal(err)
	}
}

// read reads the tree.
func (s *scene) read(t *testing.T) *Tree {
	t.Helper()
	tree, err := Read(context.Background(), s.dir, Options{Journals: s.journals})
	if err != nil {
		t.Fatal(err)
	}
	s.tree = tree
	return tree
}

// all is everything below the directory: NAME -> type, mode and content.
func (s *scene) all(t *testing.T) string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(s.dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == s.dir {
			return err
		}
		name, _ := filepath.Rel(s.dir, at)
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		found[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&out, "%s %s\n", name, found[name])
	}
	return out.String()
}

// litter is what an Apply has left behind: it must be empty.
func (s *scene) litter(t *testing.T) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(s.journals)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, "journals/"+e.Name())
	}
	if _, err := os.Lstat(s.at(".callcell")); err == nil {
		left = append(left, ".callcell")
	}
	return left
}

func added(name, text string) envelope.Change {
	return envelope.Change{Name: name, Kind: envelope.ChangeAdded, Data: []byte(text)}
}

func changed(name, text string) envelope.Change {
	return envelope.Change{Name: name, Kind: envelope.ChangeChanged, Data: []byte(text)}
}

func removed(name string) envelope.Change {
	return envelope.Change{Name: name, Kind: envelope.ChangeRemoved}
}

func changes(list ...envelope.Change) *envelope.Changes {
	return &envelope.Changes{Files: list, Complete: true}
}

// files is a tree with something of each kind.
func files() map[string]string {
	return map[string]string{
		"a.txt": "a\n", "b.txt": "b\n", "run.sh*": "#!/bin/sh\n", "dir/c.txt": "c\n", "dir/sub/d.txt": "d\n",
		"gone/one/x": "x\n", "gone/two": "2\n", "becomes-dir": "file\n", "becomes-file/in": "in\n", "keep": "keep\n",
	}
}

// all kinds of change to files.
func everyChange() *envelope.Changes {
	mode := envelope.Change{Name: "b.txt", Kind: envelope.ChangeMode, Data: []byte("b\n"), Executable: true}
	still := changed("run.sh", "#!/bin/sh\necho\n")
	still.Executable = true
	return changes(changed("a.txt", "A\n"), mode, still, removed("gone/one/x"), removed("gone/two"), removed("dir/sub/d.txt"), added("new/deep/e.txt", "e\n"),
		removed("becomes-dir"), added("becomes-dir/f", "f\n"), removed("becomes-file/in"), added("becomes-file", "file\n"))
}

// stat returns when a file was modified.
func stat(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info.ModTime()
}

// afterTheTimesOf waits until what is written has other times than a file has: the
// clock of file systems stands still for some milliseconds, in which a fast host
// comes far.
func afterTheTimesOf(t *testing.T, path string) {
	t.Helper()
	changed := func(path string) time.Time {
		info, err := os.Lstat(path)
		must(t, err)
		return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
	}
	now := filepath.Join(t.TempDir(), "now")
	for before := changed(path); ; {
		must(t, os.WriteFile(now, nil, 0o600))
		if changed(now).After(before) {
			return
		}
	}
}
