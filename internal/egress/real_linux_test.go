package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/serve"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A real is the egress process itself, in this one.
type real struct {
	fd   int // a second one of its control conversation
	done chan error
}

// reals starts them.
type reals struct {
	mu  sync.Mutex // guards the following
	all []*real
}

// StartEgress implements Starter.
func (s *reals) StartEgress(_ context.Context, control *os.File) (Process, error) {
	r := &real{done: make(chan error, 1)}
	its, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		r.fd, err = unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	go func() { r.done <- serve.Run(its, serve.Options{}) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	return r, nil
}

// hangUp is the death of the process, as far as the front can see.
func (r *real) hangUp() error { return unix.Shutdown(r.fd, unix.SHUT_RDWR) }

// Close implements Process.
func (r *real) Close(context.Context) envelope.Report {
	_ = r.hangUp()
	unix.Close(r.fd)
	err := <-r.done
	return envelope.Report{Complete: err == nil, Checks: []envelope.Check{{What: "process", Gone: err == nil}}}
}

// world is a client of the real process, and a web server that allowed.test
// leads to.
func world(t *testing.T, change ...func(*Options)) (*Client, *reals, envelope.Network) {
	t.Helper()
	leak.Check(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "you asked "+r.Host+" for "+r.URL.Path)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	s := &reals{}
	o := Options{
		Resolvers: []string{"127.0.0.1:1"}, // nobody
		Hosts:     []wire.Host{{Name: "allowed.test", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}},
	}
	for _, f := range change {
		f(&o)
	}
	c := New(s, o)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	port := l.Addr().(*net.TCPAddr).Port
	return c, s, envelope.Network{
		Allow:   []envelope.Allow{{Host: "allowed.test", Ports: []int{port}, Protocol: envelope.ProtocolHTTP}, {Host: "inspected.test", Ports: []int{443}, Inspect: true}},
		Private: []envelope.Private{{CIDR: "127.0.0.1/32", Why: "the test's server"}},
	}
}

func begun(t *testing.T, c *Client, n envelope.Network, g *cell.Gate) *Session {
	t.Helper()
	s, err := c.Open(t.Context(), Call{ID: "c1", Team: "blue", Network: n, Gate: g})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheRealProcessFetches(t *testing.T) {
	c, _, n := world(t)
	s := begun(t, c, n, nil)
	host := "allowed.test:" + strconv.Itoa(n.Allow[0].Ports[0])
	got, refusal, err := s.Fetch(t.Context(), envelope.Fetch{URL: "http://" + host + "/path"})
	if err != nil || refusal != nil || got.Status != 200 || string(got.Body) != "you asked "+host+" for /path" || !got.Untrusted {
		t.Errorf("%+v, %v, %v", got, refusal, err)
	}
	if e := shut(t, s); e.Connections != 1 {
		t.Errorf("%+v", e)
	}
	s = begun(t, c, n, nil)
	if got, refusal, err := s.Fetch(t.Context(), envelope.Fetch{URL: "https://denied.test/"}); err != nil || refusal == nil || refusal.Reason != envelope.ReasonPolicy {
		t.Errorf("%+v, %v, %v", got, refusal, err)
	}
	shut(t, s)
}

// TestTheRealProcessServesAGate: its name server answers, until the call ends.
func TestTheRealProcessServesAGate(t *testing.T) {
	c, _, n := world(t)
	g := &cell.Gate{}
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	if g.DNS, err = pc.File(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []**os.File{&g.DNSTCP, &g.Proxy} {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if *to, err = l.File(); err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	s := begun(t, c, n, g)
	closed(t, g)
	if got := ask(t, pc.LocalAddr().String(), "allowed.test."); got != dnsmessage.RCodeSuccess {
		t.Errorf("allowed.test: %v", got)
	}
	if got := ask(t, pc.LocalAddr().String(), "denied.test."); got != dnsmessage.RCodeNameError {
		t.Errorf("denied.test: %v", got)
	}
	if e := shut(t, s); e.Names != 2 || e.Denied != 1 || len(e.Attempts) != 1 || e.Attempts[0].Host != "denied.test" {
		t.Errorf("%+v", e)
	}
}

// ask asks a name server for the address of a name.
func ask(t *testing.T, server, name string) dnsmessage.RCode {
	t.Helper()
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp4", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 512)
	size, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(answer[:size]); err != nil {
		t.Fatal(err)
	}
	return m.RCode
}

// TestTheRealProcessDies with connections open, and the next call has another.
func TestTheRealProcessDies(t *testing.T) {
	c, s, n := world(t)
	session, g := withGuest(t, c, n)
	conn := g.reach("allowed.test", n.Allow[0].Ports[0])
	if err := s.all[0].hangUp(); err != nil {
		t.Fatal(err)
	}
	dies(t, session)
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	shut(t, begun(t, c, n, nil))
	if len(s.all) != 2 {
		t.Errorf("%d processes, want 2", len(s.all))
	}
}

// TestTheRealProcessRefuses what is no network.
func TestTheRealProcessRefuses(t *testing.T) {
	c, s, n := world(t)
	n.Allow[0].Host = "*.com"
	if got, err := c.Open(t.Context(), Call{Network: n}); got != nil || !errors.Is(err, ErrRefused) {
		t.Errorf("%v, %v", got, err)
	}
	n.Allow[0].Host = "allowed.test"
	shut(t, begun(t, c, n, nil))
	if len(s.all) != 1 {
		t.Errorf("%d processes, want 1", len(s.all))
	}
}

// TestTheRealProcessUnderCancellation: fetches that nobody waits for, from many
// goroutines.
func TestTheRealProcessUnderCancellation(t *testing.T) {
	c, s, n := world(t)
	url := "http://allowed.test:" + strconv.Itoa(n.Allow[0].Ports[0]) + "/"
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for k := range 20 {
				session, err := c.Open(context.Background(), Call{Network: n})
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithCancel(context.Background())
				if k%2 == 0 {
					cancel()
				}
				if _, _, err := session.Fetch(ctx, envelope.Fetch{URL: url, Fresh: true}); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
				if _, err := session.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(s.all) != 1 {
		t.Errorf("%d processes, want 1", len(s.all))
	}
}
