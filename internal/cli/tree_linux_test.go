package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// gitIn runs git in a repository of the test's own, by no configuration of this
// machine.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// repository makes one of many files, with what git would run in it.
func repository(t *testing.T, files int) string {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", ".")
	for i := range files {
		at := filepath.Join(dir, fmt.Sprintf("pkg%02d/sub%d", i%71, i%3), fmt.Sprintf("file%04d.txt", i))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		for line := range 20 + i%40 {
			fmt.Fprintf(&text, "file %d line %d\n", i, line)
		}
		if err := os.WriteFile(at, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	marker := filepath.Join(dir, "ran")
	for _, key := range []string{"core.fsmonitor", "filter.z.clean", "filter.z.smudge", "core.editor", "core.pager", "diff.external"} {
		gitIn(t, dir, "config", key, "touch "+marker+"; cat")
	}
	for name, text := range map[string]string{".gitattributes": "* filter=z diff=z\n", ".gitignore": "*.o\nran\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLargeRepositoryRoundTrips: of five thousand files two lines are changed
// in a cell; what is shown and what is applied is that and nothing else, and
// nothing of the repository runs on this host.
func TestLargeRepositoryRoundTrips(t *testing.T) {
	bin := binaries(t)
	dir := repository(t, 5000)
	place := t.TempDir()
	conf := filepath.Join(place, "callcell.yaml")
	text := fmt.Sprintf("version: 1\nstate: %s\nhelpers: %s\n", filepath.Join(place, "state"), bin)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, "ran")
	before, err := exec.Command("sh", "-c", "cd '"+dir+"' && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum").Output()
	if err != nil {
		t.Fatal(err)
	}
	work := `sed -i 's/^file 77 line 3$/CHANGED 77/' pkg06/sub2/file0077.txt
sed -i 's/^file 4999 line 0$/CHANGED 4999/' pkg29/sub1/file4999.txt
echo x > new.o; test $(find . -type f | wc -l) = 5003 || exit 9; test ! -e .git`
	cmd := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "run", "--json", "--trust", "reviewed", "--tree", dir, "--apply", "--", "sh", "-c", work)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s %s", err, stderr.String(), stdout.String())
	}
	var r struct {
		envelope.Result
		Tree struct {
			Files   int
			Diff    string
			Applied bool
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	want := `diff --git a/pkg06/sub2/file0077.txt b/pkg06/sub2/file0077.txt
--- a/pkg06/sub2/file0077.txt
+++ b/pkg06/sub2/file0077.txt
@@ -1,7 +1,7 @@
 file 77 line 0
 file 77 line 1
 file 77 line 2
-file 77 line 3
+CHANGED 77
 file 77 line 4
 file 77 line 5
 file 77 line 6
diff --git a/pkg29/sub1/file4999.txt b/pkg29/sub1/file4999.txt
--- a/pkg29/sub1/file4999.txt
+++ b/pkg29/sub1/file4999.txt
@@ -1,4 +1,4 @@
-file 4999 line 0
+CHANGED 4999
 file 4999 line 1
 file 4999 line 2
 file 4999 line 3
`
	if r.Tree.Diff != want || !r.Tree.Applied || r.Tree.Files != 5002 || r.Changes.Same != 5000 || r.Changes.Ignored != 1 {
		t.Errorf("applied %v, %d files, %d the same, %d ignored; the diff is\n%s", r.Tree.Applied, r.Tree.Files, r.Changes.Same, r.Changes.Ignored, r.Tree.Diff)
	}
	after, err := exec.Command("sh", "-c", "cd '"+dir+"' && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum").Output()
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]bool{}
	for line := range strings.Lines(string(before)) {
		was[line] = true
	}
	others := 0
	for line := range strings.Lines(string(after)) {
		if !was[line] {
			others++
		}
	}
	if others != 2 || bytes.Count(before, []byte("\n")) != bytes.Count(after, []byte("\n")) {
		t.Errorf("%d files of the tree are others, want 2", others)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("something of the repository ran on this host")
	}
}
