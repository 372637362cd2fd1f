package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// Session is the way out of one call. Its methods may be called concurrently;
// Close unblocks the others.
type Session struct {
	p    *process
	conn *packet.Conn

	begun   chan struct{} // closed when Ready has come
	dead    chan struct{} // closed when the process dies before the session has ended
	ended   chan struct{} // closed when nothing more comes
	closing sync.Once

	tunnels *tunnelling // nil where no guest hands over any

	turn   sync.Mutex // held while something is sent: nothing follows End
	ending bool       // guarded by turn

	mu sync.Mutex // guards what follows: what has come
	said
}

// said is what the process has said of the call.
type said struct {
	opened   bool // Ready
	ca       string
	refused  string // why, where Refused
	asked    bool   // to end
	seen     envelope.Egress
	open     []envelope.Attempt // Dialled, and no Line yet
	told     bool               // Done: seen has all
	fetch    *fetching          // nil: nothing was to be fetched
	finished bool               // Done or Refused, of a process that lived: nothing of the call is held

	granted map[string]bool  // names of the call's credentials
	masked  map[string]int64 // Done, by name
}

// open begins one call with its credentials' secrets. It waits for Ready.
func (p *process) open(ctx context.Context, call Call, secrets [][]byte) (*Session, error) {
	grant, err := newGrant(call.Credentials, secrets)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	end := os.NewFile(uintptr(theirs), "egress call")
	defer end.Close()
	conn, err := packet.New(ours, packet.Limits{Message: wire.MaxMessage, FDs: 1})
	if err != nil {
		return nil, err
	}
	s := &Session{p: p, conn: conn, begun: make(chan struct{}), dead: make(chan struct{}), ended: make(chan struct{})}
	s.granted = names(call.Credentials)
	if !p.add(s) {
		conn.Close()
		return nil, p.died()
	}
	begin, fds := begin(call, end)
	if err := p.send(p.control, begin, fds...); err != nil {
		p.drop(s)
		conn.Close()
		return nil, p.unsent(err)
	}
	end.Close()
	go s.receive()
	if err := s.give(grant); err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if call.Tunnels != nil {
		s.serveTunnels(call.Tunnels)
	}
	return s, nil
}

func names(list []wire.Credential) map[string]bool {
	all := map[string]bool{}
	for _, c := range list {
		all[c.Name] = true
	}
	return all
}

// unsent says what a message that could not be sent means: the process's death,
// or something wrong with the message, which nobody has seen then.
func (p *process) unsent(err error) error {
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("egress: %w", err)
	}
	p.die(errHungUp)
	return p.died()
}

// begin returns the message that begins a call, and its descriptors.
func begin(call Call, end *os.File) (wire.Message, []int) {
	m := &wire.Begin{ID: call.ID, Team: call.Team, Network: call.Network, Granted: len(call.Credentials) > 0}
	var fds []int
	add := func(f *os.File, use string, port int) {
		if f != nil {
			m.Sockets = append(m.Sockets, wire.Socket{Use: use, Port: port})
			fds = append(fds, int(f.Fd()))
		}
	}
	add(end, wire.UseCall, 0)
	if g := call.Gate; g != nil {
		add(g.DNS, wire.UseDNS, 0)
		add(g.DNSTCP, wire.UseDNSTCP, 0)
		add(g.Proxy, wire.UseProxy, 0)
		for _, l := range g.Listen {
			add(l.File, wire.UseListen, l.Port)
		}
	}
	return wire.Message{Begin: m}, fds
}

// await waits for the answer to Begin. On an error the session has ended.
func (s *Session) await(ctx context.Context) error {
	stop := s.p.bound(s.p.times.begin)
	defer stop()
	select {
	case <-s.begun:
	case <-s.ended:
	case <-ctx.Done():
		stop()
		_, err := s.Close(ctx)
		return errors.Join(ctx.Err(), err)
	}
	s.mu.Lock()
	opened, refused, finished := s.opened, s.refused, s.finished
	s.mu.Unlock()
	switch {
	case opened:
		return nil
	case finished:
		return fmt.Errorf("%w: %q", ErrRefused, refused)
	}
	return s.p.died()
}

// CA returns the certificate of the call's own authority, PEM; "" where
// nothing is inspected. It is the process's word, for the call's cell alone.
func (s *Session) CA() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ca
}

// Dead is closed when the process is gone before the session has ended, or is
// not to be trusted any more: from then on everything is denied.
func (s *Session) Dead() <-chan struct{} { return s.dead }

// send sends one message of the call.
func (s *Session) send(m wire.Message, fds ...int) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.ending {
		return ErrClosed
	}
	err := s.p.send(s.conn, m, fds...)
	switch {
	case err == nil:
		return nil
	case s.over():
		return ErrClosed
	}
	return s.p.unsent(err)
}

// Tunnel hands over a connection that a program of the call has made, as
// wire.Conn says: a stream socket whose other end the program's bytes come
// from, and the address in the cell that it was made to, by its guest's word.
// The process judges it as one that it has accepted there. conn is closed when
// it returns.
func (s *Session) Tunnel(local netip.AddrPort, datagrams bool, conn *os.File) error {
	defer conn.Close()
	return s.send(wire.Message{Conn: &wire.Conn{Local: local, Datagrams: datagrams}}, int(conn.Fd()))
}

// Fetch gets one document, once in a session. A refusal means that nothing has
// left this host. The error is that of ctx, or wraps ErrClosed or ErrDied.
// What came before it is not returned.
func (s *Session) Fetch(ctx context.Context, f envelope.Fetch) (envelope.Fetched, *envelope.Refusal, error) {
	get := &fetching{done: make(chan struct{}), limit: s.p.limits.FetchBytes}
	s.mu.Lock()
	again := s.fetch != nil
	if !again {
		s.fetch = get
	}
	s.mu.Unlock()
	if again {
		return envelope.Fetched{}, nil, errors.New("egress: a session fetches once")
	}
	defer s.p.bound(s.p.limits.FetchTotal + s.p.times.end)()
	if err := s.send(wire.Message{Fetch: &wire.Fetch{Fetch: f}}); err != nil {
		return envelope.Fetched{}, nil, err
	}
	select {
	case <-get.done:
	case <-s.ended: // what came last may have been the answer
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case get.over:
		return get.answer, get.refusal, nil
	case ctx.Err() != nil:
		get.unwanted = true
		return envelope.Fetched{}, nil, ctx.Err()
	case s.finished:
		return envelope.Fetched{}, nil, ErrClosed
	}
	return envelope.Fetched{}, nil, s.p.died()
}

// Close ends the session: what there is of connections is cut, and nothing of
// the call is held any more. It returns what was tried, also beside an error,
// which wraps ErrDied where the process died before it had told all, and is
// gone (the answer is Incomplete then, and has what was open), and ErrLeft where
// nobody knows whether it is. It is idempotent, and bounded in time whatever ctx
// says: a process that does not answer within five seconds is ended.
func (s *Session) Close(context.Context) (envelope.Egress, error) {
	s.closing.Do(s.end)
	s.tunnels.end()
	s.mu.Lock()
	seen, told, finished := s.seen, s.told, s.finished
	seen.Attempts = slices.Concat(seen.Attempts, s.open) // Done has left none open
	s.mu.Unlock()
	if !told {
		seen = counted(seen)
	}
	seen.Incomplete = !finished
	if finished {
		return seen, nil
	}
	return seen, s.p.buried()
}

// end asks for the end and waits for it.
func (s *Session) end() {
	s.tunnels.stop()
	defer s.p.bound(s.p.times.end)()
	s.turn.Lock()
	s.ending = true
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	err := s.p.send(s.conn, wire.Message{End: &wire.End{}})
	s.turn.Unlock()
	if err != nil && !s.over() {
		s.p.die(hungUp(err))
	}
	<-s.ended
}

func (s *Session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// counted counts the attempts that came, where the process died before it could
// say what there was in all.
func counted(e envelope.Egress) envelope.Egress {
	for _, a := range e.Attempts {
		switch a.Verdict {
		case envelope.VerdictAllowed:
			e.Connections++
		case envelope.VerdictCut:
			e.Connections++
			e.Denied++
		case envelope.VerdictDenied:
			e.Denied++
		case envelope.VerdictFailed:
			e.Failed++
		}
		e.Sent += a.Sent
		e.Received += a.Received
	}
	return e
}
