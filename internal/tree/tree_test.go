package tree

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rootDir is the directory of go.mod.
var rootDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
})

func root(t testing.TB) string {
	t.Helper()
	dir, err := rootDir()
	if err != nil || dir == "." {
		t.Fatalf("no module: %q, %v", dir, err)
	}
	return dir
}

// A file is one file of the tree. Its name is relative, with slashes.
type file struct {
	name string
	data []byte
}

// tracked returns every file that is, or could be, under version control.
var tracked = sync.OnceValues(func() ([]file, error) {
	dir, err := rootDir()
	if err != nil {
		return nil, err
	}
	names, err := trackedNames(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, name := range names {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Lstat(full); err != nil || !info.Mode().IsRegular() {
			continue // removed and not yet committed, or a link
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, data})
	}
	return files, nil
})

func trackedNames(dir string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	if out, err := cmd.Output(); err == nil {
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	var names []string // a source archive
	err := filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, full)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

func allFiles(t testing.TB) []file {
	t.Helper()
	files, err := tracked()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("the tree has %d files: they are not found", len(files))
	}
	return files
}

// textFiles are the files that are text.
func textFiles(t testing.TB) []file {
	return slices.DeleteFunc(slices.Clone(allFiles(t)), func(f file) bool { return bytes.IndexByte(f.data, 0) >= 0 })
}

// A source is a parsed Go file.
type source struct {
	file
	ast  *ast.File
	fset *token.FileSet
}

func (s source) test() bool      { return strings.HasSuffix(s.name, "_test.go") }
func (s source) dir() string     { return path.Dir(s.name) }
func (s source) generated() bool { return ast.IsGenerated(s.ast) }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// lines is how many lines a node has.
func (s source) lines(n ast.Node) int { return s.line(n.End()) - s.line(n.Pos()) + 1 }

func parse(name string, data []byte) (source, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	return source{file{name, data}, tree, fset}, err
}

// sources returns the Go files of the tree, those of test data not.
func sources(t testing.TB) []source {
	t.Helper()
	var out []source
	for _, f := range allFiles(t) {
		if !strings.HasSuffix(f.name, ".go") || strings.Contains("/"+f.name, "/testdata/") {
			continue
		}
		s, err := parse(f.name, f.data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// plant parses a made-up source for a check's own test.
func plant(t *testing.T, name, text string) source {
	t.Helper()
	s, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// red fails where a check has not found exactly the planted faults.
func red(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("found %q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("found %q, want %q", got[i], want[i])
		}
	}
}

// report fails the test with each fault that was found.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}
