package ignore_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/project/ignore"
)

// git asks git itself which of names the rules of dir leave out. The
// configuration of this machine has no say.
func git(t *testing.T, dir string, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1) {
		t.Fatalf("git %q: %v: %s", args, err, stderr.String())
	}
	return out.String()
}

// tree is a directory of names for rules to be tried on.
func tree(t *testing.T, names []string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", ".")
	for _, name := range names {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names() []string {
	return []string{
		"a", "b", "ab", "abc", "a.o", "b.o", "!x", "#x", "a b", "a ", "x]y", "a\\b", "doc/a", "doc/b.o", "doc/x/a", "doc/x/y/a.txt",
		"build/out", "build/deep/out", "src/build/out", "src/a", "src/ab/c", "foo/bar", "x/foo/bar", "foo/x/bar", "foo/x/y/bar",
		"A/B", "z1", "z2", "z-", "z^", "-", "q.tar.gz", "sub/q.tar.gz", "sub/sub/keep", "sub/sub/drop", "deep/1/2/3/4/5", "[a]", "*",
	}
}

// held holds our answers for every name to git's.
func held(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	r := &ignore.Rules{}
	for _, at := range slices.Sorted(func(yield func(string) bool) {
		for at := range files {
			if !yield(at) {
				return
			}
		}
	}) {
		if err := os.WriteFile(filepath.Join(dir, at, ".gitignore"), []byte(files[at]), 0o644); err != nil {
			t.Fatal(err)
		}
		r.Add(strings.TrimPrefix(at, "."), files[at])
	}
	said := git(t, dir, strings.Join(names(), "\x00"), "check-ignore", "-z", "--stdin", "--no-index")
	theirs := map[string]bool{}
	for name := range strings.SplitSeq(said, "\x00") {
		theirs[name] = true
	}
	w := r.Walk()
	for _, name := range names() {
		if ours := w.File(name); ours != theirs[name] {
			t.Errorf("%q: left out %v, git says %v, of the rules %q", name, ours, theirs[name], files)
		}
	}
	for at := range files {
		if err := os.Remove(filepath.Join(dir, at, ".gitignore")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRulesAreGits(t *testing.T) {
	dir := tree(t, names())
	for _, rules := range []string{
		"a\n", "/a\n", "a/\n", "doc/a\n", "doc/\n!doc/a\n", "doc/*\n!doc/a\n", "*.o\n!b.o\n", "**/a\n", "doc/**\n", "doc/**/a\n", "**/foo/bar\n", "foo/**/bar\n",
		"foo**bar\n", "a**\n", "\\!x\n", "\\#x\n", "#x\n", "a\\ \n", "a \n", "a b\n", "x[]]y\n", "z[0-9]\n", "z[!0-9]\n", "z[^0-9]\n", "z[0\n", "z[[:digit:]]\n", "z[[:digit:]-]\n",
		"a\\\\b\n", "\\a\n", "a\\\n", "\\[a\\]\n", "[[]a]\n", "\\*\n", "?\n", "??\n", "*\n", "*\n!*/\n!*.o\n", "/*\n!/src\n", "build\n", "/build\n", "src/build/\n", "*.tar.gz\n",
		"sub/*/drop\n", "sub/**/keep\n", "deep/**/5\n", "deep/*/5\n", "/deep/1/**\n!deep/1/2\n", "\ufeffa\n", "a\r\n", "", "\n\n", "!\n", "/\n", "//\n", "a//b\n", "**\n", "**/\n", "/**\n", "***\n",
		"A\n", "[A-Z]\n", "z[\\-]\n", "z[0-\n", "z[]-a]\n", "[a-b-c]\n", "*.*\n", "*a*\n", "a*b*c\n", "doc/x\n!doc/x/y\n", "  a\n", "!a\n", "a\n!a\na\n", ".\n", "./a\n", "doc/../a\n", "doc//a\n",
		"[[:alpha:]\n", "[[:nope:]]\n", "foo/*\n", "*/bar\n", "**/**/bar\n", "foo/**\n!foo/x/bar\n", "*/\n",
	} {
		held(t, dir, map[string]string{".": rules})
	}
	held(t, dir, map[string]string{".": "*.o\na\n", "doc": "!b.o\n!a\n/x/a\n"})
	held(t, dir, map[string]string{".": "!keep\n", "sub": "*\n!sub\n", "sub/sub": "!keep\n"})
}

// TestRulesAreGitsAtRandom tries rules that nobody thought of.
func TestRulesAreGitsAtRandom(t *testing.T) {
	dir := tree(t, names())
	glued := regexp.MustCompile(`[^/!\n]\*\*`)
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "*", "**", "/", "?", "[a-b]", "[!a]", "foo", "bar", "doc", "x", "y", ".o", "build", "\\", "!", "sub", "src", "[", "]", "-", " ", "deep", "**/", "/**"}
	for range 300 {
		var rules strings.Builder
		for range 1 + rng.IntN(4) {
			for range 1 + rng.IntN(5) {
				rules.WriteString(pieces[rng.IntN(len(pieces))])
			}
			rules.WriteString("\n")
		}
		if glued.MatchString(rules.String()) {
			continue // git takes x**/ for x and then any directories, and documents it otherwise
		}
		held(t, dir, map[string]string{[]string{".", "doc", "sub"}[rng.IntN(3)]: rules.String()})
	}
}

// FuzzRules: whatever the rules, one answer does not depend on what was asked
// before, and what is below a directory that is out is out.
func FuzzRules(f *testing.F) {
	f.Add("*.o\n!a.o\n", "doc/a.o")
	f.Add("a/**/b\n[", "a/x/b")
	f.Add("[[:alpha:]-\\\n", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		if name == "" || path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
			t.Skip()
		}
		r := &ignore.Rules{}
		r.Add("", text)
		w := r.Walk()
		out := w.File(name)
		if again := r.Walk().File(name); again != out {
			t.Fatal("two answers")
		}
		if dir := path.Dir(name); dir != "." && r.One(dir, true) && !out {
			t.Fatal("taken in below what is left out")
		}
	})
}
