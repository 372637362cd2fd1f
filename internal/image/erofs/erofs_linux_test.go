package erofs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// same fails the test at the first line that differs.
func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("line %d:\ngot  %.300s\nwant %.300s", i, got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// TestGVisorReads holds that gVisor's reader finds the tree that was written.
func TestGVisorReads(t *testing.T) {
	reader := filepath.Join(t.TempDir(), "readimage")
	build := exec.Command("go", "build", "-o", reader, "./testdata/readimage")
	build.Dir = filepath.Join(helpers.Root(), "runsc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the reader: %v\n%s", err, out)
	}
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(reader, s.image(t)).Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr(err))
			}
			same(t, strings.Split(strings.TrimSpace(string(out)), "\n"), s.lines())
		})
	}
}

func stderr(err error) []byte {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return e.Stderr
	}
	return nil
}

// TestToolsRead holds that fsck.erofs finds no fault, and the tree that was
// written.
func TestToolsRead(t *testing.T) {
	if _, err := exec.LookPath("fsck.erofs"); err != nil {
		t.Skip("needs fsck.erofs (package erofs-utils)")
	}
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			image, to := s.image(t), filepath.Join(t.TempDir(), "out")
			if out, err := exec.Command("fsck.erofs", "--extract="+to, "--preserve-perms", "--no-preserve-owner", image).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			same(t, found(t, to), withoutSizesOfDirs(s.lines()))
		})
	}
}

// found lists a directory as a sample's lines are.
func found(t *testing.T, root string) (all []string) {
	t.Helper()
	var walk func(path string) error
	walk = func(path string) error {
		var st unix.Stat_t
		if err := unix.Lstat(root+path, &st); err != nil {
			return err
		}
		what := ""
		var err error
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			what, err = os.Readlink(root + path)
		case unix.S_IFREG:
			var data []byte
			data, err = os.ReadFile(root + path)
			what = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		if err != nil {
			return err
		}
		all = append(all, fmt.Sprintf("%q %o %q", path, st.Mode, what))
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		entries, err := os.ReadDir(root + path)
		if err != nil {
			return err
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := walk(path + "/" + e.Name()); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(""); err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutSizesOfDirs are lines without what a copy on a disk has of its own.
func withoutSizesOfDirs(lines []string) (all []string) {
	for _, line := range lines {
		var path, what string
		var mode, size, links, sec, nsec int64
		if _, err := fmt.Sscanf(line, "%q %o %d %d.%d %d %q", &path, &mode, &size, &sec, &nsec, &links, &what); err != nil {
			panic(err)
		}
		all = append(all, fmt.Sprintf("%q %o %q", path, mode, what))
	}
	return all
}

// TestDeterministic holds that the same tree gives the same bytes.
func TestDeterministic(t *testing.T) {
	first, second := samples(), samples()
	for _, name := range slices.Sorted(maps.Keys(first)) {
		a, err := os.ReadFile(first[name].image(t))
		b, err2 := os.ReadFile(second[name].image(t))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) || len(a)%blockSize != 0 {
			t.Errorf("%s: %d and %d bytes, same is %v", name, len(a), len(b), bytes.Equal(a, b))
		}
	}
}

// full is a disk that takes no more after some bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, unix.ENOSPC
	}
	return len(p), nil
}

func (f *full) WriteAt(p []byte, _ int64) (int, error) { return f.Write(p) }

// TestFullDisk holds that no write that failed is forgotten.
func TestFullDisk(t *testing.T) {
	s := samples()["sizes of files"]
	for _, room := range []int{0, 1 << 20, 1<<20 + 20<<10} {
		if err := s.write(&full{room}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("with room for %d: %v", room, err)
		}
		for _, n := range s.root.Entries {
			n.Mark = 0
		}
		s.root.Mark = 0
	}
	w := NewWriter(&full{1 << 40})
	w.off = 1<<(32+blockBits) - blockSize
	if _, err := w.Write([]byte("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than 2^32 blocks: %v", err)
	}
	if err := w.Finish(fstree.NewDir()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than 2^32 blocks, at the end: %v", err)
	}
}
