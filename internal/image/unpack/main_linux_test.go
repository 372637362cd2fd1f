package unpack

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/image/fstree"
)

// TestMainAnswers holds the tool to its contract: one line of JSON, at most
// 64 KiB of it, and the exit code that goes with it.
func TestMainAnswers(t *testing.T) {
	good := archive(t, reg("f", "1"), sym("bin", "usr/bin"))
	evil := archive(t, reg(strings.Repeat("\u202e\n\xff", 60)+"/../x", "1"))
	for _, c := range []struct {
		name string
		args []string
		data []byte
		kind fstree.ErrKind
	}{
		{"a tree", []string{"-bytes", "1000000", "-entries", "10", "-dir=true", "-erofs=false", "-mountpoints=false"}, good, ""},
		{"all forms", []string{"-bytes=1000000", "-entries=10", "-erofs=true", "-mountpoints=true"}, good, ""},
		{"a name that is not fit to be shown", []string{"-bytes=1000000", "-entries=10"}, evil, fstree.KindName},
		{"no bounds", nil, good, fstree.KindUsage},
		{"bounds below 1", []string{"-bytes=-1", "-entries=10"}, good, fstree.KindUsage},
		{"a flag that there is not", []string{"-bytes=1", "-entries=1", "-owner=0"}, good, fstree.KindUsage},
		{"an argument", []string{"-bytes=1", "-entries=1", "x"}, good, fstree.KindUsage},
		{"no staging directory", []string{"-bytes=1", "-entries=1", "-at=/does/not/exist"}, good, fstree.KindDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t)
			var out bytes.Buffer
			code := Main(append([]string{"-at", g.staging}, c.args...), bytes.NewReader(c.data), &out)
			line := out.String()
			if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || len(line) > 64<<10 {
				t.Errorf("%q is not one line", line)
			}
			var answer struct {
				Result
				fstree.Fault
			}
			if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.Fault.Error.Kind != c.kind || (code == 0) != (c.kind == "") || (answer.Digest == "") != (code != 0) {
				t.Errorf("exit code %d, %s, want the kind %q", code, line, c.kind)
			}
			for _, r := range line {
				if r != '\n' && (r < ' ' || r > '~') {
					t.Errorf("%q of %q is not ASCII", r, line)
				}
			}
		})
	}
}

// TestNothingIsOverwritten holds that a staging directory is used once.
func TestNothingIsOverwritten(t *testing.T) {
	for _, name := range []string{RootName, ImageName, ListingName} {
		g := newGround(t)
		if err := os.Symlink("../outside/canary", filepath.Join(g.staging, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.unpack(t, archive(t, reg("f", "1")), small()); err == nil {
			t.Errorf("%s was there and was taken", name)
		}
	}
}
