package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// ErrStarter means that no launcher can be started any more: this process has
// given up the right to, and the process that had it is gone.
var ErrStarter = errors.New("the starter of launchers is gone")

// startTimeout bounds the wait for a launcher's start, which is a fork and an
// exec. Whoever wants one meanwhile waits too.
const startTimeout = 10 * time.Second

// A starter is the process that starts launchers when this one may not any more.
type starter struct {
	conn    *wire.Conn
	process *process
	gone    chan struct{} // closed when it has hung up

	mu      sync.Mutex // guards the following
	seq     uint32
	waiting map[uint32]chan Answer
	dead    bool
}

// newStarter starts a starter, of the launcher's binary.
func newStarter(path, conf string) (*starter, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	conn, err := wire.NewConn(ours)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(argvOf(path, conf, "-starter"), theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s := &starter{conn: conn, process: p, gone: make(chan struct{}), waiting: map[uint32]chan Answer{}}
	go s.receive()
	return s, nil
}

// argvOf is the command line of a launcher, or of what more stands for.
func argvOf(path, conf string, more ...string) []string {
	argv := append([]string{path}, more...)
	if conf != "" {
		argv = append(argv, "-config", conf)
	}
	return argv
}

func (s *starter) receive() {
	defer close(s.gone)
	for {
		m, fds, err := s.conn.Receive()
		if err != nil {
			break
		}
		s.mu.Lock()
		ch := s.waiting[m.Seq]
		delete(s.waiting, m.Seq)
		s.mu.Unlock()
		if ch != nil {
			ch <- Answer{m.Body, fds}
		} else {
			closeAll(fds)
		}
	}
	s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for _, ch := range s.waiting {
		close(ch)
	}
	s.waiting = nil
}

// start has a launcher started whose end of the pair is socket.
func (s *starter) start(socket int) (*process, error) {
	r, w, err := wordPipe()
	if err != nil {
		return nil, err
	}
	defer unix.Close(w)
	a, err := s.ask(&wire.Launch{}, socket, w)
	if err != nil {
		unix.Close(r)
		return nil, err
	}
	launched, ok := a.Body.(*wire.Launched)
	if !ok || launched.PID == 0 || len(a.FDs) != 1 {
		a.Close()
		unix.Close(r)
		if f, ok := a.Body.(*wire.Failed); ok {
			return nil, fmt.Errorf("start a launcher: %w", Cause(f))
		}
		return nil, errors.New("start a launcher: an answer of another kind")
	}
	p := newProcess(int(launched.PID), r)
	go p.mourn(a.FDs[0])
	return p, nil
}

// ask sends a request and waits for its answer. A launcher whose start is
// answered too late finds nobody at the other end, and ends.
func (s *starter) ask(body wire.Body, fds ...int) (Answer, error) {
	ch := make(chan Answer, 1)
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return Answer{}, ErrStarter
	}
	s.seq++
	seq := s.seq
	s.waiting[seq] = ch
	s.mu.Unlock()
	if err := s.conn.Send(wire.Message{Seq: seq, Body: body}, fds...); err != nil {
		s.forget(seq)
		return Answer{}, fmt.Errorf("%w: %w", ErrStarter, err)
	}
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	select {
	case a, ok := <-ch:
		if !ok {
			return Answer{}, ErrStarter
		}
		return a, nil
	case <-late.C:
	}
	if s.forget(seq) {
		return Answer{}, fmt.Errorf("start a launcher: no answer in %v", startTimeout)
	}
	a, ok := <-ch // it came just now, or never comes
	if !ok {
		return Answer{}, ErrStarter
	}
	return a, nil
}

// forget takes back that somebody waits; it reports whether nobody was answered.
func (s *starter) forget(seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.waiting[seq]
	delete(s.waiting, seq)
	return waits
}

// close hangs up on the starter, and waits until it has ended unless leave is
// set.
func (s *starter) close(leave bool) error {
	s.conn.Close()
	if leave {
		return nil
	}
	late := time.NewTimer(closeTimeout)
	defer late.Stop()
	select {
	case <-s.process.exited:
		return nil
	case <-late.C:
		return fmt.Errorf("the starter of launchers, %d, is still there after %v", s.process.pid, closeTimeout)
	}
}

// Lost waits until no cell can be built any more: the last launcher is gone, and
// so is what started them. alone is called once where only the latter is. It
// returns nil when ctx ends first, and always for launchers without a starter.
func (r *Launchers) Lost(ctx context.Context, alone func()) error {
	var gone <-chan struct{}
	switch {
	case !r.conf.Starter:
	case r.starter == nil: // it could not be started
		done := make(chan struct{})
		close(done)
		gone = done
	default:
		gone = r.starter.gone
	}
	select {
	case <-gone:
	case <-ctx.Done():
		return nil
	}
	alone()
	for {
		l := r.living()
		if l == nil {
			return fmt.Errorf("%w, and so is the last launcher", ErrStarter)
		}
		select {
		case <-l.process.exited:
		case <-l.gone:
		case <-ctx.Done():
			return nil
		}
	}
}

// living returns a launcher that lives; nil: there is none.
func (r *Launchers) living() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.alive() {
			return l
		}
	}
	return nil
}
