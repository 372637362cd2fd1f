package link

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// helloTimeout bounds the launcher's start.
const helloTimeout = 20 * time.Second

// orphanWait bounds the wait for the reaper of a launcher that died; it bounds
// its own work below that.
const orphanWait = 15 * time.Second

// A link is one launcher and the conversation with it.
type link struct {
	conn    *wire.Conn
	process *process
	once    bool // hang up when all that was opened is closed

	greeted chan struct{} // closed when hello is set
	gone    chan struct{} // closed when launcher and reaper have hung up

	mu      sync.Mutex // guards the following
	bounds  bounds
	hello   *wire.Hello
	swept   *wire.Swept // the reaper's last word
	seq     uint32
	waiting map[uint32]chan Answer
	dead    bool
	dropped bool // by us, see abandon
	deaf    bool // a request met a closed end
	holds   holds
	probe   chan struct{} // closed when the request of a ping is answered; nil: there is none
}

// bounds are how long a launcher may take over a request that does not wait for
// a program. It bounds itself well below the first.
type bounds struct {
	patience time.Duration // which may have to wait for the kernel
	build    time.Duration // which waits for nobody
}

// dial starts a launcher, whose end of the pair start is given, and does not
// wait for it.
func dial(start func(socket int) (*process, error), once bool, bounds bounds) (*link, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	conn, err := wire.NewConn(ours)
	if err != nil {
		return nil, err
	}
	p, err := start(theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{
		conn: conn, process: p, once: once, bounds: bounds, waiting: map[uint32]chan Answer{},
		greeted: make(chan struct{}), gone: make(chan struct{}), holds: holds{slots: map[uint32]bool{}},
	}
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
		return nil, fmt.Errorf("%w: no word from it for %v", ErrLauncher, helloTimeout)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hello == nil {
		return nil, fmt.Errorf("%w: %s", ErrLauncher, l.process.stderr)
	}
	if l.hello.Version != wire.Version {
		return nil, errors.New("the launcher is of another version")
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
			ch <- Answer{m.Body, fds}
		} else {
			closeAll(fds)
		}
	}
}

// take returns who waits for the message, and keeps those that nobody asked
// for.
func (l *link) take(m wire.Message) chan Answer {
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
	case *wire.Freed:
		l.settleLocked(b.Slot)
		return nil
	}
	ch := l.waiting[m.Seq]
	delete(l.waiting, m.Seq)
	l.leaveLocked()
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
	if !l.dropped {
		close(l.gone)
		return
	}
	go func() { // we hung up first: their ends do not tell
		<-l.process.silent
		close(l.gone)
	}()
}

// orphaned is the report of what was open when the launcher died. The link hangs
// up only when the reaper, which holds its end too, has ended: then it has killed
// every process and removed its groups. If the reaper died too, the kernel ends
// the processes with the launcher, and the next one sweeps.
func (l *link) orphaned() envelope.Report {
	select {
	case <-l.gone:
	case <-time.After(orphanWait):
		return envelope.Report{Checks: []envelope.Check{{What: "cell", Note: "launcher and reaper do not answer"}}}
	}
	if left := l.leftovers(); left != "" {
		return envelope.Report{Checks: []envelope.Check{{What: "cgroup", Note: left}}}
	}
	note := "the launcher died; its reaper ended the cell"
	return envelope.Report{Complete: true, Checks: []envelope.Check{
		{What: "processes", Gone: true, Note: note}, {What: "cgroup", Gone: true}, {What: "files", Gone: true, Note: "the scratch had no other holder"},
	}}
}

// abandon hangs up on a launcher that does not answer: stopped, or stuck in the
// kernel. The reaper sees that, ends every cell, and then the launcher.
func (l *link) abandon() {
	l.mu.Lock()
	l.dropped = true
	l.mu.Unlock()
	l.conn.Close()
}

// bound bounds what comes next, up to stop: a launcher that takes longer is
// abandoned. Whoever waits for it then hears of its death.
func (l *link) bound(limit time.Duration) (stop func()) {
	timer := time.AfterFunc(limit, l.abandon)
	return func() { timer.Stop() }
}

// limits returns the bounds.
func (l *link) limits() bounds {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bounds
}

// alive reports whether requests still make sense. The launcher's own end is
// seen before its hang-up, which waits for the reaper; and that it is gone may
// be seen by a request before either is heard.
func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aliveLocked()
}

func (l *link) aliveLocked() bool {
	return !l.dead && !l.dropped && !l.deaf && !closed(l.process.exited)
}

// ended reports whether launcher and reaper are gone, and nothing is left to be
// waited for.
func (l *link) ended() bool { return closed(l.gone) && closed(l.process.exited) }

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// ask sends a request and returns the channel on which its answer comes. The
// channel is closed without an answer if the launcher dies.
func (l *link) ask(body wire.Body, fds ...int) (<-chan Answer, error) {
	ch := make(chan Answer, 1)
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return nil, ErrLauncher
	}
	l.seq++
	seq := l.seq
	l.waiting[seq] = ch
	l.mu.Unlock()
	if err := l.conn.Send(wire.Message{Seq: seq, Body: body}, fds...); err != nil {
		l.mu.Lock()
		l.deaf = l.deaf || errors.Is(err, unix.EPIPE)
		delete(l.waiting, seq)
		l.leaveLocked()
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrLauncher, err)
	}
	return ch, nil
}

// call asks and waits for the answer.
func (l *link) call(body wire.Body, fds ...int) (Answer, error) {
	defer l.bound(l.limits().patience)()
	ch, err := l.ask(body, fds...)
	if err != nil {
		return Answer{}, err
	}
	a, ok := <-ch
	if !ok {
		return Answer{}, ErrLauncher
	}
	return a, nil
}

// closeTimeout bounds the wait for a launcher that was hung up on. It and its
// reaper bound themselves below that.
const closeTimeout = 20 * time.Second

// close hangs up and waits until the launcher, its reaper and every cell are
// gone: both have hung up, which they do last, and the launcher's process has
// been waited for. Where leave is set the kernel may do the waiting.
func (l *link) close(leave bool) error {
	_ = l.conn.CloseSend() // it may be gone already
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	ends := []chan struct{}{l.gone, l.process.exited}
	if leave {
		ends = ends[:1]
	}
	for _, ch := range ends {
		select {
		case <-ch:
		case <-timeout.C:
			l.conn.Close()
			return fmt.Errorf("launcher %d is still there after %v", l.process.pid, closeTimeout)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swept != nil && l.swept.Left > 0 {
		return fmt.Errorf("launcher %d: %s", l.process.pid, couldNotRemove(l.swept.Left))
	}
	return nil
}

func couldNotRemove(groups uint32) string {
	return fmt.Sprintf("the reaper could not remove %d groups, and goes on trying", groups)
}

// leftovers says what a dead launcher's reaper could not remove; "" is
// nothing.
func (l *link) leftovers() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dropped:
		return "the launcher did not answer; its reaper ended the cell, and the next launcher sweeps what is left"
	case l.swept == nil:
		return "launcher and reaper died; the next launcher sweeps what is left"
	case l.swept.Left > 0:
		return couldNotRemove(l.swept.Left)
	}
	return ""
}
