package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/relay"
	"github.com/callcell/callcell/internal/egress/wire"
)

var loopback1 = map[string][]string{"allowed.test.": {"127.0.0.1"}, "other.test.": {"127.0.0.1"}, "inside.test.": {"127.0.0.3"}}

func TestANameIsResolvedConnectedAndCounted(t *testing.T) {
	bothWays(t, testANameIsResolvedConnectedAndCounted)
}

func testANameIsResolvedConnectedAndCounted(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	port := origin(t, "127.0.0.1:0", echo)
	s := f.begin(t, network(allow("allowed.test", "tcp", port)))
	s.lookup("allowed.test")
	if got := f.resolver.Asked(); len(got) != 0 {
		t.Errorf("asked before a connection: %q", got)
	}
	c := s.reach("allowed.test", port)
	if got, err := said(t, c, "hello"); err != nil || got != "hello" {
		t.Errorf("%q %v", got, err)
	}
	a := s.expect(1, "allowed.test", port, envelope.VerdictAllowed, `network.allow[0] "allowed.test"`)
	if a.Sent != 5 || a.Received != 5 || a.Protocol != "tcp" || a.Unchecked != "content" || a.Address != fmt.Sprintf("127.0.0.1:%d", port) || a.Took <= 0 {
		t.Errorf("%+v", a)
	}
	got := s.end()
	if want := (envelope.Egress{Connections: 1, Names: 1, Sent: 5, Received: 5}); got.Connections != 1 || got.Names != 1 || got.Sent != 5 || got.Received != 5 || got.Denied != 0 || got.Failed != 0 || got.More != 0 || len(got.Attempts) != 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestNoQuestionLeavesForANameThatIsNotAllowed(t *testing.T) {
	bothWays(t, testNoQuestionLeavesForANameThatIsNotAllowed)
}

func testNoQuestionLeavesForANameThatIsNotAllowed(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	s := f.begin(t, network(allow("allowed.test", "tcp", 7)))
	for _, name := range []string{"denied.test", "a.allowed.test", "c2vjcmv0.leak.test", "test"} {
		if a, rcode := s.lookup(name); rcode != dnsmessage.RCodeNameError {
			t.Errorf("%s: %v %v", name, a, rcode)
		}
	}
	s.expect(1, "denied.test", 0, envelope.VerdictDenied, "no entry")
	s.expect(2, "a.allowed.test", 0, envelope.VerdictDenied, "")
	proxied := s.connect("127.0.0.53:3128")
	if got, _ := said(t, proxied, "CONNECT bb.leak.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("%q", got)
	}
	if got := s.end(); got.Names != 4 || got.Denied != 5 {
		t.Errorf("%+v", got)
	}
	if got := f.resolver.Asked(); len(got) != 0 {
		t.Errorf("asked: %q", got)
	}
}

func TestConnectionsThatAreRefused(t *testing.T) { bothWays(t, testConnectionsThatAreRefused) }

func testConnectionsThatAreRefused(t *testing.T, w way) {
	hits := 0
	inside := origin(t, "127.0.0.3:0", func(net.Conn) { hits++ })
	f := newFront(t, setup{way: w, names: loopback1})
	s := f.begin(t, network(allow("allowed.test", "tcp", 7), allow("other.test", "tcp", 9), allow("inside.test", "tcp", inside)))
	allowed, _ := s.lookup("allowed.test")
	for i, row := range []struct {
		to, host string
		port     int
		why      string
	}{
		{at(allowed, 9), "allowed.test", 9, "port"},
		{"198.18.77.7:7", "198.18.77.7", 7, "no name of this call has the address"},
		{"127.0.0.1:7", "127.0.0.1", 7, ""},
		{"127.0.0.53:9", "127.0.0.53", 9, ""},
	} {
		s.reset(row.to)
		s.expect(i+1, row.host, row.port, envelope.VerdictDenied, row.why)
	}
	addr, _ := s.lookup("inside.test")
	s.reset(at(addr, inside))
	s.expect(5, "inside.test", inside, envelope.VerdictDenied, "resolved address not allowed: 127.0.0.3")
	if _, err := s.space.dial("tcp4", at(allowed, 8)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port of no entry: %v", err)
	}
	if got := s.end(); got.Denied != 5 || got.Connections != 0 || hits != 0 {
		t.Errorf("%+v, %d hits", got, hits)
	}
}

func TestAnAddressThatIsListedIsReachedAsItIs(t *testing.T) {
	bothWays(t, testAnAddressThatIsListedIsReachedAsItIs)
}

func testAnAddressThatIsListedIsReachedAsItIs(t *testing.T, w way) {
	f := newFront(t, setup{way: w})
	port := origin(t, "127.0.0.9:0", echo)
	n := network(allow("127.0.0.9", "tcp", port))
	n.Private = append(n.Private, envelope.Private{CIDR: "127.0.0.9/32", Why: "the test's origin"})
	s := f.begin(t, n)
	if got, err := said(t, s.connect(at(netip.MustParseAddr("127.0.0.9"), port)), "hello"); err != nil || got != "hello" {
		t.Errorf("%q %v", got, err)
	}
	s.expect(1, "127.0.0.9", port, envelope.VerdictAllowed, "network.allow[0]")
	if got := f.resolver.Asked(); len(got) != 0 {
		t.Errorf("asked: %q", got)
	}
	s.end()
}

func TestAHostThatIsNotReachedIsSaidSo(t *testing.T) { bothWays(t, testAHostThatIsNotReachedIsSaidSo) }

func testAHostThatIsNotReachedIsSaidSo(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	s := f.begin(t, network(allow("allowed.test", "tcp", 1), allow("gone.test", "tcp", 1)))
	for i, row := range []struct{ name, why string }{{"allowed.test", "the connection was refused"}, {"gone.test", "there is no such name"}} {
		addr, _ := s.lookup(row.name)
		s.reset(at(addr, 1))
		s.expect(i+1, row.name, 1, envelope.VerdictFailed, row.why)
	}
	if got := s.end(); got.Failed != 2 {
		t.Errorf("%+v", got)
	}
}

// TestAGuestThatLies says of connections what nothing in a cell could: they are
// judged by what it says, and get no further for it.
func TestAGuestThatLies(t *testing.T) {
	f := newFront(t, setup{names: loopback1})
	port := origin(t, "127.0.0.1:0", echo)
	s := f.begin(t, network(allow("allowed.test", "tcp", port)))
	allowed, _ := s.lookup("allowed.test")
	for i, row := range []struct {
		local netip.AddrPort
		host  string
		port  int
		why   string
	}{
		{netip.AddrPort{}, "", 0, ""},
		{netip.AddrPortFrom(allowed, 0), "allowed.test", 0, "port"},
		{netip.AddrPortFrom(allowed, 1), "allowed.test", 1, "port"},
		{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)), "127.0.0.1", port, ""},
		{netip.MustParseAddrPort("169.254.169.254:80"), "169.254.169.254", 80, ""},
		{netip.MustParseAddrPort("[::ffff:127.0.0.1]:80"), "127.0.0.1", 80, ""},
		{netip.MustParseAddrPort("[fe80::1%eth0]:80"), "", 80, ""},
		{netip.MustParseAddrPort("198.18.77.7:80"), "198.18.77.7", 80, "no name of this call has the address"},
	} {
		front, its, err := relay.Pair()
		if err != nil {
			t.Fatal(err)
		}
		s.tunnel(row.local, false, its)
		_, _ = io.WriteString(front, "hello") // it may be closed already
		if b, _ := io.ReadAll(front); len(b) > 0 {
			t.Errorf("%v: %q", row.local, b)
		}
		_ = front.Close()
		if a := s.line(i + 1); a.Verdict != envelope.VerdictDenied || a.Port != row.port || row.host != "" && a.Host != row.host || !strings.Contains(a.Why, row.why) {
			t.Errorf("%v: %+v", row.local, a)
		}
	}
	if got := s.end(); got.Connections != 0 || len(f.resolver.Asked()) != 0 {
		t.Errorf("%+v, asked %q", got, f.resolver.Asked())
	}
}

// TestWhatNobodyHandsOverIsClosed has files that are no sockets, and more
// exchanges with the name server than there may be.
func TestWhatNobodyHandsOverIsClosed(t *testing.T) {
	f := newFront(t, setup{names: loopback1})
	s := f.begin(t, network(allow("allowed.test", "tcp", 7)))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.tunnel(netip.MustParseAddrPort("198.18.1.0:7"), false, w)
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 { // to the end: nobody else has w
		t.Errorf("%q %v", b, err)
	}
	for range mostExchanges {
		front, its, err := relay.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer front.Close()
		s.tunnel(netip.MustParseAddrPort("127.0.0.53:53"), true, its)
		if _, err := front.Write([]byte{0, 1, 'x'}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(front, make([]byte, 2)); err != nil { // no question: an empty answer
			t.Fatal(err)
		}
	}
	front, its, err := relay.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	s.tunnel(netip.MustParseAddrPort("127.0.0.53:53"), true, its)
	if b, err := io.ReadAll(front); err != nil || len(b) > 0 {
		t.Errorf("one more exchange: %q %v", b, err)
	}
	s.end()
}

// TestABrokenConnectionIsNoEnd has an origin that breaks off in the middle, by
// tunnel: what the program sees is no end, though it has said all before.
func TestABrokenConnectionIsNoEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		f := newFront(t, setup{way: w, names: loopback1})
		port := origin(t, "127.0.0.1:0", func(c net.Conn) {
			_, _ = io.ReadAll(c) // the program has said all
			_, _ = io.WriteString(c, "half an ans")
			_ = c.(*net.TCPConn).SetLinger(0)
		})
		s := f.begin(t, network(allow("allowed.test", "tcp", port)))
		if _, err := said(t, s.reach("allowed.test", port), "hello"); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v", err)
		}
		s.expect(1, "allowed.test", port, envelope.VerdictAllowed, "broke")
		s.end()
	})
}

// TestAProgramThatBreaksOffIsSeen: it has not just said all.
func TestAProgramThatBreaksOffIsSeen(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		f := newFront(t, setup{way: w, names: loopback1})
		got := make(chan error, 1)
		port := origin(t, "127.0.0.1:0", func(c net.Conn) {
			_, _ = c.Write([]byte("x"))
			_, err := io.ReadAll(c)
			got <- err
		})
		s := f.begin(t, network(allow("allowed.test", "tcp", port)))
		c := s.reach("allowed.test", port)
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v", err)
		}
		s.expect(1, "allowed.test", port, envelope.VerdictAllowed, "")
		s.end()
	})
}

// open is a connection on which something has been said both ways.
func (s *session) open(name string, port int) net.Conn {
	s.t.Helper()
	c := s.reach(name, port)
	if _, err := io.WriteString(c, "x"); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestNothingIsHandedToWhoHasEnded: what comes while a call ends is refused then,
// and not put where nobody looks any more.
func TestNothingIsHandedToWhoHasEnded(t *testing.T) {
	h, early, late := newHanded(), &tunnelled{}, &tunnelled{}
	if !h.give(early) {
		t.Fatal("there is room")
	}
	if c, err := h.Accept(); err != nil || c != early {
		t.Fatal(c, err)
	}
	_, _ = h.Close(), h.Close()
	if _, err := h.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if h.give(late) {
		t.Error("it is taken")
	}
}

func TestAfterDoneNothingIsHeld(t *testing.T) { bothWays(t, testAfterDoneNothingIsHeld) }

func testAfterDoneNothingIsHeld(t *testing.T, w way) {
	for name, end := range map[string]func(*session){
		"end": func(s *session) {
			if got := s.end(); got.Connections != 4 {
				t.Errorf("%+v", got)
			}
		},
		"hang up":                func(s *session) { _ = s.conn.Close() },
		"control hangs up":       func(s *session) { _ = s.f.control.Close() },
		"what is not said there": func(s *session) { s.f.send(t, s.conn, wire.Message{Hello: &wire.Hello{}}) },
	} {
		f := newFront(t, setup{way: w, names: loopback1})
		port := origin(t, "127.0.0.1:0", echo)
		s := f.begin(t, network(allow("allowed.test", "tcp", port)))
		var open []net.Conn
		for range 4 {
			open = append(open, s.open("allowed.test", port))
		}
		idle := s.connect("127.0.0.53:3128")
		asking := s.connect("127.0.0.53:53")
		end(s)
		for _, c := range append(open, idle, asking) {
			if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, addr := range []string{"127.0.0.53:3128", "127.0.0.53:53", at(netip.MustParseAddr("198.18.1.0"), port)} {
			s.unserved(name, addr)
		}
	}
}

// unserved waits until nobody serves an address. Who hangs up does not wait for
// the end of the call: what comes just then may be taken, and is closed.
func (s *session) unserved(name, addr string) {
	s.t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		c, err := s.space.dial("tcp4", addr)
		if err != nil {
			return
		}
		_, err = io.ReadAll(c)
		if _ = c.Close(); err != nil {
			return
		}
	}
	s.t.Errorf("%s: %s is still served", name, addr)
}

func TestTwoCallsKnowNothingOfEachOther(t *testing.T) {
	bothWays(t, testTwoCallsKnowNothingOfEachOther)
}

func testTwoCallsKnowNothingOfEachOther(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	port := origin(t, "127.0.0.1:0", echo)
	a := f.begin(t, network(allow("allowed.test", "tcp", port)))
	b := f.begin(t, network(allow("other.test", "tcp", port)))
	if addr, rcode := b.lookup("allowed.test"); rcode != dnsmessage.RCodeNameError {
		t.Errorf("%v %v", addr, rcode)
	}
	c := a.open("allowed.test", port)
	b.end()
	if got, err := said(t, c, "still"); err != nil || got != "still" {
		t.Errorf("%q %v", got, err)
	}
	if got := a.end(); got.Connections != 1 || got.Denied != 0 {
		t.Errorf("%+v", got)
	}
}

func TestACallThatCannotBegin(t *testing.T) {
	f := newFront(t, setup{})
	good := network(allow("allowed.test", "tcp", 7))
	null := func() *os.File {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, row := range map[string]struct {
		n       envelope.Network
		sockets []wire.Socket
		files   []*os.File
		why     string
	}{
		"a bad network":    {network(allow("*.com", "tcp", 7)), nil, nil, "network.allow[0].host"},
		"no socket":        {good, []wire.Socket{{Use: wire.UseListen, Port: 7}}, []*os.File{null()}, "socket 1"},
		"no such use":      {good, []wire.Socket{{Use: "raw"}}, []*os.File{null()}, `its use is "raw"`},
		"no packet socket": {good, []wire.Socket{{Use: wire.UseDNS}}, []*os.File{null()}, "socket 1"},
		"another port":     {good, []wire.Socket{{Use: wire.UseProxy}, {Use: wire.UseListen, Port: 7}}, []*os.File{listening(t), listening(t)}, "socket 2: it is at port"},
	} {
		s := f.open(t, row.n, row.sockets, row.files)
		if m := f.receive(t, s.conn); m.Refused == nil || !strings.Contains(m.Refused.Why, row.why) {
			t.Errorf("%s: %+v", name, m)
		}
		if _, err := next(s.conn); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := f.open(t, good, nil, nil) // and the process goes on
	if m := f.receive(t, s.conn); m.Ready == nil || m.Ready.CA != "" {
		t.Errorf("%+v", m)
	}
}

// listening is a socket that listens at a port of its own.
func listening(t testing.TB) *os.File {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
