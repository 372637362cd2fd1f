package unpack

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
)

// TestCheckSeesWhatIsOtherwise: whatever an unpacker leaves that was taken over,
// it is not said to be the tree of its listing.
func TestCheckSeesWhatIsOtherwise(t *testing.T) {
	o := small()
	image := func(g *ground, at int64, data string) error {
		f, err := os.OpenFile(filepath.Join(g.staging, ImageName), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte(data), at)
		return errors.Join(err, f.Close())
	}
	for name, c := range map[string]struct {
		change func(g *ground, root string) error
		kind   fstree.ErrKind // "": another tree is found
	}{
		"a file's bytes":    {func(_ *ground, root string) error { return os.WriteFile(root+"/d/f", []byte("texT"), 0o644) }, ""},
		"a file's length":   {func(_ *ground, root string) error { return os.Truncate(root+"/d/f", 3) }, ""},
		"a file's mode":     {func(_ *ground, root string) error { return os.Chmod(root+"/d/f", 0o755) }, ""},
		"a mode of no tree": {func(_ *ground, root string) error { return os.Chmod(root+"/d/f", 0o666) }, fstree.KindForm},
		"one more":          {func(_ *ground, root string) error { return os.WriteFile(root+"/d/g", nil, 0o644) }, ""},
		"one less":          {func(_ *ground, root string) error { return os.Remove(root + "/d/f") }, ""},
		"another name":      {func(_ *ground, root string) error { return os.Rename(root+"/d/f", root+"/d/F") }, ""},
		"a link's target": {func(_ *ground, root string) error {
			return errors.Join(os.Remove(root+"/l"), os.Symlink("/etc/passwd", root+"/l"))
		}, ""},
		"a pipe":             {func(_ *ground, root string) error { return unix.Mkfifo(root+"/p", 0o644) }, fstree.KindForm},
		"a directory's mode": {func(_ *ground, root string) error { return os.Chmod(root+"/d", 0o777) }, fstree.KindForm},
		"a sparse giant":     {func(_ *ground, root string) error { return os.Truncate(root+"/d/f", 1<<40) }, fstree.KindBytes},
		"too many": {func(_ *ground, root string) error {
			for n := range 1001 {
				if err := os.Symlink("x", filepath.Join(root, "d", strings.Repeat("n", 1+n%50)+string(rune('a'+n/50)))); err != nil {
					return err
				}
			}
			return nil
		}, fstree.KindEntries},
		"too deep": {func(_ *ground, root string) error {
			return os.MkdirAll(root+strings.Repeat("/e", fstree.MaxDepth+1), 0o755)
		}, fstree.KindDepth},
		"no image":              {func(g *ground, _ string) error { return os.Remove(filepath.Join(g.staging, ImageName)) }, ""},
		"no directory":          {func(_ *ground, root string) error { return os.RemoveAll(root) }, ""},
		"an image that is none": {func(g *ground, _ string) error { return image(g, 1024, "x") }, fstree.KindForm},
		"a file's bytes in it":  {func(g *ground, _ string) error { return image(g, 4096, "TEXT") }, ""},
		"bytes behind a file":   {func(g *ground, _ string) error { return image(g, 4100, "more") }, fstree.KindForm},
		"an image that is a dir": {func(g *ground, _ string) error {
			p := filepath.Join(g.staging, ImageName)
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o755))
		}, fstree.KindForm},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t)
			r, err := g.unpack(t, archive(t, reg("d/f", "text"), sym("l", "d/f")), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(g, filepath.Join(g.staging, RootName)); err != nil {
				t.Fatal(err)
			}
			staging, err := os.Open(g.staging)
			if err != nil {
				t.Fatal(err)
			}
			defer staging.Close()
			found, err := Check(staging, o)
			e := &fstree.Error{}
			if errors.As(err, &e); e.Kind != c.kind || err != nil && c.kind == "" {
				t.Errorf("%v", err)
			}
			want := strings.TrimPrefix(r.Digest, "sha256:")
			if found.Dir == want && found.Image == want {
				t.Error("it is not seen")
			}
		})
	}
}

// TestCheckTool says one line, or fails with words.
func TestCheckTool(t *testing.T) {
	g := newGround(t)
	o := small()
	o.Dir = false
	r, err := g.unpack(t, archive(t, reg("f", "text")), o)
	if err != nil {
		t.Fatal(err)
	}
	var answer, words bytes.Buffer
	args := []string{"-at=" + g.staging, "-bytes=1000000", "-entries=10"}
	if code := CheckMain(args, &answer, &words); code != 0 || answer.String() != "- "+strings.TrimPrefix(r.Digest, "sha256:")+"\n" || words.Len() > 0 {
		t.Errorf("%d: %q, %q", code, answer.String(), words.String())
	}
	answer.Reset()
	for _, args := range [][]string{nil, {"-at=" + g.staging, "-bytes=1", "-entries=10"}, {"-at=" + g.outside + "/none", "-bytes=1", "-entries=1"}} {
		if code := CheckMain(args, &answer, &words); code != 1 || answer.Len() > 0 || words.Len() == 0 {
			t.Errorf("%q: %d: %q", args, code, answer.String())
		}
	}
}
