package serve

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

func TestAnAllowedNameThatLeadsInsideIsDenied(t *testing.T) {
	bothWays(t, testAnAllowedNameThatLeadsInsideIsDenied)
}

func testAnAllowedNameThatLeadsInsideIsDenied(t *testing.T, w way) {
	var hits atomic.Int64
	port := origin(t, "127.0.0.1:0", func(net.Conn) { hits.Add(1) })
	names := map[string][]string{}
	n := envelope.Network{}
	for i, a := range []string{"127.0.0.1", "10.0.0.5", "169.254.169.254", "168.63.129.16", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::1", "fd00:ec2::254", "0.0.0.0"} {
		name := fmt.Sprintf("n%d.test", i)
		names[name+"."] = []string{a}
		n.Allow = append(n.Allow, allow(name, "tcp", port))
	}
	f := newFront(t, setup{way: w, names: names, limits: func(l *wire.Limits) { l.Names = len(names) }})
	s := f.begin(t, n)
	for i, a := range n.Allow {
		stands, _ := s.lookup(a.Host)
		s.reset(at(stands, port))
		s.expect(i+1, a.Host, port, envelope.VerdictDenied, "resolved address not allowed: ")
	}
	if s.end(); hits.Load() != 0 {
		t.Errorf("%d hits", hits.Load())
	}
}

func TestProxyVariablesOfTheDaemonAreNotUsed(t *testing.T) {
	var hits atomic.Int64
	proxy := origin(t, "127.0.0.1:0", func(net.Conn) { hits.Add(1) })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, fmt.Sprintf("http://127.0.0.1:%d", proxy))
	}
	f := newFront(t, setup{names: loopback1})
	port := web(t)
	s := f.begin(t, network(allow("allowed.test", "http", port)))
	c := s.reach("allowed.test", port)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: allowed.test:%d\r\nConnection: close\r\n\r\n", port); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || len(b) == 0 {
		t.Errorf("%q %v", b, err)
	}
	s.line(1)
	if got := s.fetch(fmt.Sprintf("http://allowed.test:%d/", port)); got.Status != 200 {
		t.Errorf("%+v", got)
	}
	if s.end(); hits.Load() != 0 {
		t.Errorf("%d hits", hits.Load())
	}
}

// TestTheEndCutsWhatIsUnderWay has requests that an origin does not answer, and
// a name that a resolver does not.
func TestTheEndCutsWhatIsUnderWay(t *testing.T) { bothWays(t, testTheEndCutsWhatIsUnderWay) }

func testTheEndCutsWhatIsUnderWay(t *testing.T, w way) {
	asked := make(chan struct{}, 1)
	port := origin(t, "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	f := newFront(t, setup{way: w, silent: "silent.test.", names: loopback1})
	s := f.begin(t, network(allow("allowed.test", "http", port), allow("silent.test", "tcp", 7)))
	c := s.reach("allowed.test", port)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: allowed.test:%d\r\n\r\n", port); err != nil {
		t.Fatal(err)
	}
	<-asked
	s.reach("silent.test", 7)
	<-f.waits // its question is there
	start := time.Now()
	got := s.end()
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	if got.Connections != 1 || got.Failed != 1 || got.Denied != 0 {
		t.Errorf("%+v: %+v", got, s.lines)
	}
}
