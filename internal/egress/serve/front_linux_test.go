package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial/dialtest"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
	"github.com/callcell/callcell/internal/testing/leak"
	"github.com/callcell/callcell/internal/testing/listener"
)

const patience = time.Minute

// limits are those of the tests.
func limits() wire.Limits {
	return wire.Limits{
		Connections: 16, AllConnections: 64, CallConnections: 1000, Names: 8, Bytes: 64 << 20,
		Dial: patience, Idle: 10 * time.Minute, Total: 10 * time.Minute,
		FetchBytes: 1 << 20, FetchHeader: 64 << 10, FetchTotal: patience, FetchHops: 5,
		CacheEntries: 4, CacheFor: time.Minute, CacheBytes: 1 << 20, FetchPorts: []int{80, 443},
	}
}

// front plays the front's part.
type front struct {
	way      way
	control  *packet.Conn
	resolver *dialtest.Server
	waits    chan struct{} // a name was asked for that is not answered
	ended    chan error
	log      *strings.Builder
}

// setup changes what the process is told, and says how connections come to it.
type setup struct {
	way    way
	limits func(*wire.Limits)
	names  map[string][]string // of the resolver
	silent string              // a name that the resolver does not answer
	hosts  []wire.Host
	roots  []byte
	fetch  Fetcher
}

// newFront starts a process and sets it up.
func newFront(t testing.TB, s setup) *front {
	t.Helper()
	leak.Check(t)
	f := bareFront(t, Options{Fetch: s.fetch})
	f.way, f.waits = s.way, make(chan struct{}, 64)
	known := dialtest.Fixed(s.names)
	f.resolver = dialtest.New(t, func(name string, typ dnsmessage.Type) dialtest.Answer {
		if name == s.silent {
			f.waits <- struct{}{}
			return dialtest.Answer{Silent: true}
		}
		return known(name, typ)
	})
	m := &wire.Setup{Version: wire.Version, Resolvers: []string{f.resolver.Addr.String()}, Hosts: s.hosts, Limits: limits()}
	if s.limits != nil {
		s.limits(&m.Limits)
	}
	roots := file(t, s.roots)
	f.send(t, f.control, wire.Message{Setup: m}, roots)
	if got := f.receive(t, f.control); got.Hello == nil || got.Hello.Version != wire.Version {
		t.Fatalf("%+v", got)
	}
	return f
}

// bareFront starts a process that knows nothing yet.
func bareFront(t testing.TB, o Options) *front {
	t.Helper()
	ours, its := ends(t)
	f := &front{control: ours, ended: make(chan error, 1), log: &strings.Builder{}}
	o.Log = f.log
	go func() { f.ended <- Run(its, o) }()
	t.Cleanup(func() {
		_ = ours.Close() // some tests have closed it
		select {
		case err := <-f.ended:
			f.ended <- err
		case <-time.After(patience):
			t.Error("the process does not end")
		}
	})
	return f
}

// ends returns two ends of a conversation, one of them bare.
func ends(t testing.TB) (*packet.Conn, int) {
	t.Helper()
	a, b, err := packet.Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := packet.New(a, packet.Limits{Message: wire.MaxMessage, FDs: wire.MaxFDs})
	if err != nil {
		t.Fatal(err)
	}
	return c, b
}

// file is one with these bytes, whose position is at their end.
func file(t testing.TB, b []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

// send sends a message with files, which are closed.
func (f *front) send(t testing.TB, c *packet.Conn, m wire.Message, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	b, err := wire.Encode(m)
	if err == nil {
		err = c.Send(b, fds...)
	}
	for _, file := range files {
		_ = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f *front) receive(t testing.TB, c *packet.Conn) wire.Message {
	t.Helper()
	m, err := next(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func next(c *packet.Conn) (wire.Message, error) {
	if err := c.SetReceiveDeadline(time.Now().Add(patience)); err != nil {
		return wire.Message{}, err
	}
	b, fds, err := c.Receive()
	if err != nil {
		return wire.Message{}, err
	}
	if len(fds) > 0 {
		packet.CloseAll(fds)
		return wire.Message{}, errors.New("descriptors came")
	}
	return wire.Decode(b)
}

// session is one call.
type session struct {
	f     *front
	t     testing.TB
	conn  *packet.Conn
	space *space
	ca    string

	mu      sync.Mutex // guards what follows
	cond    *sync.Cond
	lines   []envelope.Attempt
	dialled map[attempt]bool // dialled
	body    []byte
	fetched *wire.Fetched
	done    *wire.Done
	err     error // the conversation ended
}

// begin begins a call with a space of its own: names, proxy, and listeners on
// the ports of the network.
func (f *front) begin(t testing.TB, n envelope.Network, list ...wire.Credential) *session {
	t.Helper()
	sp := newSpace(t)
	sockets := []wire.Socket{{Use: wire.UseDNS}, {Use: wire.UseDNSTCP}, {Use: wire.UseProxy}}
	files := []*os.File{sp.packets(t, "127.0.0.53:53"), sp.listen(t, "127.0.0.53:53"), sp.listen(t, "127.0.0.53:3128")}
	seen := map[int]bool{}
	for _, a := range n.Allow {
		for _, port := range a.Ports {
			if !seen[port] {
				seen[port] = true
				sockets = append(sockets, wire.Socket{Use: wire.UseListen, Port: port})
				files = append(files, sp.listen(t, fmt.Sprintf("0.0.0.0:%d", port)))
			}
		}
	}
	its, stand := sockets, files
	if f.way == byTunnel {
		sockets, files = nil, nil
	}
	s := f.open(t, n, sockets, files, list...)
	s.space = sp
	m := f.receive(t, s.conn)
	if m.Ready == nil {
		t.Fatalf("%+v", m.Refused)
	}
	s.ca = m.Ready.CA
	s.follow()
	if f.way == byTunnel {
		s.stand(its, stand)
	}
	return s
}

// open sends Begin, and the credentials, and returns the call's end.
func (f *front) open(t testing.TB, n envelope.Network, sockets []wire.Socket, files []*os.File, list ...wire.Credential) *session {
	t.Helper()
	conn, its := ends(t)
	sockets = append([]wire.Socket{{Use: wire.UseCall}}, sockets...)
	files = append([]*os.File{os.NewFile(uintptr(its), "call")}, files...)
	f.send(t, f.control, wire.Message{Begin: &wire.Begin{ID: "c1", Team: "blue", Network: n, Sockets: sockets, Granted: len(list) > 0}}, files...)
	f.grant(t, conn, list)
	s := &session{f: f, t: t, conn: conn, dialled: map[attempt]bool{}}
	s.cond = sync.NewCond(&s.mu)
	t.Cleanup(func() { _ = conn.Close() })
	return s
}

// follow takes what comes until the conversation ends.
func (s *session) follow() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := next(s.conn)
			s.take(m, err)
			if err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = s.conn.Close()
		<-ended
	})
}

func (s *session) take(m wire.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.cond.Broadcast()
	switch {
	case err != nil:
		s.err = err
	case m.Dialled != nil:
		s.dialled[attemptOf(*m.Dialled)] = true
	case m.Line != nil:
		if m.Line.Address != "" && !s.dialled[attemptOf(*m.Line)] {
			s.err = fmt.Errorf("nobody said that it was dialled: %+v", *m.Line)
		}
		delete(s.dialled, attemptOf(*m.Line))
		s.lines = append(s.lines, *m.Line)
	case m.Body != nil:
		s.body = append(s.body, m.Body.Data...)
	case m.Fetched != nil:
		s.fetched = m.Fetched
	case m.Done != nil:
		s.done = m.Done
	default:
		s.err = fmt.Errorf("unasked: %+v", m)
	}
}

// wait waits until what it wants has come.
func (s *session) wait(what string, come func() bool) {
	s.t.Helper()
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = errors.New("nothing came in time")
		s.cond.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !come() {
		if s.err != nil {
			s.t.Fatalf("no %s: %v; lines: %+v", what, s.err, s.lines)
		}
		s.cond.Wait()
	}
}

// line waits for the n-th line, from 1, and returns it.
func (s *session) line(n int) envelope.Attempt {
	s.t.Helper()
	s.wait(fmt.Sprintf("line %d", n), func() bool { return len(s.lines) >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[n-1]
}

// expect holds the n-th line to what matters of it.
func (s *session) expect(n int, host string, port int, verdict envelope.Verdict, why string) envelope.Attempt {
	s.t.Helper()
	a := s.line(n)
	if a.Host != host || a.Port != port || a.Verdict != verdict || !strings.Contains(a.Why, why) || a.At.IsZero() {
		s.t.Errorf("line %d: %+v, want %s:%d %s %q", n, a, host, port, verdict, why)
	}
	return a
}

// end ends the call and returns its counters.
func (s *session) end() envelope.Egress {
	s.t.Helper()
	s.f.send(s.t, s.conn, wire.Message{End: &wire.End{}})
	s.wait("Done", func() bool { return s.done != nil })
	return s.done.Egress
}

// lookup asks the cell's responder for the address of a name.
func (s *session) lookup(name string) (netip.Addr, dnsmessage.RCode) {
	s.t.Helper()
	c, err := s.space.dial("udp4", "127.0.0.53:53")
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 9}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.Pack()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 512)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(buf)
	var m dnsmessage.Message
	if err == nil {
		err = m.Unpack(buf[:n])
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if len(m.Answers) == 0 {
		return netip.Addr{}, m.RCode
	}
	return netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A), m.RCode
}

// reach looks a name up and connects to it, as a program does.
func (s *session) reach(name string, port int) net.Conn {
	s.t.Helper()
	a, rcode := s.lookup(name)
	if !a.IsValid() {
		s.t.Fatalf("%s: %v", name, rcode)
	}
	return s.connect(at(a, port))
}

func (s *session) connect(addr string) net.Conn {
	s.t.Helper()
	c, err := s.space.dial("tcp4", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// reset connects, and expects to be reset: then, or at once.
func (s *session) reset(addr string) {
	s.t.Helper()
	c, err := s.space.dial("tcp4", addr)
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = io.ReadAll(c)
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		s.t.Errorf("%s: %v", addr, err)
	}
}

// origin is a server on addr of this host.
func origin(t testing.TB, addr string, handle func(net.Conn)) (port int) {
	t.Helper()
	return int(listener.Start(t, addr, handle).Port())
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// network allows entries, and this host's 127.0.0.1.
func network(allow ...envelope.Allow) envelope.Network {
	return envelope.Network{Allow: allow, Private: []envelope.Private{{CIDR: "127.0.0.1/32", Why: "the test's origin"}}}
}

func allow(host, protocol string, ports ...int) envelope.Allow {
	return envelope.Allow{Host: host, Protocol: protocol, Ports: slices.Clone(ports)}
}

// said writes, ends its side, and returns all that comes.
func said(t testing.TB, c net.Conn, text string) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}
