package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

func regularNames(entries []entry) []string {
	var names []string
	for _, e := range entries {
		if e.regular {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

func TestScratchList(t *testing.T) {
	leak.Check(t)
	s, root := scratchOf(t, 4<<20, 1000)
	populate(t, root)
	all, cut, err := s.list(".", 1000)
	want := append(oddNames(), "plain", "unreadable", "run", "hard", "d/e/deep", "closed/file")
	slices.Sort(want)
	if err != nil || cut || !slices.Equal(regularNames(all), want) {
		t.Errorf("%v, %v\n%q\nwant\n%q", cut, err, regularNames(all), want)
	}
	others := len(all) - len(want)
	if others != 12 { // links, fifo, devices, socket: named, and not followed
		t.Errorf("%d others in %+v", others, all)
	}
	for dir, want := range map[string][]string{"d": {"d/e/deep"}, "d/e": {"d/e/deep"}, "./d/": {"d/e/deep"}, "closed": {"closed/file"}, "d/../d/e": {"d/e/deep"}} {
		if found, _, err := s.list(dir, 10); err != nil || !slices.Equal(regularNames(found), want) {
			t.Errorf("%s: %+v, %v; want %q", dir, found, err, want)
		}
	}
	for dir, want := range map[string]error{
		"plain": unix.ENOTDIR, "missing": unix.ENOENT, "": unix.ENOENT, "dirlink": unix.ENOTDIR, "loop": unix.ENOTDIR, "loop/d": unix.ELOOP,
		"above": unix.ENOTDIR, "above/tmp": unix.ELOOP, "..": unix.EXDEV, "/": unix.EXDEV, "/etc": unix.EXDEV, "d/../..": unix.EXDEV, "fifo": unix.ENOTDIR, "null": unix.ENOTDIR,
	} {
		if found, _, err := s.list(dir, 10); !errors.Is(err, want) || len(found) > 0 {
			t.Errorf("%q: %+v, %v; want %v", dir, found, err, want)
		}
	}
}

func TestScratchListIsBounded(t *testing.T) {
	leak.Check(t)
	s, root := scratchOf(t, 64<<20, 10_000)
	work := filepath.Join(root, "work")
	long := strings.Repeat("n", 200)
	must(t, os.MkdirAll(filepath.Join(work, "many"), 0o700), os.Mkdir(filepath.Join(work, "empty"), 0o700))
	for i := range 20 {
		must(t, os.WriteFile(filepath.Join(work, "many", itoa(i)), nil, 0o600))
	}
	at := filepath.Join(work, "deep")
	for range maxDepth {
		must(t, os.Mkdir(at, 0o700))
		at = filepath.Join(at, "d")
	}
	must(t, os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "below"), nil, 0o600))
	dir := filepath.Join(work, "long", long, long, long, long, long)
	must(t, os.MkdirAll(dir, 0o700))
	for i := range 4096 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%0200d", i)), nil, 0o600))
	}
	for _, c := range []struct {
		dir       string
		max, want int
		cut       bool
	}{
		{"many", 20, 20, false}, {"many", 21, 20, false}, {"many", 19, 19, true}, {"many", 1, 1, true}, {"many", 0, 0, true},
		{"empty", 0, 0, false}, {"empty", 5, 0, false},
		{"deep", 10, 0, true}, {"deep/d", 10, 1, false}, // one level below the bound is seen
	} {
		found, cut, err := s.list(c.dir, c.max)
		if err != nil || len(found) != c.want || cut != c.cut {
			t.Errorf("%s, at most %d: %d, cut %v, %v; want %d, %v", c.dir, c.max, len(found), cut, err, c.want, c.cut)
		}
	}
	found, cut, err := s.list("long", 1<<30)
	bytes := 0
	for _, e := range found {
		bytes += len(e.name)
	}
	if err != nil || !cut || bytes > maxNames || bytes < maxNames/2 {
		t.Errorf("%d names of %d bytes, cut %v, %v; want at most %d bytes", len(found), bytes, cut, err, maxNames)
	}
}

// TestScratchListTakesOneDescriptor: those of the launcher are every cell's, and a
// program makes directories as deep as it likes.
func TestScratchListTakesOneDescriptor(t *testing.T) {
	s, root := scratchOf(t, 1<<20, 1000)
	at := filepath.Join(root, "work")
	for range maxDepth - 1 {
		at = filepath.Join(at, "d")
	}
	must(t, os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "deep"), nil, 0o600))
	next, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err, unix.Close(next))
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next) + 8, Max: was.Max}))
	found, cut, err := s.list(".", 10)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	if err != nil || cut || len(found) != 1 {
		t.Errorf("%d entries, cut %v, %v", len(found), cut, err)
	}
}

// TestScratchListOfManyEntries is about time: directories and files without
// number are looked at only so far.
func TestScratchListOfManyEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a hundred thousand files")
	}
	leak.Check(t)
	s, root := scratchOf(t, 1<<30, 2*maxEntries)
	work := filepath.Join(root, "work")
	for i := range 100 {
		dir := filepath.Join(work, itoa(i))
		must(t, os.Mkdir(dir, 0o700))
		for k := range maxEntries/100 + 20 {
			must(t, unix.Mkdir(filepath.Join(dir, itoa(k)), 0o700))
		}
	}
	began := time.Now()
	found, cut, err := s.list(".", 1<<30)
	if took := time.Since(began); err != nil || !cut || len(found) != 0 || took > 20*time.Second {
		t.Errorf("%d names, cut %v, %v, after %v", len(found), cut, err, took)
	}
}
