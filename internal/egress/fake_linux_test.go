package egress

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A peer is the process's end of a conversation. It can say anything.
type peer struct{ conn *packet.Conn }

// next returns the next message; nil where the front has hung up.
func (p *peer) next() (*wire.Message, []int) {
	b, fds, err := p.conn.Receive()
	if err != nil {
		return nil, nil
	}
	m, err := wire.Decode(b)
	if err != nil {
		panic(err) // the front's messages are well-formed
	}
	return &m, fds
}

// say sends a message, to a front that may have hung up.
func (p *peer) say(m wire.Message) {
	b, err := wire.Encode(m)
	if err != nil {
		panic(err)
	}
	_ = p.conn.Send(b)
}

func (p *peer) raw(b string, fds ...int) { _ = p.conn.Send([]byte(b), fds...) }

// A part is what a fake process does in place of one step. nil does it well.
type part struct {
	setup func(f *fake, m *wire.Message, roots int) // takes over roots
	hello func(f *fake)
	begin func(f *fake, call *peer)
	conn  func(f *fake, call *peer, m *wire.Conn, fd int) // takes over fd
	fetch func(f *fake, call *peer, m *wire.Fetch)
	end   func(f *fake, call *peer)
	begun func(b *wire.Begin, fds []int) // sees each Begin
	grant func(f *fake, call *peer)      // in place of reading the credentials
	given func(g *wire.Grant, secrets []string)
}

// A fake is one egress process, of goroutines.
type fake struct {
	part
	control *peer
	running sync.WaitGroup
	stays   bool // cannot be ended: its report says so

	mu     sync.Mutex // guards the following
	peers  []*peer
	dead   bool
	closed int // calls of Close
}

func (f *fake) adopt(fd int) *peer {
	conn, err := packet.New(fd, packet.Limits{Message: 1 << 20, FDs: 200})
	if err != nil {
		panic(err)
	}
	p := &peer{conn}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		conn.Close()
	}
	f.peers = append(f.peers, p)
	return p
}

// die is the process's death: every end hangs up.
func (f *fake) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
	for _, p := range f.peers {
		p.conn.Close()
	}
}

// Close implements Process.
func (f *fake) Close(context.Context) envelope.Report {
	f.die()
	f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return envelope.Report{Complete: !f.stays, Checks: []envelope.Check{{What: "process", Gone: !f.stays, Note: "pid 7"}}}
}

func (f *fake) serve() {
	m, fds := f.control.next()
	if m == nil {
		return
	}
	if f.setup != nil {
		f.setup(f, m, fds[0])
	} else {
		packet.CloseAll(fds)
	}
	if f.hello != nil {
		f.hello(f)
	} else {
		f.control.say(wire.Message{Hello: &wire.Hello{Version: wire.Version, PID: 7}})
	}
	for {
		m, fds := f.control.next()
		if m == nil {
			return
		}
		call := f.adopt(fds[0])
		if f.begun != nil {
			f.begun(m.Begin, fds)
		}
		packet.CloseAll(fds[1:])
		f.running.Go(func() { f.call(call, m.Begin.Granted) })
	}
}

// take takes what Begin has announced; false where the front has hung up.
func (f *fake) take(call *peer) bool {
	m, _ := call.next()
	if m == nil {
		return false
	}
	var secrets []string
	for range m.Grant.Credentials {
		b, _, err := call.conn.Receive()
		if err != nil {
			return false
		}
		secrets = append(secrets, string(b))
	}
	if f.given != nil {
		f.given(m.Grant, secrets)
	}
	return true
}

func (f *fake) call(call *peer, granted bool) {
	defer call.conn.Close()
	switch {
	case granted && f.grant != nil:
		f.grant(f, call)
	case granted && !f.take(call):
		return
	}
	if f.begin != nil {
		f.begin(f, call)
	} else {
		call.say(ready(""))
	}
	for {
		m, fds := call.next()
		switch {
		case m == nil:
			return
		case m.Conn != nil && f.conn != nil:
			f.conn(f, call, m.Conn, fds[0])
		case m.Conn != nil:
			packet.CloseAll(fds)
			call.say(line("a.test", int(m.Conn.Local.Port()), envelope.VerdictAllowed))
		case m.Fetch != nil && f.fetch != nil:
			f.fetch(f, call, m.Fetch)
		case m.Fetch != nil:
			call.say(fetched(m.Fetch.URL))
		case m.End != nil && f.end != nil:
			f.end(f, call)
		case m.End != nil:
			call.say(done())
		}
	}
}

func ready(ca string) wire.Message { return wire.Message{Ready: &wire.Ready{CA: ca}} }
func done() wire.Message           { return wire.Message{Done: &wire.Done{}} }

func line(host string, port int, v envelope.Verdict) wire.Message {
	return wire.Message{Line: &envelope.Attempt{At: time.Unix(1, 0).UTC(), Host: host, Port: port, Verdict: v, Sent: 1, Received: 2}}
}

// dialled is what comes before the line of a connection to port 443.
func dialled(host string, v envelope.Verdict) wire.Message {
	return wire.Message{Dialled: &envelope.Attempt{At: time.Unix(1, 0).UTC(), Host: host, Port: 443, Verdict: v, Address: "192.0.2.1:443"}}
}

func fetched(url string) wire.Message {
	return wire.Message{Fetched: &wire.Fetched{Fetched: envelope.Fetched{URL: url, Status: 200}}}
}

func body(data string) wire.Message { return wire.Message{Body: &wire.Body{Data: []byte(data)}} }

// starts starts fakes, the next of parts each time, and the last again and
// again.
type starts struct {
	parts []part
	stays bool

	mu    sync.Mutex // guards the following
	fakes []*fake
	fails []error // of the next starts
}

// StartEgress implements Starter.
func (s *starts) StartEgress(_ context.Context, control *os.File) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fails) > 0 {
		err := s.fails[0]
		s.fails = s.fails[1:]
		return nil, err
	}
	for _, f := range s.fakes {
		if f.mu.Lock(); f.closed == 0 {
			f.mu.Unlock()
			return nil, errors.New("one is running")
		}
		f.mu.Unlock()
	}
	fd, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &fake{stays: s.stays}
	if len(s.parts) > 0 {
		f.part = s.parts[min(len(s.fakes), len(s.parts)-1)]
	}
	f.control = f.adopt(fd)
	s.fakes = append(s.fakes, f)
	f.running.Go(f.serve)
	return f, nil
}

func (s *starts) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fakes)
}

func (s *starts) last() *fake {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakes[len(s.fakes)-1]
}

// client returns a client of fakes, which is closed at the test's end. Every
// test of this package checks for what it leaves behind.
func client(t *testing.T, parts ...part) (*Client, *starts) {
	t.Helper()
	leak.Check(t)
	s := &starts{parts: parts}
	c := New(s, Options{Roots: func() ([]byte, error) { return []byte("roots"), nil }})
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil && !s.stays {
			t.Error(err)
		}
	})
	return c, s
}

// soon is when what does not come is overdue.
const soon = 20 * time.Millisecond

func open(t *testing.T, c *Client) *Session {
	t.Helper()
	s, err := c.Open(t.Context(), Call{ID: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shut closes a session that has to end well.
func shut(t *testing.T, s *Session) envelope.Egress {
	t.Helper()
	e, err := s.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Dead():
		t.Error("dead, and it ended well")
	default:
	}
	return e
}

// heard waits until so many lines of a session have come: whoever says them may
// be slower than who asks for the end.
func heard(t *testing.T, s *Session, lines int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		s.mu.Lock()
		n := len(s.seen.Attempts)
		s.mu.Unlock()
		if n == lines {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d lines came, want %d", n, lines)
		}
	}
}

// dies waits for a session's death and checks what Close says then.
func dies(t *testing.T, s *Session) envelope.Egress {
	t.Helper()
	<-s.Dead()
	e, err := s.Close(t.Context())
	if !errors.Is(err, ErrDied) {
		t.Errorf("%v, want ErrDied", err)
	}
	return e
}

// works checks that a call goes its way from begin to end.
func works(t *testing.T, c *Client) {
	t.Helper()
	shut(t, open(t, c))
}

// file returns an open file; the test's end closes it, if nobody has.
func file(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func gate(t *testing.T, ports ...int) *cell.Gate {
	t.Helper()
	g := &cell.Gate{DNS: file(t), DNSTCP: file(t), Proxy: file(t)}
	for _, port := range ports {
		g.Listen = append(g.Listen, cell.Listener{Port: port, File: file(t)})
	}
	return g
}

// closed checks that a gate's files are.
func closed(t *testing.T, g *cell.Gate) {
	t.Helper()
	for i, f := range g.Files() {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("file %d of the gate was left open", i)
		}
	}
}
