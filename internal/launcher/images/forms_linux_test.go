package images

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestKeptUnderItsOwnDigestAlone: another one is refused, whoever asks.
func TestKeptUnderItsOwnDigestAlone(t *testing.T) {
	s, dir := newStore(t)
	st := stage(t, s, dir, 1)
	_, err := st.Claim(plenty)
	must(t, err)
	if st.Digest() != digest {
		t.Errorf("%s, want %s", st.Digest(), digest)
	}
	if err := st.Keep(strings.Repeat("a", 64), "0a"); !errors.Is(err, ErrUnfit) {
		t.Errorf("%v", err)
	}
	must(t, st.Drop())
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestAFormMore: what is kept in one form, and made again in the other, has
// both; what it has stays as it is.
func TestAFormMore(t *testing.T) {
	without := func(form string) func(at string) error {
		return func(at string) error { return os.RemoveAll(filepath.Join(at, form)) }
	}
	for name, c := range map[string]struct{ first, second string }{
		"an image, then a directory": {rootDir, erofsFile}, "a directory, then an image": {erofsFile, rootDir}, "an image, then both": {rootDir, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newStore(t)
			leak.Check(t)
			st := stage(t, s, dir, 1, without(c.first))
			_, err := st.Claim(plenty)
			must(t, err, st.Keep(digest, "0a"))
			before := inodeOf(t, filepath.Join(dir, treesDir, digest, erofsFile))
			more := func(string) error { return nil }
			if c.second != "" {
				more = without(c.second)
			}
			st = stage(t, s, dir, 2, more)
			_, err = st.Claim(plenty)
			must(t, err, st.Keep(digest, "0b"))
			whole := stage(t, s, dir, 3)
			size, err := whole.Claim(plenty)
			must(t, err, whole.Drop())
			trees, err := s.Trees("0b")
			if err != nil || len(trees) != 1 || trees[0].Size != size || !trees[0].Dir || !trees[0].EROFS || !trees[0].Owned {
				t.Errorf("%+v, %v; whole it is %+v", trees, err, size)
			}
			if now := inodeOf(t, filepath.Join(dir, treesDir, digest, erofsFile)); before != 0 && now != before {
				t.Error("the form that was there is another")
			}
			root, err := s.Root(digest)
			must(t, err, unix.Close(root))
			image, _, err := s.Open(digest, wire.TreeEROFS)
			must(t, err, unix.Close(image))
			must(t, s.Remove(digest, "0a"), s.Remove(digest, "0b"))
			if got := names(t, dir); len(got) != 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

func inodeOf(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	return st.Ino
}

// TestAReadersMountIsNotWritten: who checks a staging cannot change it, root
// neither.
func TestAReadersMountIsNotWritten(t *testing.T) {
	s, dir := newStore(t)
	st := stage(t, s, dir, 1)
	for reading, want := range map[bool]error{true: unix.EROFS, false: nil} {
		mount, err := st.Mount(reading)
		must(t, err)
		fd, err := unix.Openat(mount, "born", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if !errors.Is(err, want) {
			t.Errorf("reading %v: %v, want %v", reading, err, want)
		}
		unix.Close(fd)
		unix.Close(mount)
	}
	must(t, st.Drop())
}
