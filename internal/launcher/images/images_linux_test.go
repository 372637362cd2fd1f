package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

const uid = 1_234_567 // of the unpacker

// digest is that of the listing that stage makes.
var digest = func() string { sum := sha256.Sum256([]byte("{}")); return hex.EncodeToString(sum[:]) }()

func id(n int) string { return fmt.Sprintf("01923f6c-0000-7000-8000-%012x", n) }

// newStore returns a store of this test's alone, and its directory.
func newStore(t testing.TB) (*Store, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the store is root's")
	}
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(real, "callcell", "images")
	return New(dir, func() bool { return false }), dir
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// stage makes a staging in which an unpacker has left the usual, and more.
func stage(t testing.TB, s *Store, dir string, n int, more ...func(at string) error) *Staging {
	t.Helper()
	st, err := s.Stage(id(n), uid)
	must(t, err)
	at := filepath.Join(dir, stagingDir, id(n))
	must(t, os.MkdirAll(at+"/root/d", 0o755), os.WriteFile(at+"/root/d/f", []byte("text"), 0o644), os.Link(at+"/root/d/f", at+"/root/hard"),
		os.Symlink("/etc/shadow", at+"/root/l"), os.WriteFile(at+"/tree.json", []byte("{}"), 0o644), os.WriteFile(at+"/root.erofs", []byte("image"), 0o644))
	for _, f := range more {
		must(t, f(at))
	}
	must(t, filepath.WalkDir(at, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Lchown(path, uid, uid)) }))
	return st
}

var plenty = Size{Bytes: 1 << 30, Entries: 1000}

// names are what is in the store, in its directories.
func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	for _, below := range []string{stagingDir, treesDir} {
		entries, err := os.ReadDir(filepath.Join(dir, below))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, below+"/"+e.Name())
		}
	}
	return all
}

// TestATreesWay from its staging into the store and out of it; no descriptor
// stays open.
func TestATreesWay(t *testing.T) {
	s, dir := newStore(t)
	leak.Check(t)
	if trees, err := s.Trees("0a"); err != nil || len(trees) != 0 || len(names(t, dir)) != 0 {
		t.Errorf("%v, %v", trees, err)
	}
	st := stage(t, s, dir, 1)
	if err := st.Keep(digest, "0a"); !errors.Is(err, ErrUnfit) {
		t.Errorf("kept before it was claimed: %v", err)
	}
	size, err := st.Claim(plenty)
	must(t, err)
	if size.Entries != 5 || size.Bytes < 3*4096 {
		t.Errorf("%+v", size)
	}
	must(t, st.Keep(digest, "0a"))
	if got := names(t, dir); !slices.Equal(got, []string{"trees/" + digest}) {
		t.Errorf("%v", got)
	}
	trees, err := s.Trees("0a")
	if err != nil || len(trees) != 1 || trees[0].Size != size || !trees[0].Dir || !trees[0].EROFS || trees[0].Digest != digest || trees[0].Kept == 0 {
		t.Errorf("%+v, %v", trees, err)
	}
	for path, mode := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(dir): 0o755, dir + "/trees": 0o700, dir + "/trees/" + digest: 0o755} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	fd, n, err := s.Open(digest, wire.TreeEROFS)
	must(t, err, unix.Close(fd))
	if n != 5 {
		t.Errorf("%d bytes", n)
	}
	must(t, s.Remove(digest, "0a"))
	if err := s.Remove(digest, "0a"); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	if _, err := s.Root(digest); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestClaimMakesEverythingRoots and follows nothing.
func TestClaimMakesEverythingRoots(t *testing.T) {
	s, dir := newStore(t)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, nil, 0o644), os.Chown(outside, uid, uid))
	st := stage(t, s, dir, 1, func(at string) error { return os.Symlink(outside, at+"/root/out") })
	_, err := st.Claim(plenty)
	must(t, err)
	must(t, filepath.WalkDir(filepath.Join(dir, stagingDir), func(path string, _ fs.DirEntry, err error) error {
		var got unix.Stat_t
		must(t, err, unix.Lstat(path, &got))
		if got.Uid != 0 || got.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", path, got.Uid, got.Gid)
		}
		return nil
	}))
	var got unix.Stat_t
	must(t, unix.Stat(outside, &got))
	if got.Uid != uid {
		t.Error("a link was followed")
	}
	must(t, st.Drop())
}

// TestClaimRefuses what no unpacker makes, and what is more than asked for.
func TestClaimRefuses(t *testing.T) {
	s, dir := newStore(t)
	deep := func(at string) error { return os.MkdirAll(at+"/root"+strings.Repeat("/d", MaxDepth+1), 0o755) }
	for name, tt := range map[string]struct {
		more func(at string) error
		most Size
	}{
		"a fifo":              {func(at string) error { return unix.Mkfifo(at+"/root/p", 0o644) }, plenty},
		"a device":            {func(at string) error { return unix.Mknod(at+"/root/n", unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) }, plenty},
		"a socket":            {func(at string) error { return unix.Mknod(at+"/root/s", unix.S_IFSOCK|0o644, 0) }, plenty},
		"a set-uid bit":       {func(at string) error { return unix.Chmod(at+"/root/d/f", 0o4755) }, plenty},
		"a set-gid directory": {func(at string) error { return unix.Chmod(at+"/root/d", 0o2755) }, plenty},
		"a sticky bit":        {func(at string) error { return unix.Chmod(at+"/root/d", 0o1777) }, plenty},
		"another name":        {func(at string) error { return os.Mkdir(at+"/x", 0o755) }, plenty},
		"many other names": {func(at string) error {
			for i := range 100 {
				must(t, os.Mkdir(fmt.Sprintf("%s/x%d", at, i), 0o755))
			}
			return nil
		}, plenty},
		"no listing": {func(at string) error { return os.Remove(at + "/tree.json") }, plenty},
		"a listing linked": {func(at string) error {
			return errors.Join(os.Remove(at+"/tree.json"), os.Symlink("/etc/shadow", at+"/tree.json"))
		}, plenty},
		"too deep": {deep, plenty},
		"too many": {func(string) error { return nil }, Size{Bytes: 1 << 30, Entries: 4}},
		"too much": {func(at string) error { return os.WriteFile(at+"/root/big", make([]byte, 1<<20), 0o644) }, Size{Bytes: 1 << 20, Entries: 1000}},
	} {
		st := stage(t, s, dir, 1)
		must(t, tt.more(filepath.Join(dir, stagingDir, id(1))))
		if size, err := st.Claim(tt.most); !errors.Is(err, ErrUnfit) || size != (Size{}) {
			t.Errorf("%s: %+v, %v", name, size, err)
		}
		if err := st.Keep(digest, "0a"); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: it is kept: %v", name, err)
		}
		must(t, st.Drop())
	}
	sparse := stage(t, s, dir, 1, func(at string) error { return os.Truncate(at+"/root/d/f", 1<<40) })
	if size, err := sparse.Claim(plenty); err != nil || size.Bytes > 1<<20 {
		t.Errorf("what is not on the disk counts: %+v, %v", size, err)
	}
	must(t, sparse.Drop())
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestOver: what is being written is seen before it is done.
func TestOver(t *testing.T) {
	s, dir := newStore(t)
	leak.Check(t)
	st := stage(t, s, dir, 1)
	for name, tt := range map[string]struct {
		most Size
		over bool
	}{
		"within": {plenty, false}, "entries": {Size{plenty.Bytes, 6}, true}, "bytes": {Size{8 << 10, plenty.Entries}, true}, "nothing": {Size{}, true},
	} {
		if got := st.Over(tt.most); got != tt.over {
			t.Errorf("%s: over %v, want %v", name, got, tt.over)
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, stagingDir, id(1), "root"+strings.Repeat("/d", MaxDepth+1)), 0o755))
	if !st.Over(plenty) {
		t.Error("too deep is not over")
	}
	must(t, st.Drop())
	if st.Over(Size{}) {
		t.Error("a staging that is gone is over")
	}
}

// TestLocks: a staging is one maker's, a tree in use is not removed, by whatever
// store of the same directory.
func TestLocks(t *testing.T) {
	a, dir := newStore(t)
	b := New(dir, func() bool { return false })
	st := stage(t, a, dir, 1)
	if _, err := b.Stage(id(1), uid); !errors.Is(err, ErrTaken) {
		t.Errorf("%v", err)
	}
	must(t, b.Sweep())
	_, err := st.Claim(plenty)
	must(t, err, st.Keep(digest, "0a"))
	first, err := a.Use(digest)
	must(t, err)
	second, err := b.Use(digest)
	must(t, err)
	child, err := unix.Dup(second) // as one of vfork has it for a moment
	must(t, err)
	defer unix.Close(child)
	for _, lock := range []int{first, second} {
		if err := b.Remove(digest, "0a"); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		Unlock(lock)
	}
	must(t, b.Remove(digest, "0a"))
	again := stage(t, a, dir, 1) // the id is free
	must(t, again.Drop())
}

// TestLocksOfRemovers: who only looks whether he can remove a tree, and finds that
// it has other owners, is in nobody's way.
func TestLocksOfRemovers(t *testing.T) {
	a, dir := newStore(t)
	b := New(dir, func() bool { return false })
	for i, owner := range []string{"0a", "0b", "0c"} {
		st := stage(t, a, dir, i)
		_, err := st.Claim(plenty)
		must(t, err, st.Keep(digest, owner))
	}
	looks, err := a.lockTree(digest, unix.F_WRLCK)
	must(t, err)
	used := make(chan error)
	go func() {
		lock, err := b.Use(digest)
		if err == nil {
			Unlock(lock)
		}
		used <- errors.Join(err, b.Remove(digest, "0b"))
	}()
	select {
	case err := <-used:
		t.Errorf("did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	Unlock(looks)
	must(t, <-used, a.Remove(digest, "0a"), b.Remove(digest, "0c"))
}

// TestSweep removes what the dead have left, and that alone.
func TestSweep(t *testing.T) {
	s, dir := newStore(t)
	must(t, s.Sweep()) // there is no store
	dead, alive := stage(t, s, dir, 1), stage(t, s, dir, 2)
	unix.Close(dead.lock)
	must(t, os.Mkdir(filepath.Join(dir, stagingDir, "not ours"), 0o700), s.Sweep())
	if got := names(t, dir); !slices.Equal(got, []string{"staging/" + id(2), "staging/not ours"}) {
		t.Errorf("%v", got)
	}
	must(t, alive.Drop())
}

// TestRemovalIsDeepAndEnds: of directories beyond every path, of a directory with
// many entries, and early where the launcher is ending; the rest is swept.
func TestRemovalIsDeepAndEnds(t *testing.T) {
	s, dir := newStore(t)
	st := stage(t, s, dir, 1)
	at := filepath.Join(dir, stagingDir, id(1), "root/d")
	for i := range 1500 {
		must(t, os.WriteFile(fmt.Sprintf("%s/%d", at, i), nil, 0o600))
	}
	must(t, deepen(at))
	ending := New(dir, func() bool { return true })
	if err := ending.remove(opened(t, filepath.Join(dir, stagingDir)), id(1)); !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
	must(t, st.Drop())
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// deepen makes directories one in the other, deeper than a path can say.
func deepen(dir string) error {
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	for i := 0; i < 40 && err == nil; i++ {
		err = unix.Mkdirat(at, strings.Repeat("d", 255), 0o700)
		next := -1
		if err == nil {
			next, err = unix.Openat(at, strings.Repeat("d", 255), unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	return err
}

func opened(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestStoreIsRootsAlone: a directory that others could have changed is not used,
// nor one that a link leads to.
func TestStoreIsRootsAlone(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"its mode":      func(dir string) error { return os.Chmod(dir, 0o750) },
		"its owner":     func(dir string) error { return os.Chown(dir, uid, uid) },
		"the one above": func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o775) },
		"trees":         func(dir string) error { return os.Mkdir(dir+"/trees", 0o755) },
		"a link above": func(dir string) error {
			up := filepath.Dir(dir)
			return errors.Join(os.Rename(up, up+"2"), os.Symlink(up+"2", up))
		},
		"trees a link":   func(dir string) error { return os.Symlink(t.TempDir(), dir+"/trees") },
		"locks a device": func(dir string) error { return os.Symlink("/dev/null", dir+"/locks") },
	} {
		s, dir := newStore(t)
		must(t, os.MkdirAll(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o755), spoil(dir))
		st := error(nil)
		if name == "trees" || name == "trees a link" {
			_, st = s.Trees("0a")
		} else {
			_, st = s.Stage(id(1), uid)
		}
		if !errors.Is(st, ErrUnsafe) && !errors.Is(st, unix.ELOOP) {
			t.Errorf("%s: %v", name, st)
		}
	}
}

// TestForeignTrees are not listed, and one without our note is a fault.
func TestForeignTrees(t *testing.T) {
	s, dir := newStore(t)
	must(t, os.MkdirAll(dir+"/trees/"+digest, 0o700), os.Mkdir(dir+"/trees/x", 0o700), os.Chmod(filepath.Dir(dir), 0o755))
	if trees, err := s.Trees("0a"); err != nil || len(trees) != 0 {
		t.Errorf("%v, %v", trees, err)
	}
	must(t, os.WriteFile(dir+"/trees/"+digest+"/kept", []byte("x"), 0o600))
	if trees, err := s.Trees("0a"); err == nil {
		t.Errorf("%v", trees)
	}
}

// TestOwners: a tree that two sets of records name goes with the second, and
// never by the hand of one that does not.
func TestOwners(t *testing.T) {
	s, dir := newStore(t)
	leak.Check(t)
	for n, owner := range []string{"0a", "0b"} {
		st := stage(t, s, dir, n+1)
		_, err := st.Claim(plenty)
		must(t, err, st.Keep(digest, owner))
	}
	owned := func(owner string) bool {
		trees, err := s.Trees(owner)
		if err != nil || len(trees) != 1 {
			t.Fatalf("%v, %v", trees, err)
		}
		return trees[0].Owned
	}
	if !owned("0a") || !owned("0b") || owned("0c") || owned("") {
		t.Error("the owners are others")
	}
	if err := s.Remove(digest, "0c"); !errors.Is(err, ErrAbsent) {
		t.Errorf("a stranger: %v", err)
	}
	must(t, s.Remove(digest, "0a"))
	if owned("0a") || !owned("0b") {
		t.Error("the first has let it go")
	}
	must(t, s.Remove(digest, "0b"))
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
