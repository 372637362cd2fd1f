package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

// playLease leases uids until there is none, says which, and holds them until
// its standard input ends.
func playLease() int {
	first, firstErr := strconv.Atoi(os.Args[2])
	size, sizeErr := strconv.Atoi(os.Args[3])
	u, err := newUIDs(os.Args[1], first, size)
	if err := errors.Join(firstErr, sizeErr, err); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var held []*lease
	for {
		l, err := u.take()
		if errors.Is(err, errNoUID) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		held = append(held, l)
		fmt.Println(l.id)
	}
	fmt.Println("all")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(held)
	return 0
}

func takeUID(t *testing.T, u *uids) *lease {
	t.Helper()
	l, err := u.take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func openUIDs(t *testing.T, dir string, first, size int) *uids {
	t.Helper()
	u, err := newUIDs(dir, first, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(u.file) })
	return u
}

func TestUIDsOfOneProcess(t *testing.T) {
	leak.Check(t)
	const first, size = 70000, 16
	u := openUIDs(t, filepath.Join(t.TempDir(), "made", "for", "it"), first, size)
	var ids []int
	held := map[int]*lease{}
	for range size {
		l := takeUID(t, u)
		ids, held[l.id] = append(ids, l.id), l
	}
	slices.Sort(ids)
	for i, id := range ids {
		if id != first+i {
			t.Fatalf("leased %v, want each of the range once", ids)
		}
	}
	if _, err := u.take(); !errors.Is(err, errNoUID) {
		t.Errorf("all are taken: %v, want errNoUID", err)
	}
	held[first+5].close()
	held[first+5].close()
	if l := takeUID(t, u); l.id != first+5 {
		t.Errorf("leased %d, but only %d is free", l.id, first+5)
	}
}

// TestUIDsAreNotUsedAgainAtOnce: what a dead cell may have left under its uid
// meets the next cell as late as can be.
func TestUIDsAreNotUsedAgainAtOnce(t *testing.T) {
	u := openUIDs(t, t.TempDir(), 70000, 8)
	seen := map[int]bool{}
	for range 8 {
		l := takeUID(t, u)
		l.close()
		if seen[l.id] {
			t.Fatalf("%d again, after %d others", l.id, len(seen)-1)
		}
		seen[l.id] = true
	}
}

func TestUIDsOfManyProcesses(t *testing.T) {
	const processes, first, size = 4, 70000, 64
	dir := t.TempDir()
	var all []<-chan string
	for range processes {
		cmd := exec.Command("/proc/self/exe", dir, strconv.Itoa(first), strconv.Itoa(size))
		cmd.Env = append(os.Environ(), roleEnv+"=lease")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, lines(out))
	}
	owner := map[string]int{}
	for i, said := range all {
		for line, _ := await(t, "a lease", said); line != "all"; line, _ = await(t, "a lease", said) {
			if other, twice := owner[line]; twice || line == "" {
				t.Fatalf("%q is leased by %d and %d", line, other, i)
			}
			owner[line] = i
		}
	}
	if len(owner) != size {
		t.Errorf("%d uids are leased, want all %d", len(owner), size)
	}
}

// TestLeaseIsHeldByWhoeverHasIt: the reaper gets the launcher's descriptor.
func TestLeaseIsHeldByWhoeverHasIt(t *testing.T) {
	leak.Check(t)
	u := openUIDs(t, t.TempDir(), 70000, 1)
	l := takeUID(t, u)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	remote := os.NewFile(uintptr(pair[1]), "remote")
	defer unix.Close(pair[0])
	holder := exec.Command("cat") // holds the message, and with it the descriptor, unread
	holder.ExtraFiles = []*os.File{remote}
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	remote.Close()
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(l.fd), nil, 0); err != nil {
		t.Fatal(err)
	}
	l.close()
	if _, err := u.take(); !errors.Is(err, errNoUID) {
		t.Errorf("another process holds it: %v, want errNoUID", err)
	}
	in.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease ends with its last holder", func() bool {
		again, err := u.take()
		if err == nil {
			again.close()
		}
		return err == nil
	})
}

// TestLeaseEnds: a uid is free as soon as its cell is gone, although the reaper
// has not let go of the descriptor yet.
func TestLeaseEnds(t *testing.T) {
	leak.Check(t)
	u := openUIDs(t, t.TempDir(), 70000, 1)
	l := takeUID(t, u)
	others, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(others)
	l.end()
	l.end()
	takeUID(t, u)
}

// TestUIDsOfRangesThatOverlap: a uid is leased once, whatever the range is in
// which it was found.
func TestUIDsOfRangesThatOverlap(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	one, other := openUIDs(t, dir, 70000, 8), openUIDs(t, dir, 70004, 8)
	held := map[int]bool{}
	for _, u := range []*uids{one, other, one, other} {
		for range 4 {
			l, err := u.take()
			if errors.Is(err, errNoUID) {
				break
			}
			if err != nil || held[l.id] {
				t.Fatalf("leased %+v after %v, %v", l, held, err)
			}
			t.Cleanup(l.close)
			held[l.id] = true
		}
	}
	if len(held) != 12 {
		t.Errorf("leased %v, want all 12", held)
	}
}

func TestUIDsRefuseAnUnsafePlace(t *testing.T) {
	needRoot(t)
	for name, spoil := range map[string]func(dir, file string) error{
		"group can write":  func(dir, _ string) error { return os.Chmod(dir, 0o770) },
		"others can write": func(dir, _ string) error { return os.Chmod(dir, 0o707) },
		"another's":        func(dir, _ string) error { return os.Chown(dir, 65534, 65534) },
		"a link": func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.Symlink(t.TempDir(), dir))
		},
		"a file": func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
		"leases that others can read": func(_, file string) error { return os.Chmod(file, 0o604) },
		"leases of another's":         func(_, file string) error { return os.Chown(file, 65534, 0) },
		"leases that are a fifo":      func(_, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"leases that are a directory": func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			dir := filepath.Join(t.TempDir(), "run")
			file := filepath.Join(dir, "uids")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, nil, 0o600), spoil(dir, file)); err != nil {
				t.Fatal(err)
			}
			if u, err := newUIDs(dir, 70000, 8); err == nil || u != nil {
				t.Errorf("taken as a place for locks: %v", err)
			}
		})
	}
}

func TestUIDsDoNotFollowALink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(other, filepath.Join(dir, "uids")); err != nil {
		t.Fatal(err)
	}
	if _, err := newUIDs(dir, 70000, 8); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v, want ELOOP", err)
	}
	if _, err := os.Lstat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

// TestNoUIDWhereNobodyLooks: where the file is another than that in which the
// others find our leases, there are no more.
func TestNoUIDWhereNobodyLooks(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"removed":  func(string) error { return nil },
		"replaced": func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"linked":   func(file string) error { return os.Symlink("/dev/null", file) },
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			dir := t.TempDir()
			u := openUIDs(t, dir, 70000, 8)
			takeUID(t, u)
			file := filepath.Join(dir, "uids")
			if err := errors.Join(os.Remove(file), put(file)); err != nil {
				t.Fatal(err)
			}
			if l, err := u.take(); !errors.Is(err, errReplaced) {
				t.Errorf("leased %+v, %v", l, err)
			}
			if l, err := u.lock(70000); !errors.Is(err, errReplaced) {
				t.Errorf("leased %+v, %v", l, err)
			}
		})
	}
}

func TestGroupNames(t *testing.T) {
	name := groupName(&lease{id: 70005})
	if name != "c70005-cell" {
		t.Errorf("%q", name)
	}
	if id, ok := uidOf(name); !ok || id != 70005 {
		t.Errorf("%d, %v", id, ok)
	}
	for _, foreign := range strings.Fields("x c c- c5 5-a cx-a c-5-a user.slice c5.slice d5-a c5x-a c0-a c2147483648-a") {
		if id, ok := uidOf(foreign); ok {
			t.Errorf("%q is taken for the group of uid %d", foreign, id)
		}
	}
}
