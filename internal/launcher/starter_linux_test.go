package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// A starting is a front with its starter.
type starting struct {
	conn   *wire.Conn
	pid    int
	exited chan struct{}
}

// newStarting starts the real starter, for launchers of a place.
func newStarting(t *testing.T, p place) *starting {
	t.Helper()
	needRoot(t)
	ours, theirs, err := wire.Pair()
	must(t, err)
	conn, err := wire.NewConn(ours)
	must(t, err)
	remote := os.NewFile(uintptr(theirs), "starter")
	cmd := exec.Command(helper("callcell-launcher"), "-starter", "-config", p.conf)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{remote}
	must(t, cmd.Start(), remote.Close())
	s := &starting{conn: conn, pid: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		defer close(s.exited)
		_ = cmd.Wait() // how it ended is not looked at
	}()
	t.Cleanup(func() {
		_ = conn.Close() // a test may have done so
		await(t, "the end of the starter", s.exited)
	})
	return s
}

// ask sends one request, and returns its answer.
func (s *starting) ask(t *testing.T, b wire.Body, fds ...int) (wire.Body, []int) {
	t.Helper()
	must(t, s.conn.Send(wire.Message{Seq: 7, Body: b}, fds...))
	m, got, err := s.conn.Receive()
	if err != nil || m.Seq != 7 {
		t.Fatalf("%+v %v", m, err)
	}
	t.Cleanup(func() { closeAll(got) })
	return m.Body, got
}

// launched has a launcher started, and greets it.
func (s *starting) launched(t *testing.T, p place) (*client, int) {
	t.Helper()
	c, remote := newClient(t, p)
	r, w, err := os.Pipe()
	must(t, err)
	defer func() { must(t, r.Close(), w.Close(), remote.Close()) }()
	b, fds := s.ask(t, &wire.Launch{}, int(remote.Fd()), int(w.Fd()))
	l, ok := b.(*wire.Launched)
	if !ok || len(fds) != 1 {
		t.Fatalf("%+v %v", b, fds)
	}
	c.pid = int(l.PID)
	go func() {
		defer close(c.exited)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				return
			}
		}
	}()
	return c, fds[0]
}

// TestStarterStartsLaunchers: they build cells, end when they are hung up on,
// and live on when the starter is gone.
func TestStarterStartsLaunchers(t *testing.T) {
	p := newPlace(t)
	s := newStarting(t, p)
	for _, orphan := range []bool{false, true} {
		c, _ := s.launched(t, p)
		c.greet(t)
		if orphan {
			must(t, s.conn.Close())
			await(t, "the end of the starter", s.exited)
		}
		pr := c.start(t, c.open(t, spec()), "echo", "hello")
		pr.says(t, "hello")
		pr.exit(t)
		c.close(t, pr.slot)
		must(t, c.conn.CloseSend())
		await(t, "the hang-up", c.over)
		await(t, "the launcher's exit", c.exited)
		must(t, c.conn.Close())
	}
}

// TestStarterRefuses: what is no launcher's start, and one too many. It serves
// afterwards.
func TestStarterRefuses(t *testing.T) {
	p := newPlace(t)
	s := newStarting(t, p)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	r, w, err := os.Pipe()
	must(t, err)
	defer func() {
		must(t, w.Close())
		_, err := io.Copy(io.Discard, r) // until the last of them has gone
		must(t, err, r.Close())
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer closeAll(pair[:])
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer closeAll(stream[:])
	for name, c := range map[string]struct {
		body wire.Body
		fds  []int
	}{
		"no descriptor":            {&wire.Launch{}, nil},
		"one":                      {&wire.Launch{}, pair[:1]},
		"three":                    {&wire.Launch{}, []int{pair[0], int(w.Fd()), int(w.Fd())}},
		"no socket":                {&wire.Launch{}, []int{int(null.Fd()), int(w.Fd())}},
		"another socket":           {&wire.Launch{}, []int{stream[0], int(w.Fd())}},
		"a file to write words to": {&wire.Launch{}, []int{pair[0], int(null.Fd())}},
		"a cell":                   {&wire.Open{Spec: spec()}, nil},
		"an answer":                {&wire.Launched{PID: 1}, nil},
	} {
		if b, fds := s.ask(t, c.body, c.fds...); len(fds) > 0 {
			t.Errorf("%s: %+v", name, b)
		} else if f, ok := b.(*wire.Failed); !ok || f.Kind != wire.KindState {
			t.Errorf("%s: %+v", name, b)
		}
	}
	for range mostLaunched { // each waits for its front, which does not speak
		if b, _ := s.ask(t, &wire.Launch{}, pair[0], int(w.Fd())); b.Type() != wire.TypeLaunched {
			t.Fatalf("%+v", b)
		}
	}
	b, _ := s.ask(t, &wire.Launch{}, pair[0], int(w.Fd()))
	if f, ok := b.(*wire.Failed); !ok || f.Kind != wire.KindCapacity {
		t.Errorf("one too many: %+v", b)
	}
	unix.Close(pair[1]) // all of them are hung up on
	pair[1] = -1
	eventually(t, "there is room again", func() bool {
		b, _ := s.ask(t, &wire.Launch{}, pair[0], int(w.Fd()))
		return b.Type() == wire.TypeLaunched
	})
}

// TestStarterPosture: it has a launcher's capabilities, its own end of the pair,
// and nothing of what its front had open; a launcher of it is like any other.
func TestStarterPosture(t *testing.T) {
	p := newPlace(t)
	s := newStarting(t, p)
	c, _ := s.launched(t, p)
	c.greet(t)
	defer func() {
		must(t, c.conn.CloseSend())
		await(t, "the hang-up", c.over)
		await(t, "the launcher's exit", c.exited)
		must(t, c.conn.Close())
	}()
	var keep uint64
	for _, k := range kept() {
		keep |= 1 << k.number
	}
	for name, pid := range map[string]int{"the starter": s.pid, "its launcher": c.pid} {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatal(tasks, err)
		}
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				continue // a thread that ended
			}
			must(t, err)
			for _, want := range []string{fmt.Sprintf("\nCapPrm:\t%016x\n", keep), fmt.Sprintf("\nCapEff:\t%016x\n", keep), "\nCapInh:\t0000000000000000\n", "\nNoNewPrivs:\t1\n"} {
				if !strings.Contains(string(text), want) {
					t.Errorf("%s: no %q in\n%s", name, want, text)
				}
			}
		}
	}
	eventually(t, "it has let go of what it handed on, and holds its own end alone", func() bool {
		held := targets(fdsOf(t, s.pid))
		return count(held, "socket") == 1 && !slices.ContainsFunc(held, func(fd string) bool {
			return fd != "/dev/null" && fd != "socket" && !strings.HasPrefix(fd, "anon_inode:")
		})
	})
}
