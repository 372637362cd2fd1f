package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/fetch"
	"github.com/callcell/callcell/internal/egress/wire"
)

func TestConnectionsAreBounded(t *testing.T) { bothWays(t, testConnectionsAreBounded) }

func testConnectionsAreBounded(t *testing.T, w way) {
	for name, row := range map[string]struct {
		limits func(*wire.Limits)
		again  bool // one more goes when one has ended
		why    string
	}{
		"of a call at once":    {func(l *wire.Limits) { l.Connections = 3 }, true, "too many connections of this call are open"},
		"of all calls at once": {func(l *wire.Limits) { l.AllConnections = 3 }, true, "too many connections of all calls are open"},
		"of a call in all":     {func(l *wire.Limits) { l.CallConnections = 3 }, false, "the call's 3 connections are used up"},
	} {
		f := newFront(t, setup{way: w, names: loopback1, limits: row.limits})
		port := origin(t, "127.0.0.1:0", echo)
		s := f.begin(t, network(allow("allowed.test", "tcp", port)))
		first := s.open("allowed.test", port)
		s.open("allowed.test", port)
		s.open("allowed.test", port)
		addr, _ := s.lookup("allowed.test")
		s.reset(at(addr, port))
		s.expect(1, "allowed.test", port, envelope.VerdictDenied, row.why)
		s.reset(proxyAt)
		s.expect(2, "127.0.0.53", 3128, envelope.VerdictDenied, row.why)
		s.reset(at(addr, port))
		s.expect(3, "allowed.test", port, envelope.VerdictDenied, row.why)
		if _, err := said(t, first, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.expect(4, "allowed.test", port, envelope.VerdictAllowed, "")
		if row.again {
			s.opens(addr, port)
		} else {
			s.reset(at(addr, port))
		}
		s.end()
	}
}

// opens connects until there is a place: that of a connection is free a moment
// after its line was said.
func (s *session) opens(addr netip.Addr, port int) {
	s.t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		c := s.connect(at(addr, port))
		if _, err := io.WriteString(c, "x"); err != nil {
			continue // it is reset
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			return
		}
	}
	s.t.Error("no place is free")
}

func TestBytesAreBounded(t *testing.T) { bothWays(t, testBytesAreBounded) }

func testBytesAreBounded(t *testing.T, w way) {
	const most = 100_000
	f := newFront(t, setup{way: w, names: loopback1, limits: func(l *wire.Limits) { l.Bytes = most }})
	got := make(chan int64, 1)
	port := origin(t, "127.0.0.1:0", func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		got <- n
	})
	s := f.begin(t, network(allow("allowed.test", "tcp", port)))
	_, _ = io.WriteString(s.reach("allowed.test", port), strings.Repeat("x", 2*most)) // it is reset
	s.expect(1, "allowed.test", port, envelope.VerdictCut, "the call's 100000 bytes are used up")
	if n := <-got; n > most {
		t.Errorf("%d bytes have left", n)
	}
	s.end()
}

func TestNamesAreBounded(t *testing.T) { bothWays(t, testNamesAreBounded) }

func testNamesAreBounded(t *testing.T, w way) {
	f := newFront(t, setup{way: w, limits: func(l *wire.Limits) { l.Names = 2 }})
	s := f.begin(t, network(allow("*.many.test", "tcp", 7)))
	for i, want := range []dnsmessage.RCode{0, 0, dnsmessage.RCodeRefused} {
		if _, rcode := s.lookup(fmt.Sprintf("n%d.many.test", i)); rcode != want {
			t.Errorf("name %d: %v", i, rcode)
		}
	}
	s.expect(1, "n2.many.test", 0, envelope.VerdictDenied, "at most 2 names")
	if got := s.end(); got.Names != 3 || got.Denied != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFloodsCostCountersOnly has a front that does not read while names are
// asked for and connections made by the thousand.
func TestFloodsCostCountersOnly(t *testing.T) {
	const floods = 3000
	f := newFront(t, setup{names: loopback1, limits: func(l *wire.Limits) { l.CallConnections = 2 * floods }})
	port := origin(t, "127.0.0.1:0", echo)
	sp := newSpace(t)
	s := f.open(t, network(allow("allowed.test", "tcp", port)), []wire.Socket{{Use: wire.UseDNS}, {Use: wire.UseListen, Port: port}},
		[]*os.File{sp.packets(t, "127.0.0.53:53"), sp.listen(t, fmt.Sprintf("0.0.0.0:%d", port))})
	s.space = sp
	if m := f.receive(t, s.conn); m.Ready == nil {
		t.Fatalf("%+v", m)
	}
	for i := range floods {
		s.lookup(fmt.Sprintf("x%d.leak.test", i))
	}
	for range floods {
		s.reset("198.18.200.1:" + fmt.Sprint(port))
	}
	c := s.open("allowed.test", port) // nothing is held up
	_ = c.Close()
	s.follow()
	got := s.end()
	if got.Names != floods+1 || got.Denied != 2*floods || got.Connections != 1 || len(s.lines) != envelope.MaxAttempts || got.More != 2*floods+1-envelope.MaxAttempts {
		t.Errorf("%d lines, %+v", len(s.lines), got)
	}
}

// TestConnectionsWithFullBuffersCostLittle opens connections to a server that
// does not read, fills what there is to be filled, and has many more refused.
func TestConnectionsWithFullBuffersCostLittle(t *testing.T) {
	bothWays(t, testConnectionsWithFullBuffersCostLittle)
}

func testConnectionsWithFullBuffersCostLittle(t *testing.T, w way) {
	const most = 32
	f := newFront(t, setup{way: w, names: loopback1, limits: func(l *wire.Limits) { l.Connections, l.Bytes = most, 1<<40 }})
	ended := make(chan struct{})
	port := origin(t, "127.0.0.1:0", func(c net.Conn) { <-ended })
	defer close(ended)
	s := f.begin(t, network(allow("allowed.test", "tcp", port)))
	addr, _ := s.lookup("allowed.test")
	before := heap()
	for range most {
		c := s.connect(at(addr, port))
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = io.Copy(c, endless{}) // until nothing more goes
	}
	for range 1000 {
		s.reset(at(addr, port))
	}
	if more := heap() - before; more > most*(2*32<<10)+8<<20 { // half of it is the test's own side
		t.Errorf("%d KiB more", more>>10)
	}
	if got := s.end(); got.Denied != 1000 || got.Connections != most {
		t.Errorf("%+v", got)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// shortOf is a listener that has nothing to give at first.
type shortOf struct {
	net.Listener
	fails int
}

func (l *shortOf) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, errors.New("too many open files")
	}
	return nil, net.ErrClosed
}

func TestAcceptWaitsWhereDescriptorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := &shortOf{fails: 10}
		if _, err := (patient{l, t.Context()}).Accept(); !errors.Is(err, net.ErrClosed) || l.fails != -1 {
			t.Errorf("%v, %d", err, l.fails)
		}
		if took := time.Since(start); took < 2*time.Second || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := (patient{&shortOf{fails: 1 << 30}, ctx}).Accept(); err == nil || errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// fetcher is a fetch that does what the test says.
type fetcher func(ctx context.Context, pol fetch.Judge, req wire.Fetch, emit func([]byte) error) wire.Fetched

func (f fetcher) Fetch(ctx context.Context, _ string, pol fetch.Judge, req wire.Fetch, emit func([]byte) error) wire.Fetched {
	return f(ctx, pol, req, emit)
}

func TestAFaultEndsTheCallsWayOutAndNothingElse(t *testing.T) {
	bothWays(t, testAFaultEndsTheCallsWayOutAndNothingElse)
}

func testAFaultEndsTheCallsWayOutAndNothingElse(t *testing.T, w way) {
	fault := fetcher(func(context.Context, fetch.Judge, wire.Fetch, func([]byte) error) wire.Fetched {
		panic("words of a stranger")
	})
	f := newFront(t, setup{way: w, names: loopback1, fetch: fault})
	port := origin(t, "127.0.0.1:0", echo)
	a := f.begin(t, network(allow("allowed.test", "tcp", port)))
	b := f.begin(t, network(allow("allowed.test", "tcp", port)))
	open := a.open("allowed.test", port)
	other := b.open("allowed.test", port)
	a.f.send(t, a.conn, wire.Message{Fetch: &wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/"}}})
	if _, err := io.ReadAll(open); err == nil {
		t.Error("its connection goes on")
	}
	if got := a.end(); got.Connections != 1 {
		t.Errorf("%+v", got)
	}
	if got, err := said(t, other, "still"); err != nil || got != "still" {
		t.Errorf("%q %v", got, err)
	}
	b.end()
	_ = f.control.Close()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
	f.ended <- nil
	if got := f.log.String(); !strings.Contains(got, "a fault of ours ended a call's way out, at bounds_linux_test.go:") || strings.Contains(got, "stranger") {
		t.Errorf("%q", got)
	}
}
