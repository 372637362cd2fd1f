package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func newImage(t *testing.T) (Image, func() []string) {
	t.Helper()
	var b bytes.Buffer
	i := Image{NewArchive(&b)}
	return i, func() (names []string) {
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries(t, b.Bytes()) {
			names = append(names, e.name+"|"+e.data)
		}
		return names
	}
}

// TestTakeFollowsLinks: each link on the way is there, and what is at the end.
func TestTakeFollowsLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755), os.WriteFile(filepath.Join(dir, "usr/bin/real"), []byte("#!/x\n"), 0o755),
		os.Symlink("usr/bin", filepath.Join(dir, "bin")), os.Symlink(filepath.Join(dir, "bin/real"), filepath.Join(dir, "usr/bin/name")),
		os.Symlink("round", filepath.Join(dir, "round")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	image, names := newImage(t)
	if err := image.Take(filepath.Join(dir, "bin/name")); err != nil {
		t.Fatal(err)
	}
	if image.Take(filepath.Join(dir, "none")) == nil || image.Take(filepath.Join(dir, "round")) == nil {
		t.Error("taken what is not there, or a link to itself")
	}
	got := names()
	for _, want := range []string{"/bin|usr/bin", "/usr/bin/name|" + dir + "/bin/real", "/usr/bin/real|#!/x\n"} {
		if !slices.Contains(got, clean(dir)+want) {
			t.Errorf("%s is missing in %q", want, got)
		}
	}
}

func TestTreeUnderAnotherName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1", "sub/b": "2", "test/c": "3", "sub/test/d": "4"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	image, names := newImage(t)
	if err := image.Tree(dir, "/x", func(name string) bool { return name == "test" }); err != nil {
		t.Fatal(err)
	}
	want := []string{"x|", "x/a|1", "x/sub|", "x/sub/b|2", "x/sub/test|", "x/sub/test/d|4"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
