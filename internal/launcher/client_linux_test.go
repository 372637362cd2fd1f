package launcher

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// A place is what launchers of one configuration share: the groups' parent,
// run.dir, the range of uids.
type place struct {
	parent, run, conf string
	first             int // uid
}

// places counts them, for uids that no two have: leases are the host's.
var places atomic.Int64

// images is the place's store of trees.
func (p place) images() string { return filepath.Join(filepath.Dir(p.run), "store", "images") }

// newPlace makes one that is this test's alone. settings are further lines of
// the configuration; where they do not say so there are no spares, so that what
// is there is a cell's.
func newPlace(t testing.TB, settings ...string) place {
	t.Helper()
	dir := t.TempDir()
	p := place{parent: parentGroup(t), run: filepath.Join(dir, "run"), conf: filepath.Join(dir, "launcher.conf"), first: freeRange()}
	p.configure(t, settings...)
	return p
}

// freeRange is the first of 1024 uids that only this test's launchers lease.
func freeRange() int {
	return 1_990_000_000 + (os.Getpid()%10_000*8+int(places.Add(1)%8))*1024
}

// configure writes the place's configuration.
func (p place) configure(t testing.TB, settings ...string) {
	t.Helper()
	text := append([]string{"cgroup.parent = " + p.parent, "run.dir = " + p.run, "image.dir = " + p.images(), "uids.first = " + itoa(p.first)}, settings...)
	for _, otherwise := range []string{"spares = 0", "uids.count = 1024"} {
		key, _, _ := strings.Cut(otherwise, " ")
		if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, key) }) {
			text = append(text, otherwise)
		}
	}
	must(t, os.WriteFile(p.conf, []byte(strings.Join(text, "\n")+"\n"), 0o600))
}

// A client is a front with its launcher. Requests may be made concurrently.
type client struct {
	place
	conn   *wire.Conn
	pid    int // of the launcher; 0 where it is in this process
	hello  *wire.Hello
	over   chan struct{} // closed when launcher and reaper have hung up
	exited chan struct{} // closed when the launcher has, with the following set
	status int           // its exit status; -1 for a signal
	stderr bytes.Buffer

	mu      sync.Mutex // guards the following
	seq     uint32
	waiting map[uint32]chan answered
	swept   *wire.Swept
}

type answered struct {
	body wire.Body
	fds  []int
}

// dial starts the real launcher in a place.
func dial(t testing.TB, p place) *client {
	t.Helper()
	cmd := exec.Command(helper("callcell-launcher"), "-config", p.conf)
	cmd.Env = []string{}
	return dialBy(t, p, cmd)
}

// dialBy starts it by a command.
func dialBy(t testing.TB, p place, cmd *exec.Cmd) *client {
	t.Helper()
	c, remote := newClient(t, p)
	cmd.Dir, cmd.Stderr, cmd.ExtraFiles = "/", &c.stderr, []*os.File{remote}
	must(t, cmd.Start(), remote.Close())
	c.pid = cmd.Process.Pid
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // its exit status is looked at
		c.status = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = c.conn.CloseSend() // one of the two may have hung up
		await(t, "the end of launcher and reaper", c.over)
		await(t, "the launcher's exit", c.exited)
		_ = c.conn.Close() // a test may have done so
	})
	c.greet(t)
	return c
}

func newClient(t testing.TB, p place) (*client, *os.File) {
	t.Helper()
	ours, theirs, err := wire.Pair()
	must(t, err)
	conn, err := wire.NewConn(ours)
	must(t, err)
	c := &client{place: p, conn: conn, over: make(chan struct{}), exited: make(chan struct{}), waiting: map[uint32]chan answered{}}
	return c, os.NewFile(uintptr(theirs), "launcher")
}

// greet hears the launcher's hello and begins to listen.
func (c *client) greet(t testing.TB) {
	t.Helper()
	m, _, err := c.conn.Receive()
	hello, ok := m.Body.(*wire.Hello)
	if !ok {
		t.Fatalf("the launcher's first word: %+v, %v", m.Body, err)
	}
	c.hello = hello
	go c.listen()
}

func (c *client) listen() {
	defer close(c.over)
	for {
		m, fds, err := c.conn.Receive()
		if err != nil {
			c.fail()
			return
		}
		c.mu.Lock()
		ch := c.waiting[m.Seq]
		delete(c.waiting, m.Seq)
		if s, ok := m.Body.(*wire.Swept); ok {
			c.swept = s
		}
		c.mu.Unlock()
		if ch == nil {
			closeAll(fds)
			continue
		}
		ch <- answered{m.Body, fds}
	}
}

func (c *client) fail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq, ch := range c.waiting {
		close(ch)
		delete(c.waiting, seq)
	}
	c.waiting = nil
}

// ask sends a request. The channel it returns is closed where there will be
// no answer.
func (c *client) ask(body wire.Body, fds ...int) <-chan answered {
	ch := make(chan answered, 1)
	c.mu.Lock()
	c.seq++
	seq := c.seq
	if c.waiting == nil {
		close(ch)
		c.mu.Unlock()
		return ch
	}
	c.waiting[seq] = ch
	c.mu.Unlock()
	if err := c.conn.Send(wire.Message{Seq: seq, Body: body}, fds...); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting != nil {
			delete(c.waiting, seq)
			close(ch)
		}
	}
	return ch
}

// call asks and waits for the answer, whose descriptors are closed in the end.
func (c *client) call(t testing.TB, body wire.Body, fds ...int) answered {
	t.Helper()
	a, ok := await(t, fmt.Sprintf("an answer to %T", body), c.ask(body, fds...))
	if !ok {
		t.Fatalf("no answer to %T: the launcher hung up", body)
	}
	t.Cleanup(func() { closeAll(a.fds) })
	return a
}

// refused makes a request that must be answered by a failure of that kind.
func (c *client) refused(t testing.TB, kind wire.Kind, body wire.Body, fds ...int) *wire.Failed {
	t.Helper()
	a := c.call(t, body, fds...)
	f, ok := a.body.(*wire.Failed)
	if !ok || f.Kind != kind || f.Step == "" || len(a.fds) != 0 {
		t.Errorf("%T: %+v with %d descriptors; want a failure of kind %d, in words", body, a.body, len(a.fds), kind)
		return &wire.Failed{}
	}
	return f
}

// hangUp is the front's orderly end.
func (c *client) hangUp(t testing.TB) {
	t.Helper()
	must(t, c.conn.CloseSend())
	await(t, "the end of launcher and reaper", c.over)
}

// ended waits for the launcher's exit and checks its status, and that it did
// not panic.
func (c *client) ended(t testing.TB, want int) {
	t.Helper()
	await(t, "the launcher's exit", c.exited)
	text := c.stderr.String()
	if c.status != want || strings.Contains(text, "goroutine") || strings.Contains(text, "panic") {
		t.Errorf("exit status %d, want %d\n%s", c.status, want, text)
	}
}

// spec is a small cell.
func spec() wire.Spec {
	return wire.Spec{
		ID: "01923f6c-0000-7000-8000-0123456789ab", Level: wire.LevelContainer, Memory: 64 << 20, Pids: 32, CPU: 2000,
		CPUTime: int64(20 * time.Second), Wall: int64(60 * time.Second), Scratch: 8 << 20, Inodes: 200, FileSize: 8 << 20, OpenFiles: 64,
	}
}

func (c *client) open(t testing.TB, s wire.Spec) uint32 {
	t.Helper()
	a := c.call(t, &wire.Open{Spec: s})
	o, ok := a.body.(*wire.Opened)
	if !ok {
		t.Fatalf("open: %+v", a.body)
	}
	return o.Slot
}

// A process is a command that runs in a cell.
type process struct {
	slot   uint32
	answer <-chan answered
	stdin  *os.File
	stdout <-chan string
}

// start starts a command. The programs of testdata that are named as the
// command's first word are among its files.
func (c *client) start(t testing.TB, slot uint32, argv ...string) *process {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	var files []wire.PayloadFile
	if name, ok := strings.CutPrefix(argv[0], "./"); ok {
		text, err := os.ReadFile(helper(name))
		must(t, err)
		files = append(files, wire.PayloadFile{Name: name, Data: text, Executable: true})
	}
	payload := memfd(t, payloadOf(t, argv, []string{"PATH=/usr/bin:/bin"}, files...))
	p := &process{slot: slot, stdin: inW, stdout: lines(outR)}
	p.answer = c.ask(&wire.Start{Slot: slot}, int(inR.Fd()), int(outW.Fd()), int(outW.Fd()), int(payload.Fd()))
	inR.Close()
	outW.Close()
	return p
}

// says waits for a line of the program.
func (p *process) says(t testing.TB, want string) {
	t.Helper()
	if got, ok := await(t, fmt.Sprintf("the program says %q", want), p.stdout); got != want {
		a := answered{}
		if !ok {
			a, _ = await(t, "the program's end", p.answer)
		}
		t.Fatalf("the program says %q, want %q; %+v", got, want, a.body)
	}
}

// exit waits for the program's end.
func (p *process) exit(t testing.TB) *wire.Exited {
	t.Helper()
	a, ok := await(t, "the program's end", p.answer)
	e, isExit := a.body.(*wire.Exited)
	if !ok || !isExit {
		t.Fatalf("the program's end: %+v", a.body)
	}
	return e
}

// cling starts the program that tries to outlive its end, in a new cell.
func (c *client) cling(t testing.TB) *process {
	t.Helper()
	p := c.start(t, c.open(t, spec()), "./cling")
	p.says(t, "ready")
	return p
}

// close destroys a cell, and wants all of it gone.
func (c *client) close(t testing.TB, slot uint32) {
	t.Helper()
	a := c.call(t, &wire.Close{Slot: slot})
	closed, ok := a.body.(*wire.Closed)
	if !ok || len(closed.Checks) == 0 || !gone(closed) {
		t.Errorf("close: %+v", a.body)
	}
}

// dead waits until none of the processes runs.
func dead(t testing.TB, limit time.Duration, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there is nobody to look at")
	}
	within(t, limit, fmt.Sprintf("the death of %v", pids), func() bool { return !slices.ContainsFunc(pids, alive) })
}

// swept returns the reaper's last word, -1 without any.
func (c *client) lastWord() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swept == nil {
		return -1
	}
	return int(c.swept.Left)
}

func kill(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid <= 1 {
			t.Fatalf("no process: %d", pid)
		}
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
}
