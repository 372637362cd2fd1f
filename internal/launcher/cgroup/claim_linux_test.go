package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

// claimed claims a parent, which must be possible.
func claimed(t *testing.T, tree *Tree, owner string) int {
	t.Helper()
	fd, err := tree.Claim(owner)
	if err != nil {
		t.Fatalf("claim for %s: %v", owner, err)
	}
	return fd
}

// TestClaim: a parent is one owner's, for as long as there is a claim of his.
func TestClaim(t *testing.T) {
	leak.Check(t)
	tree := realTree(t)
	one, same := claimed(t, tree, "one"), claimed(t, tree, "one")
	refused := func(owner string) {
		t.Helper()
		if fd, err := tree.Claim(owner); !errors.Is(err, ErrClaimed) {
			t.Errorf("claimed for %s: %d, %v", owner, fd, err)
		}
	}
	refused("other")
	check(t, unix.Close(one))
	refused("other")
	more, err := unix.FcntlInt(uintptr(same), unix.F_DUPFD_CLOEXEC, 0) // as another process has it
	check(t, err)
	check(t, unix.Close(same))
	refused("other")
	check(t, unix.Close(more))
	other := claimed(t, tree, "other") // those that were refused have left nothing
	refused("one")
	check(t, unix.Close(other))
	for _, owner := range []string{"", "one", "another"} {
		check(t, unix.Close(claimed(t, tree, owner)))
	}
}

// TestClaimThatOthersCouldMake: where anybody else can open the directory,
// anybody could keep us from the parent.
func TestClaimThatOthersCouldMake(t *testing.T) {
	leak.Check(t)
	tree := realTree(t)
	check(t, unix.Close(claimed(t, tree, "one")))
	dir := claimPath(t, tree)
	for name, spoil := range map[string]func() error{
		"readable":  func() error { return os.Chmod(dir, 0o704) },
		"a group's": func() error { return os.Chmod(dir, 0o710) },
		"another's": func() error { return os.Chown(dir, 65534, 0) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if fd, err := tree.Claim("one"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %d, %v", name, fd, err)
		}
		check(t, os.Chown(dir, 0, 0))
		check(t, os.Chmod(dir, 0o700))
	}
	check(t, unix.Close(claimed(t, tree, "one")))
}

// claimPath is the directory of a parent's claims, which is in one hierarchy.
func claimPath(t *testing.T, tree *Tree) string {
	t.Helper()
	var all []string
	for _, parent := range parentPaths(t, tree) {
		if path := filepath.Join(parent, ClaimName); exists(path) {
			all = append(all, path)
		}
	}
	if len(all) != 1 {
		t.Fatalf("claims in %q", all)
	}
	return all[0]
}

// TestClaimThroughAnotherMount: who reaches the parent by a mount of his own, in a
// namespace of his own, sees the claim.
func TestClaimThroughAnotherMount(t *testing.T) {
	leak.Check(t)
	tree := realTree(t)
	fd := claimed(t, tree, "one")
	path, at := claimPath(t, tree), t.TempDir()
	kind, options := "cgroup2", ""
	if tree.Version() == 1 {
		kind, options = "cgroup", filepath.Base(filepath.Dir(filepath.Dir(path)))
	}
	answers := make(chan error)
	closed := make(chan struct{})
	go func() {
		defer close(answers)
		runtime.LockOSThread() // for good: the thread ends with its namespace
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("none", at, kind, 0, options))
		if err != nil {
			answers <- err
			return
		}
		dir := filepath.Join(at, filepath.Base(filepath.Dir(path)), ClaimName)
		for range 2 {
			fd, err := open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
			if err == nil {
				err = errors.Join(claim(fd, byteOf("other")), unix.Close(fd))
			}
			answers <- err
			<-closed
		}
	}()
	if err := <-answers; !errors.Is(err, ErrClaimed) {
		t.Errorf("%v, want ErrClaimed", err)
	}
	check(t, unix.Close(fd))
	close(closed)
	for err := range answers {
		check(t, err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestClaimIsNoGroup: it cannot be made for a cell, and no sweep removes it.
func TestClaimIsNoGroup(t *testing.T) {
	leak.Check(t)
	tree := realTree(t)
	fd := claimed(t, tree, "one")
	defer unix.Close(fd)
	if _, err := tree.Make(ClaimName, someLimits); !errors.Is(err, ErrName) {
		t.Errorf("made as a group: %v", err)
	}
	if swept, err := tree.Sweep(context.Background(), func(string) bool { return false }); err != nil || len(swept) > 0 {
		t.Errorf("swept %q, %v", swept, err)
	}
	if fd, err := tree.Claim("other"); !errors.Is(err, ErrClaimed) {
		t.Errorf("claimed after a sweep: %d, %v", fd, err)
	}
}
