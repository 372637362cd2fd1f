package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// These tests run the reaper as a program and play launcher, front and cells.

// A reaping is a reaper with the ends that its launcher and front have.
type reaping struct {
	pid    int
	exited chan error // its end
	notes  int        // the launcher's end
	front  *wire.Conn // the front's end
	groups *cgroup.Tree
	parent string
}

func startReaping(t *testing.T) *reaping {
	t.Helper()
	groups, parent := tree(t)
	notes, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	front, err := wire.NewConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(helper("callcell-init"))
	cmd.Args, cmd.Env, cmd.Dir = []string{"callcell-reaper"}, []string{}, "/"
	files := []*os.File{os.NewFile(uintptr(notes[1]), "notes"), os.NewFile(uintptr(theirs), "front")}
	cmd.ExtraFiles = files
	lowered(t, func() error { return cmd.Start() })
	for _, f := range files {
		f.Close()
	}
	r := &reaping{pid: cmd.Process.Pid, exited: make(chan error, 1), notes: notes[0], front: front, groups: groups, parent: parent}
	go func() { r.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		r.hangUp()
		_ = front.Close() // a test may have closed it
		_ = cmd.Process.Kill()
	})
	return r
}

// lowered starts a process whose soft limit of open files is low, as one that
// comes from a shell may have it.
func lowered(t *testing.T, start func() error) {
	t.Helper()
	var was unix.Rlimit
	err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was)
	if err == nil {
		err = unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: was.Max}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = start()
	if err := errors.Join(err, unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil)); err != nil {
		t.Fatal(err)
	}
}

// hangUp is the launcher's death as the reaper sees it.
func (r *reaping) hangUp() {
	if r.notes >= 0 {
		unix.Close(r.notes)
		r.notes = -1
	}
}

// raw sends bytes as a note.
func (r *reaping) raw(t *testing.T, b []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(r.notes, b, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		t.Fatal(err)
	}
}

// note sends one as the launcher does.
func (r *reaping) note(t *testing.T, op, slot int, name string, fds ...int) {
	t.Helper()
	l := &reaper{sock: r.notes}
	if err := l.note(op, slot, name, fds...); err != nil {
		t.Fatal(err)
	}
}

// setup introduces a process as the launcher.
func (r *reaping) setup(t *testing.T, launcher int) {
	t.Helper()
	fd := pidfdOf(t, launcher)
	defer unix.Close(fd)
	claim, err := r.groups.Claim("a test's")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(claim)
	r.note(t, noteSetup, 0, "", append([]int{fd, claim}, r.groups.Parents()...)...)
}

// A fakeCell is a process in a group.
type fakeCell struct {
	slot  int
	group *cgroup.Group
	pid   int
}

// cell makes a group with a process that the reaper does not know yet.
func (r *reaping) cell(t *testing.T, slot int) *fakeCell {
	t.Helper()
	g, err := r.groups.Make(fmt.Sprintf("c%d-test", slot), cgroup.Limits{Memory: 64 << 20, Pids: 8, CPU: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &fakeCell{slot: slot, group: g, pid: sleeper(t)}
	for _, dir := range groupDirs(r.parent, g.Name()) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(itoa(c.pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// sleeper starts a process that does nothing, in the end to be killed.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return cmd.Process.Pid
}

func pidfdOf(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// lock returns what stands in for a uid's lock.
func lock(t *testing.T) int {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// tell sends the notes about a cell, as far as a launcher got.
func (r *reaping) tell(t *testing.T, c *fakeCell, ops ...int) {
	t.Helper()
	for _, op := range ops {
		switch op {
		case noteOpen:
			r.note(t, op, c.slot, c.group.Name(), lock(t))
		case notePID:
			fd := pidfdOf(t, c.pid)
			r.note(t, op, c.slot, "", fd)
			unix.Close(fd)
		case noteDone:
			r.note(t, op, c.slot, "")
		}
	}
}

// finish waits for the reaper's last word and its end.
func (r *reaping) finish(t *testing.T, left uint32) {
	t.Helper()
	r.lastWord(t, left)
	r.gone(t)
}

// lastWord waits until the front has heard it, and nothing more comes.
func (r *reaping) lastWord(t *testing.T, left uint32) {
	t.Helper()
	m, _, err := r.front.Receive()
	if swept, ok := m.Body.(*wire.Swept); !ok || swept.Left != left {
		t.Errorf("the front hears %+v, %v; want Swept with %d left", m.Body, err, left)
	}
	if _, _, err := r.front.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after its last word: %v, want io.EOF", err)
	}
}

func (r *reaping) gone(t *testing.T) {
	t.Helper()
	if err, _ := await(t, "the reaper's end", r.exited); err != nil {
		t.Errorf("the reaper's end: %v", err)
	}
}

func (r *reaping) left() []string { return groupDirs(r.parent, "*") }
