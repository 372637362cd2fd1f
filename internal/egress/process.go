package egress

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// A process is one egress process and the control conversation with it. It is
// ended by die alone, for whatever reason.
type process struct {
	control *packet.Conn
	handle  Process
	times   times
	limits  wire.Limits

	greeted chan struct{} // closed when Hello has come
	dead    chan struct{} // closed by die
	gone    chan struct{} // closed when it was ended, and report is set
	report  envelope.Report

	mu       sync.Mutex // guards the following
	cause    error      // why it died; nil while it lives
	sessions map[*Session]struct{}
}

// launch starts a process, tells it what it is to know, and waits for its
// Hello. Beside an error it returns a process that was started and is dead.
func (c *Client) launch(ctx context.Context) (*process, error) {
	roots, err := sealed(c.roots)
	if err != nil {
		return nil, err
	}
	defer roots.Close()
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	end := os.NewFile(uintptr(theirs), "egress")
	defer end.Close()
	control, err := packet.New(ours, packet.Limits{Message: wire.MaxMessage, FDs: wire.MaxFDs})
	if err != nil {
		return nil, err
	}
	handle, err := c.starter.StartEgress(ctx, end)
	if err != nil {
		control.Close()
		return nil, fmt.Errorf("egress: start the process: %w", err)
	}
	end.Close() // or its hang-up would not be seen
	p := &process{
		control: control, handle: handle, times: c.times, limits: c.options.Limits,
		greeted: make(chan struct{}), dead: make(chan struct{}), gone: make(chan struct{}), sessions: map[*Session]struct{}{},
	}
	go p.receive()
	return p, p.greet(ctx, c.setup(), roots)
}

// greet begins the control conversation. On an error the process is dead.
func (p *process) greet(ctx context.Context, setup wire.Message, roots *os.File) error {
	if err := p.send(p.control, setup, int(roots.Fd())); err != nil {
		p.die(err)
		return p.died()
	}
	select {
	case <-p.greeted:
		return nil
	case <-p.dead:
	case <-ctx.Done():
		p.die(unheard(ctx))
	}
	return p.died()
}

// unheard says why nobody waits for Hello any more.
func unheard(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return ErrClosed
}

// receive reads the control conversation, on which nothing but one Hello
// comes.
func (p *process) receive() {
	for {
		m, err := receive(p.control)
		if err == nil {
			err = p.take(m)
		}
		if err != nil {
			p.die(err)
			return
		}
	}
}

func (p *process) take(m wire.Message) error {
	select {
	case <-p.greeted:
		return fmt.Errorf("%w: it spoke unasked", errBreach)
	default:
	}
	switch {
	case m.Hello == nil:
		return fmt.Errorf("%w: it did not say Hello", errBreach)
	case m.Hello.Version != wire.Version:
		return fmt.Errorf("%w: it is of version %d, not %d", errBreach, m.Hello.Version, wire.Version)
	}
	close(p.greeted)
	return nil
}

// receive returns the next message of a conversation. No message of the
// process brings descriptors.
func receive(conn *packet.Conn) (wire.Message, error) {
	b, fds, err := conn.Receive()
	if err != nil {
		return wire.Message{}, hungUp(err)
	}
	if len(fds) > 0 {
		packet.CloseAll(fds)
		return wire.Message{}, fmt.Errorf("%w: it sent descriptors", errBreach)
	}
	m, err := wire.Decode(b)
	if err != nil {
		return wire.Message{}, fmt.Errorf("%w: %w", errBreach, err)
	}
	return m, nil
}

// send sends a message, and ends a process that does not take it in time.
func (p *process) send(conn *packet.Conn, m wire.Message, fds ...int) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	defer p.bound(p.times.send)()
	return conn.Send(b, fds...)
}

// bound bounds what comes next, up to stop.
func (p *process) bound(d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() { p.die(errSilent) })
	return func() { timer.Stop() }
}

// die ends the process, hangs up on it, and tells every session. What has come
// is still taken. It is idempotent and does not wait: gone says when.
func (p *process) die(cause error) {
	p.mu.Lock()
	if p.cause != nil {
		p.mu.Unlock()
		return
	}
	p.cause = cause
	sessions := p.sessions
	p.sessions = nil
	p.mu.Unlock()
	close(p.dead)
	p.control.Close()
	for s := range sessions {
		_ = s.conn.Shutdown() // it may have been closed at its end just now
		close(s.dead)
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.times.exit)
		defer cancel()
		p.report = p.handle.Close(ctx)
		close(p.gone)
	}()
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause == nil
}

// add makes a session one of those that die with the process; it reports
// whether the process lives.
func (p *process) add(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.sessions[s] = struct{}{}
	}
	return p.cause == nil
}

// drop takes out a session, which then does not die any more; it reports
// whether the process lives.
func (p *process) drop(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
	return p.cause == nil
}

// died returns ErrDied with the reason. The process is dead.
func (p *process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w: %w", ErrDied, p.cause)
}

// left waits until the process was ended. The error says what is left of it.
func (p *process) left(ctx context.Context) error {
	select {
	case <-p.gone:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrLeft, ctx.Err())
	}
	if left := notGone(p.report); left != "" {
		return fmt.Errorf("%w: %s", ErrLeft, left)
	}
	return nil
}

// buried is died, or ErrLeft where nobody knows whether the process is gone.
// It waits for that, for as long as ending it takes.
func (p *process) buried() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.times.exit+time.Second)
	defer cancel()
	died := p.died()
	if err := p.left(ctx); err != nil {
		return fmt.Errorf("%w (%v)", err, died)
	}
	return died
}
