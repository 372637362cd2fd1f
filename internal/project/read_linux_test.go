package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

func names(t *Tree) string {
	var list []string
	for _, f := range t.Files {
		list = append(list, f.Name)
	}
	return strings.Join(list, " ")
}

func TestReadKeepsToTheRules(t *testing.T) {
	leak.Check(t)
	s := newScene(t, map[string]string{
		".gitignore": "*.log\n/build/\nsecret\n", "sub/.gitignore": "!keep.log\n", ".git/info/exclude": "excluded\n", ".git/HEAD": "ref\n", ".git/config": "[core]\n",
		".callcellignore": "*.key\n!needed.log\n", "sub/.callcellignore": "x\n",
		"a.txt": "a", "run*": "#!", "a.log": "l", "needed.log": "l", "sub/keep.log": "l", "sub/drop.log": "l", "build/out": "o", "sub/build/out": "o",
		"secret": "s", "excluded": "e", "id.key": "k", "sub/x": "x", "x": "x", "empty": "",
	})
	tree := s.read(t)
	if got, want := names(tree), ".callcellignore .gitignore a.txt empty needed.log run sub/.callcellignore sub/.gitignore sub/build/out sub/keep.log x"; got != want {
		t.Errorf("taken %s\nwant  %s", got, want)
	}
	if f, _ := tree.find("run"); !f.Executable || string(f.Data) != "#!" || f.Sum != sumOf(f.Data) {
		t.Errorf("%+v", f)
	}
	if call := tree.Call(); len(call.Ignore) != 5 || (&envelope.Call{Argv: []string{"x"}, Tree: call}).Validate() != nil {
		t.Errorf("%+v", call.Ignore)
	}
	withGit, err := Read(context.Background(), s.dir, Options{Git: true})
	if err != nil || !strings.HasPrefix(names(withGit), ".callcellignore .git/HEAD .git/config .git/info/exclude .gitignore") {
		t.Errorf("%v: %s", err, names(withGit))
	}
}

// TestReadOfAHostileTree is the corpus against the reading: nothing outside is
// read or followed, nothing blocks, nothing runs.
func TestReadOfAHostileTree(t *testing.T) {
	leak.Check(t)
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	must(t, os.WriteFile(canary, []byte("CANARY"), 0o644))
	s := newScene(t, map[string]string{"fine": "f", "dir/fine": "f", "Twin": "1", "tWIN": "2", "a\u0308": "1", "\u00e4": "2", "setuid*": "s"})
	must(t,
		os.Symlink(canary, s.at("abs")), os.Symlink("../../../../../../../.."+canary, s.at("up")), os.Symlink(".", s.at("dir/loop")), os.Symlink("b", s.at("a")), os.Symlink("a", s.at("b")),
		os.Symlink(outside, s.at("dir/away")), os.Symlink("/proc/self/environ", s.at("env")), os.Symlink("nowhere", s.at("dangling")), os.Symlink("/dev/zero", s.at("zero")),
		unix.Mkfifo(s.at("fifo"), 0o644), unix.Mkfifo(s.at(".gitignore"), 0o644), os.Symlink(canary, s.at("dir/.gitignore")), os.Symlink(canary, s.at(".callcellignore")),
		os.Chmod(s.at("setuid"), os.ModeSetuid|0o755),
		os.WriteFile(s.at("bad\xff"), nil, 0o644), os.WriteFile(s.at("esc\x1b[2J"), nil, 0o644), os.WriteFile(s.at("bi\u202edi"), nil, 0o644), os.WriteFile(s.at("new\nline"), nil, 0o644), os.WriteFile(s.at("back\\slash"), nil, 0o644),
		os.MkdirAll(s.at(".GIT/hooks"), 0o755), os.WriteFile(s.at(".GIT/hooks/x"), nil, 0o755), os.MkdirAll(s.at("sub/.git"), 0o755), os.WriteFile(s.at("sub/.git/config"), nil, 0o644), os.MkdirAll(s.at(".callcell"), 0o755), os.WriteFile(s.at(".callcell/x"), nil, 0o644),
	)
	l, err := net.Listen("unix", s.at("socket"))
	must(t, err)
	defer l.Close()
	want := map[string]int{SkipLink: 11, SkipFifo: 2, SkipSocket: 1, SkipName: 5, SkipGit: 3}
	if unix.Mknod(s.at("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil { // as root
		want[SkipDevice] = 1
	}
	tree := s.read(t)
	if got := names(tree); got != "Twin a\u0308 dir/fine fine setuid tWIN \u00e4" {
		t.Errorf("taken: %q", got)
	}
	if !maps.Equal(tree.Skips.Counts, want) {
		t.Errorf("skipped %v, want %v", tree.Skips.Counts, want)
	}
	if !slices.Equal(tree.Twins, []string{"Twin", "a\u0308", "tWIN", "\u00e4"}) {
		t.Errorf("twins %q", tree.Twins)
	}
	for _, f := range tree.Files {
		if strings.Contains(string(f.Data), "CANARY") {
			t.Errorf("%s holds what is outside", f.Name)
		}
	}
	for _, ig := range tree.Ignore {
		if strings.Contains(ig.Rules, "CANARY") {
			t.Error("the rules are from outside")
		}
	}
}

func TestReadCaps(t *testing.T) {
	leak.Check(t)
	s := newScene(t, map[string]string{"a": "aaaa", "b": "bbbb", "d/e/f": "ffff", "ignored/1": "", "ignored/2": "", ".gitignore": "ignored/\n"})
	must(t, os.Truncate(s.at("b"), 0))
	sparse := filepath.Join(s.dir, "sparse")
	must(t, os.WriteFile(sparse, nil, 0o644), os.Truncate(sparse, 1<<40))
	full := Limits{Files: 10, Bytes: 1 << 41, File: 1 << 41, Depth: 4, Entries: 20}
	for name, c := range map[string]struct {
		change func(*Limits)
		what   string
	}{
		"files":   {func(l *Limits) { l.Files = 4 }, "more than 4 files"},
		"bytes":   {func(l *Limits) { l.Bytes = 1 << 39 }, "more than 512Gi"},
		"file":    {func(l *Limits) { l.File = 1 << 39 }, "a file of more than 512Gi"},
		"depth":   {func(l *Limits) { l.Depth = 2 }, "deep"},
		"entries": {func(l *Limits) { l.Entries = 6 }, "more than 6 names"},
	} {
		l := full
		c.change(&l)
		_, err := Read(context.Background(), s.dir, Options{Limits: l})
		var over *CapError
		if !errors.As(err, &over) || !strings.Contains(over.What, c.what) || over.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Remove(sparse))
	if tree, err := Read(context.Background(), s.dir, Options{Limits: full}); err != nil || len(tree.Files) != 4 || tree.Ignored != 1 {
		t.Errorf("%v", err)
	}
	deep := s.at(strings.TrimSuffix(strings.Repeat("d/", 300), "/"))
	must(t, os.MkdirAll(deep, 0o755))
	if _, err := Read(context.Background(), s.dir, Options{}); err == nil {
		t.Error("300 directories within each other")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, t.TempDir(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's", err)
	}
}

func TestUnreadableIsSkipped(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	s := newScene(t, map[string]string{"a": "a", "no": "n", "dir/x": "x"})
	must(t, os.Chmod(s.at("no"), 0), os.Chmod(s.at("dir"), 0))
	defer os.Chmod(s.at("dir"), 0o755)
	if tree := s.read(t); names(tree) != "a" || tree.Skips.Counts[SkipUnreadable] != 2 {
		t.Errorf("%s, %v", names(tree), tree.Skips.Counts)
	}
}

// TestCacheNeverLies: whatever is done to a file, what a Read with a cache
// gives is what a Read without one gives.
func TestCacheNeverLies(t *testing.T) {
	leak.Check(t)
	s := newScene(t, map[string]string{"a": "aaaa", "b": "bbbb", "c*": "cccc", "d": "dddd", "e": "eeee"})
	store := filepath.Join(t.TempDir(), "trees")
	young := 1000 * settled // however slow this host is
	read := func() *Tree {
		t.Helper()
		c, err := CacheOf(store, s.dir)
		must(t, err)
		c.young = young
		tree, err := Read(context.Background(), s.dir, Options{Cache: c})
		must(t, err, c.Save())
		plain, err := Read(context.Background(), s.dir, Options{})
		must(t, err)
		for i, f := range plain.Files {
			if g := tree.Files[i]; f.Name != g.Name || string(f.Data) != string(g.Data) || f.Sum != g.Sum || f.Executable != g.Executable {
				t.Errorf("with the cache %+v, without %+v", g, f)
			}
		}
		return tree
	}
	if tree := read(); tree.Cached != 0 {
		t.Errorf("%d known at first", tree.Cached)
	}
	if tree := read(); tree.Cached != 0 {
		t.Errorf("%d known that are too young to be told apart by their times", tree.Cached)
	}
	young = -time.Hour
	read()
	if tree := read(); tree.Cached != 5 {
		t.Errorf("%d known, want 5", tree.Cached)
	}
	afterTheTimesOf(t, s.at("e"))
	before := stat(t, s.at("a"))
	must(t, os.WriteFile(s.at("a"), []byte("AAAA"), 0o644)) // of the same size,
	must(t, os.Chtimes(s.at("a"), before, before))          // and with its time set back
	must(t, os.Rename(s.at("d"), s.at("tmp")), os.Rename(s.at("e"), s.at("d")), os.Rename(s.at("tmp"), s.at("e")), os.Chmod(s.at("c"), 0o644))
	if tree := read(); tree.Cached != 1 {
		t.Errorf("%d known, want b alone: a rename changes the change time", tree.Cached)
	}
}

func TestBrokenCachesAreEmpty(t *testing.T) {
	s := newScene(t, map[string]string{"a": "aaaa"})
	store := filepath.Join(t.TempDir(), "trees")
	c, err := CacheOf(store, s.dir)
	must(t, err)
	c.young = -time.Hour
	_, err = Read(context.Background(), s.dir, Options{Cache: c})
	must(t, err, c.Save())
	whole, err := os.ReadFile(c.path)
	must(t, err)
	for i := range whole {
		broken := slices.Clone(whole)
		broken[i] ^= 1
		must(t, os.WriteFile(c.path, broken, 0o600))
		tree, err := Read(context.Background(), s.dir, Options{Cache: c})
		if err != nil || tree.Cached != 0 || string(tree.Files[0].Data) != "aaaa" {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	must(t, os.WriteFile(c.path, whole, 0o600))
	if tree, err := Read(context.Background(), s.dir, Options{Cache: c}); err != nil || tree.Cached != 1 {
		t.Errorf("whole: %v", err)
	}
}

func TestCachesArePruned(t *testing.T) {
	store := filepath.Join(t.TempDir(), "trees")
	for i := range MaxCaches + 3 {
		s := newScene(t, map[string]string{"a": fmt.Sprint(i)})
		c, err := CacheOf(store, s.dir)
		must(t, err)
		c.young = -time.Hour
		_, err = Read(context.Background(), s.dir, Options{Cache: c})
		must(t, err, c.Save())
	}
	if entries, err := os.ReadDir(store); err != nil || len(entries) != MaxCaches {
		t.Errorf("%d, %v", len(entries), err)
	}
}

// FuzzCache: whatever is in the file of a cache, decoding it takes no more than
// its length, and what is known lies within it.
func FuzzCache(f *testing.F) {
	c := &Cache{next: []pending{{fileID{1, 2}, cached{Size: 3}, []byte("abc")}}}
	f.Add(c.encode(200))
	f.Add([]byte(cacheMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, whole := range []bool{false, true} {
			if whole && len(data) >= 4 { // as if it were ours
				data = append(data[:len(data)-4:len(data)-4], 0, 0, 0, 0)
				sum := castagnoli(data[:len(data)-4])
				data[len(data)-4], data[len(data)-3], data[len(data)-2], data[len(data)-1] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			}
			c := &Cache{}
			c.decode(data)
			for _, known := range c.known {
				if int64(len(c.bytesOf(known))) != known.Size {
					t.Fatal("a file that is not in it")
				}
			}
		}
	})
}

// TestReadOfChangingFiles: a file that has not the size that it says is an error
// that says so, and never half a file or an empty one.
func TestReadOfChangingFiles(t *testing.T) {
	s := newScene(t, map[string]string{"a": "aaaa", "empty": ""})
	for name, sizes := range map[string]map[int64]bool{"a": {4: true, 3: false, 5: false, 0: false}, "empty": {0: true, 1: false}} {
		for size, whole := range sizes {
			f, err := os.Open(s.at(name))
			must(t, err)
			data, err := readSized(int(f.Fd()), size)
			must(t, f.Close())
			if whole != (err == nil) || err != nil && (!errors.Is(err, ErrChanging) || data != nil) {
				t.Errorf("%s as one of %d bytes: %q, %v", name, size, data, err)
			}
		}
	}
	proc, err := os.Open("/proc/self/status") // says that it has no bytes
	must(t, err)
	defer proc.Close()
	if data, err := readSized(int(proc.Fd()), 0); !errors.Is(err, ErrChanging) {
		t.Errorf("%q, %v", data, err)
	}
}
