package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A guest hands over connections of its programs.
type guest struct {
	t     *testing.T
	queue chan cell.Tunnel
	ended chan struct{} // closed when nobody takes any more
}

func newGuest(t *testing.T) *guest {
	return &guest{t: t, queue: make(chan cell.Tunnel), ended: make(chan struct{})}
}

// Accept implements cell.Tunnels.
func (g *guest) Accept(ctx context.Context) (cell.Tunnel, error) {
	select {
	case t := <-g.queue:
		return t, nil
	case <-ctx.Done():
		close(g.ended)
		return nil, ctx.Err()
	}
}

// tunnel is a connection of a program's.
type tunnel struct {
	*net.UnixConn
	local     netip.AddrPort
	datagrams bool

	mu    sync.Mutex // guards what follows
	reset bool
}

func (t *tunnel) Local() netip.AddrPort { return t.local }
func (t *tunnel) Datagrams() bool       { return t.datagrams }

func (t *tunnel) Reset() error {
	t.mu.Lock()
	t.reset = true
	t.mu.Unlock()
	return t.Close()
}

func (t *tunnel) wasReset() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reset
}

// connect has a program connect, and returns its end.
func (g *guest) connect(local netip.AddrPort, datagrams bool) (*net.UnixConn, *tunnel) {
	g.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "program")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			g.t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	g.t.Cleanup(func() { _ = ends[0].Close() })
	t := &tunnel{UnixConn: ends[1], local: local, datagrams: datagrams}
	g.queue <- t
	return ends[0], t
}

// lookup asks the name server by datagram.
func lookup(t *testing.T, c io.ReadWriter, name string) netip.Addr {
	t.Helper()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 9}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	if _, err := io.ReadFull(c, buf[:2]); err != nil {
		t.Fatal(err)
	}
	buf = buf[:binary.BigEndian.Uint16(buf)]
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf); err != nil {
		t.Fatal(err)
	}
	if len(m.Answers) == 0 {
		return netip.Addr{}
	}
	return netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
}

// withGuest opens a session whose connections a guest hands over.
func withGuest(t *testing.T, c *Client, n envelope.Network) (*Session, *guest) {
	t.Helper()
	g := newGuest(t)
	s, err := c.Open(t.Context(), Call{ID: "c1", Team: "blue", Network: n, Tunnels: g})
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// reach has a program look a name up and connect to it.
func (g *guest) reach(name string, port int) *net.UnixConn {
	g.t.Helper()
	names, _ := g.connect(netip.MustParseAddrPort("127.0.0.53:53"), true)
	at := lookup(g.t, names, name)
	_ = names.Close()
	program, _ := g.connect(netip.AddrPortFrom(at, uint16(port)), false)
	return program
}

// TestTheRealProcessCarriesWhatAGuestHandsOver: by name, as sockets in a cell do.
func TestTheRealProcessCarriesWhatAGuestHandsOver(t *testing.T) {
	c, _, n := world(t)
	s, g := withGuest(t, c, n)
	if !strings.HasPrefix(s.CA(), "-----BEGIN CERTIFICATE-----") {
		t.Errorf("%q", s.CA())
	}
	names, _ := g.connect(netip.MustParseAddrPort("127.0.0.53:53"), true)
	allowed := lookup(t, names, "allowed.test")
	if got := lookup(t, names, "denied.test"); got.IsValid() {
		t.Errorf("denied.test is %v", got)
	}
	port := n.Allow[0].Ports[0]
	host := "allowed.test:" + strconv.Itoa(port)
	program, way := g.connect(netip.AddrPortFrom(allowed, uint16(port)), false)
	if _, err := io.WriteString(program, "GET /path HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(program); err != nil || !strings.HasSuffix(string(got), "you asked "+host+" for /path") {
		t.Errorf("%q, %v", got, err)
	}
	if way.wasReset() {
		t.Error("a good end was a reset")
	}
	program, way = g.connect(netip.AddrPortFrom(allowed, 443), false)
	if got, _ := io.ReadAll(program); len(got) > 0 || !way.wasReset() {
		t.Errorf("%q, reset %v", got, way.wasReset())
	}
	e := shut(t, s)
	if e.Connections != 1 || e.Denied != 2 || e.Names != 2 || len(e.Attempts) != 3 || e.Received == 0 {
		t.Errorf("%+v", e)
	}
	<-g.ended
}

// TestTunnelsOfADeadProcess are reset, those that are open and those that come.
func TestTunnelsOfADeadProcess(t *testing.T) {
	came, died := make(chan struct{}), make(chan struct{})
	c, _ := client(t, part{conn: func(_ *fake, _ *peer, _ *wire.Conn, fd int) {
		close(came)
		<-died
		_ = unix.Close(fd) // as the kernel does
	}})
	g := newGuest(t)
	s, err := c.Open(t.Context(), Call{ID: "c1", Tunnels: g})
	if err != nil {
		t.Fatal(err)
	}
	open, _ := g.connect(here(), false)
	<-came
	c.current.die(errSilent)
	close(died)
	if _, err := io.ReadAll(open); err != nil {
		t.Error(err)
	}
	late, way := g.connect(here(), false)
	if _, err := io.ReadAll(late); err != nil || !way.wasReset() {
		t.Errorf("%v, reset %v", err, way.wasReset())
	}
	if _, err := s.Close(t.Context()); !errors.Is(err, ErrDied) {
		t.Error(err)
	}
	<-g.ended
}

// TestASessionEndsWhileItsTunnelsAreOpen, and leaves none.
func TestASessionEndsWhileItsTunnelsAreOpen(t *testing.T) {
	leak.Check(t)
	c, _, n := world(t)
	s, g := withGuest(t, c, n)
	names, _ := g.connect(netip.MustParseAddrPort("127.0.0.53:53"), true)
	allowed := lookup(t, names, "allowed.test")
	var open []*net.UnixConn
	for range 8 {
		program, _ := g.connect(netip.AddrPortFrom(allowed, uint16(n.Allow[0].Ports[0])), false)
		open = append(open, program)
	}
	shut(t, s)
	for _, program := range append(open, names) {
		if _, err := io.ReadAll(program); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatAGuestHandsOverIsPaced: each costs us far more than a guest that makes
// it up, and beyond what its call may have in all each is refused.
func TestWhatAGuestHandsOverIsPaced(t *testing.T) {
	const all = 10
	c, _, n := world(t, func(o *Options) {
		o.Limits = Defaults()
		o.Limits.CallConnections = all
	})
	c.times.hand = time.Hour
	s, g := withGuest(t, c, n)
	nowhere := netip.MustParseAddrPort("198.18.0.9:9")
	for range all {
		program, way := g.connect(nowhere, false)
		if got, _ := io.ReadAll(program); len(got) > 0 || !way.wasReset() {
			t.Fatalf("%q, reset %v", got, way.wasReset())
		}
	}
	_, late := g.connect(nowhere, false)
	select {
	case g.queue <- late:
		t.Error("more are taken at once")
	case <-time.After(50 * time.Millisecond): // nobody takes it, however long
	}
	if e := shut(t, s); e.Denied != all || !late.wasReset() {
		t.Errorf("%+v, reset %v", e, late.wasReset())
	}
}
