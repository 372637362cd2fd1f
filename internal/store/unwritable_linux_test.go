package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/internal/audit"
)

// nobody is a user that is not root, for tests that run as root.
const nobody = 65534

// TestReadOnlyDirectory has the directory, then the files, not be writable.
func TestReadOnlyDirectory(t *testing.T) {
	base, err := os.MkdirTemp("", "store") // the parents of TempDir are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	asRoot := os.Geteuid() == 0
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(dir string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := helper(t, &out, "try", filepath.Join(dir, "callcell.db"))
		cmd.Dir = base
		if asRoot {
			cmd.Path = copyOf(t, cmd.Path, base)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	mine := func(path string, mode os.FileMode) {
		t.Helper()
		if asRoot {
			err = os.Chown(path, nobody, nobody)
		}
		if err = errors.Join(err, os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(base, "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mine(dir, 0o700)
	if got := run(dir); got != "written" {
		t.Fatalf("a directory of its own: %s", got)
	}
	mine(filepath.Join(dir, "callcell.db"), 0o400)
	if got := run(dir); got != "intent: unwritable" && got != "open: unwritable" {
		t.Errorf("a read-only file: %s", got)
	}
	mine(filepath.Join(dir, "callcell.db"), 0o600)
	empty := filepath.Join(base, "empty")
	if err := os.Mkdir(empty, 0o500); err != nil {
		t.Fatal(err)
	}
	mine(empty, 0o500)
	if got := run(empty); got != "open: unwritable" {
		t.Errorf("a read-only directory: %s", got)
	}
	if got := run(filepath.Join(empty, "below")); got != "open: unwritable" {
		t.Errorf("a directory that cannot be made: %s", got)
	}
}

// TestFullDisk puts the store on a small file system that is full.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	var out, fault bytes.Buffer
	cmd := helper(t, &out, "full", dir)
	cmd.Stderr = &fault
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || strings.Contains(fault.String(), errNoMount.Error())) {
		t.Skipf("no file system of our own here: %v %s", err, fault.String())
	}
	if err != nil || strings.TrimSpace(out.String()) != "recovered" {
		t.Errorf("%v: %s %s", err, out.String(), fault.String())
	}
}

func platformHelpers() map[string]func(ctx context.Context, path string) error {
	return map[string]func(context.Context, string) error{"try": try, "full": fillDisk, "commits": commits}
}

var errNoMount = errors.New("no mount")

// try opens the store and writes one call, and says how far it came.
func try(ctx context.Context, path string) error {
	word := func(err error) string {
		if errors.Is(err, audit.ErrUnwritable) {
			return "unwritable"
		}
		return err.Error()
	}
	d, err := Open(ctx, path)
	if err != nil {
		fmt.Println("open:", word(err))
		return nil
	}
	defer d.Close()
	l, err := audit.New(d.Audit(), audit.Options{})
	if err != nil {
		return err
	}
	id := l.NewID()
	if err := l.Intend(ctx, intent(id)); err != nil {
		fmt.Println("intent:", word(err))
		return nil
	}
	if _, err := l.Complete(ctx, completed(id)); err != nil {
		return err
	}
	fmt.Println("written")
	return l.Close(ctx)
}

// fillDisk mounts a file system of 2 MiB, calls until it is full, makes room,
// and wants every call that was told to be stored to be there.
func fillDisk(ctx context.Context, dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 256<<10), 0o600); err != nil {
		return err
	}
	d, err := Open(ctx, filepath.Join(dir, "callcell.db"))
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := audit.New(d.Audit(), audit.Options{})
	if err != nil {
		return err
	}
	var told int64
	for err == nil {
		id := l.NewID()
		if err = l.Intend(ctx, intent(id)); err == nil {
			told++
			_, err = l.Complete(ctx, completed(id))
		}
	}
	if !errors.Is(err, audit.ErrUnwritable) || told < 10 {
		return fmt.Errorf("after %d calls: %w", told, err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	id := l.NewID()
	if err := l.Intend(ctx, intent(id)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if _, err := l.Complete(ctx, completed(id)); err != nil {
		return err
	}
	if err := l.Close(ctx); err != nil { // writes the ending that waits
		return err
	}
	rep, err := l.Verify(ctx, audit.VerifyOptions{})
	if err != nil || !rep.Intact() || rep.Calls != told+1 || rep.Open != 0 {
		return fmt.Errorf("%d calls were told, %+v, %w", told, rep, err)
	}
	fmt.Println("recovered")
	return nil
}

// copyOf copies the test binary to where another user can run it.
func copyOf(t *testing.T, path, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "helper")
	if _, err := os.Stat(to); err == nil {
		return to
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}
