package container

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// helloTimeout bounds the launcher's start.
const helloTimeout = 20 * time.Second

// A link is one launcher and the conversation with it.
type link struct {
	conn   *wire.Conn
	cmd    *exec.Cmd
	stderr *tail

	greeted chan struct{} // closed when hello is set
	gone    chan struct{} // closed when launcher and reaper have hung up
	exited  chan struct{} // closed when the launcher's process is reaped

	mu      sync.Mutex // guards the following
	hello   *wire.Hello
	swept   *wire.Swept // the reaper's last word
	seq     uint32
	waiting map[uint32]chan answer
	dead    bool
}

type answer struct {
	body wire.Body
	fds  []int
}

// dial starts a launcher and does not wait for it.
func dial(path, conf string) (*link, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	remote := os.NewFile(uintptr(theirs), "launcher")
	defer remote.Close()
	conn, err := wire.NewConn(ours)
	if err != nil {
		return nil, err
	}
	l := &link{
		conn: conn, cmd: exec.Command(path), stderr: &tail{}, waiting: map[uint32]chan answer{},
		greeted: make(chan struct{}), gone: make(chan struct{}), exited: make(chan struct{}),
	}
	if conf != "" {
		l.cmd.Args = append(l.cmd.Args, "-config", conf)
	}
	l.cmd.Dir, l.cmd.Env, l.cmd.Stderr = "/", []string{}, l.stderr
	l.cmd.ExtraFiles = []*os.File{remote}
	if err := l.cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("container: start the launcher: %w", err)
	}
	go func() {
		defer close(l.exited)
		_ = l.cmd.Wait() // what it has to say is in its hello, and on stderr
	}()
	go l.receive()
	return l, nil
}

// greet waits for the launcher's hello.
func (l *link) greet() (*wire.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case <-l.greeted:
	case <-l.gone:
	case <-timeout.C:
		return nil, fmt.Errorf("%w: no word from it for %v", errLauncher, helloTimeout)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hello == nil {
		return nil, fmt.Errorf("%w: %s", errLauncher, l.stderr)
	}
	if l.hello.Version != wire.Version {
		return nil, errors.New("container: the launcher is of another version")
	}
	return l.hello, nil
}

func (l *link) receive() {
	for {
		m, fds, err := l.conn.Receive()
		if err != nil {
			l.fail()
			return
		}
		if ch := l.take(m); ch != nil {
			ch <- answer{m.Body, fds}
		} else {
			closeAll(fds)
		}
	}
}

// take returns who waits for the message, and keeps those that nobody asked
// for.
func (l *link) take(m wire.Message) chan answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch b := m.Body.(type) {
	case *wire.Hello:
		if l.hello == nil {
			l.hello = b
			close(l.greeted)
		}
		return nil
	case *wire.Swept:
		l.swept = b
		return nil
	}
	ch := l.waiting[m.Seq]
	delete(l.waiting, m.Seq)
	return ch
}

// fail tells everyone who waits that there will be no answer.
func (l *link) fail() {
	l.conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for seq, ch := range l.waiting {
		close(ch)
		delete(l.waiting, seq)
	}
	close(l.gone)
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead
}

// ask sends a request and returns the channel on which its answer comes. The
// channel is closed without an answer if the launcher dies.
func (l *link) ask(body wire.Body, fds ...int) (<-chan answer, error) {
	ch := make(chan answer, 1)
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return nil, errLauncher
	}
	l.seq++
	seq := l.seq
	l.waiting[seq] = ch
	l.mu.Unlock()
	if err := l.conn.Send(wire.Message{Seq: seq, Body: body}, fds...); err != nil {
		l.mu.Lock()
		delete(l.waiting, seq)
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", errLauncher, err)
	}
	return ch, nil
}

// call asks and waits for the answer.
func (l *link) call(body wire.Body, fds ...int) (answer, error) {
	ch, err := l.ask(body, fds...)
	if err != nil {
		return answer{}, err
	}
	a, ok := <-ch
	if !ok {
		return answer{}, errLauncher
	}
	return a, nil
}

// closeTimeout bounds the wait for a launcher that was hung up on. It and its
// reaper bound themselves below that.
const closeTimeout = 20 * time.Second

// close hangs up and waits until the launcher, its reaper and every cell are
// gone.
func (l *link) close() error {
	_ = l.conn.CloseSend() // it may be gone already
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	for _, ch := range []chan struct{}{l.gone, l.exited} {
		select {
		case <-ch:
		case <-timeout.C:
			l.conn.Close()
			return fmt.Errorf("container: launcher %d is still there after %v", l.cmd.Process.Pid, closeTimeout)
		}
	}
	return nil
}

// leftovers says what a dead launcher's reaper could not remove; "" is
// nothing.
func (l *link) leftovers() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.swept == nil:
		return "launcher and reaper died; the next launcher sweeps what is left"
	case l.swept.Left > 0:
		return fmt.Sprintf("the reaper could not remove %d groups", l.swept.Left)
	}
	return ""
}

// tail keeps the last bytes that the launcher wrote to stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
