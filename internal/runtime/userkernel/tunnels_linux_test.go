package userkernel_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/listener"
)

// starter starts the real egress process, in its jail.
type starter struct{ launchers *link.Launchers }

// StartEgress implements egress.Starter.
func (s starter) StartEgress(ctx context.Context, control *os.File) (egress.Process, error) {
	return s.launchers.StartEgress(ctx, control)
}

// A net world is an egress process, and a server on this host's loopback that
// box.test leads to.
type netWorld struct {
	client *egress.Client
	port   int
	n      envelope.Network
	memory envelope.Size // of a cell; none is the default
}

// newNetWorld makes one. The server says what it was told, and breaks off where
// that is "break".
func newNetWorld(t testing.TB, g *ground) *netWorld {
	t.Helper()
	at := listener.Start(t, "127.0.0.1:0", func(c net.Conn) {
		b, _ := io.ReadAll(c) // what came is what it says
		if _, err := c.Write(b); err != nil || string(b) == "break" {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	})
	w := &netWorld{port: int(at.Port())}
	w.client = egress.New(starter{g.launchers}, egress.Options{
		Resolvers: []string{"127.0.0.1:1"}, // nobody
		Hosts: []wire.Host{{Name: "box.test", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "inside.test", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.3")}}},
	})
	t.Cleanup(func() {
		if err := w.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.n = envelope.Network{
		Allow:   []envelope.Allow{{Host: "box.test", Ports: []int{w.port}, Protocol: envelope.ProtocolTCP}, {Host: "inside.test", Ports: []int{w.port, 9}, Protocol: envelope.ProtocolTCP}},
		Private: []envelope.Private{{CIDR: "127.0.0.1/32", Why: "the test's server"}},
	}
	return w
}

// reach runs a program in a cell of a level, by whichever way its cells have,
// and returns what it says and what the row has.
func (w *netWorld) reach(t testing.TB, rt cell.Runtime, code string) (string, envelope.Egress) {
	t.Helper()
	s := shape()
	s.Envelope.Network = w.n
	if w.memory > 0 {
		s.Envelope.Resources.Memory = w.memory
	}
	c, err := rt.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	call := egress.Call{ID: s.ID, Network: w.n}
	switch powers := c.(type) {
	case cell.Gated:
		call.Gate, err = powers.Gate()
	case cell.Tunnelled:
		call.Tunnels, err = powers.Tunnels()
	default:
		t.Fatal("it has no way out")
	}
	if err != nil {
		t.Fatal(err)
	}
	session, err := w.client.Open(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	out := buffer{most: 1 << 20}
	x, err := c.Exec(context.Background(), cell.Command{Argv: []string{"/usr/bin/python3", "-c", fmt.Sprintf("PORT = %d\n", w.port) + code}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil || x.Code != 0 {
		t.Errorf("%s: %+v, %v, %s", rt.Level(), x, err, out.data)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	seen, err := session.Close(context.Background())
	if err != nil {
		t.Error(err)
	}
	return string(out.data), seen
}

// lines are the attempts of a row, as far as they are the same each time; their
// order is not.
func lines(e envelope.Egress) []string {
	var all []string
	for _, a := range e.Attempts {
		all = append(all, fmt.Sprintf("%s:%d %s %s %q %d %d %s", a.Host, a.Port, a.Protocol, a.Verdict, a.Why, a.Sent, a.Received, a.Unchecked))
	}
	slices.Sort(all)
	return append(all, fmt.Sprintf("%d connections, %d denied, %d failed, %d sent, %d received", e.Connections, e.Denied, e.Failed, e.Sent, e.Received))
}

const reaching = `
import errno, hashlib, os, socket

def say(what, f):
    try: print(what, f(), flush=True)
    except socket.gaierror as e: print(what, "no name", flush=True)
    except OSError as e: print(what, errno.errorcode.get(e.errno, e), flush=True)

def talk(to, text, family=socket.AF_INET):
    s = socket.socket(family)
    s.settimeout(20)
    with s:
        s.connect(to)
        try:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
        except OSError as e: # broken off before it was said
            raise OSError(errno.ECONNRESET, "") if e.errno in (errno.ENOTCONN, errno.EPIPE) else e
        got = b""
        while True:
            b = s.recv(1 << 16)
            if not b: break
            got += b
    return got if len(got) < 100 else hashlib.sha256(got).hexdigest()

def proxy(head):
    return talk(("127.0.0.53", 3128), head)

say("by name", lambda: talk(("box.test", PORT), b"hello"))
say("again", lambda: talk(("BOX.test.", PORT), b"hello"))
say("much", lambda: talk(("box.test", PORT), bytes(range(256)) * 20000))
say("broken off", lambda: talk(("box.test", PORT), b"break"))
say("another port", lambda: talk(("box.test", PORT + 1 if PORT < 65535 else 1024), b"x"))
say("an allowed port of another name", lambda: talk(("box.test", 9), b"x"))
say("a name that is not allowed", lambda: talk(("denied.test", PORT), b"x"))
say("a name that leads inside", lambda: talk(("inside.test", PORT), b"x"))
say("an address without a name", lambda: talk(("198.18.99.9", PORT), b"x"))
say("the host's loopback", lambda: talk(("127.0.0.1", PORT), b"x"))
say("an address outside", lambda: talk(("192.0.2.1", PORT), b"x"))
say("the proxy", lambda: proxy(b"CONNECT box.test:%d HTTP/1.1\r\n\r\nhello" % PORT))
say("the proxy, denied", lambda: proxy(b"CONNECT denied.test:443 HTTP/1.1\r\n\r\n")[:12])
say("the proxy, noise", lambda: proxy(b"noise\r\n\r\n")[:12])
say("families", lambda: sorted({str(a[0]) + a[4][0] for a in socket.getaddrinfo("box.test", PORT, type=socket.SOCK_STREAM)}))
say("nobody's question", lambda: talk(("127.0.0.53", 53), b"\x00\x03abc"))
say("nobody's datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"abc", ("127.0.0.53", 53)))
say("after it", lambda: talk(("box.test", PORT), b"hello"))
for k in range(300): # names and connections without an end
    try: socket.getaddrinfo("n%d.leak.test" % (k % 50), 80)
    except socket.gaierror: pass
say("at the end", lambda: talk(("box.test", PORT), b"hello"))
`

// hostNetwork is the operator's choice of the host's sockets for cells of the
// level.
const hostNetwork = "runsc.network = host"

// TestTheWayOutIsTheSame: what a program gets to see, and what the row has, does
// not depend on whether the sockets in the cell are the host's or the guest's.
func TestTheWayOutIsTheSame(t *testing.T) { theWayOutIsTheSame(t, newGround(t, "spares = 0")) }

// TestTheWayOutIsTheSameByTheHostsNetwork: nor on whose kernel a program's own
// are in.
func TestTheWayOutIsTheSameByTheHostsNetwork(t *testing.T) {
	theWayOutIsTheSame(t, newGround(t, "spares = 0", hostNetwork))
}

// TestTheWayOutOfSpares: a cell that was made before it was asked for has a way
// out of its own.
func TestTheWayOutOfSpares(t *testing.T) {
	g := newGround(t, "spares = 1", hostNetwork)
	w := newNetWorld(t, g)
	for range 4 {
		if out, row := w.reach(t, g.Runtime, hailing); out != "b'hello'\n" || row.Connections != 1 {
			t.Errorf("%s, %+v", out, row)
		}
	}
}

const hailing = `
import socket
s = socket.create_connection(("box.test", PORT))
s.sendall(b"hello")
s.shutdown(socket.SHUT_WR)
print(s.recv(100))
`

func theWayOutIsTheSame(t *testing.T, g *ground) {
	t.Helper()
	w := newNetWorld(t, g)
	want, row := w.reach(t, container.New(g.launchers), reaching)
	got, other := w.reach(t, g.Runtime, reaching)
	if want != got {
		t.Errorf("at container\n%s\nhere\n%s", want, got)
	}
	if a, b := strings.Join(lines(row), "\n"), strings.Join(lines(other), "\n"); a != b {
		t.Errorf("at container\n%s\n\nhere\n%s", a, b)
	}
	for _, line := range []string{"by name b'hello'\n", "broken off ECONNRESET\n", "a name that is not allowed no name\n", "an address outside ENETUNREACH\n", "at the end b'hello'\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in %s", line, got)
		}
	}
}

const flooding = `
import errno, socket
to, held = socket.gethostbyname("box.test"), []
for k in range(600):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16) # or it grows to some MiB, the faster the sooner
    s.settimeout(20)
    try:
        s.connect((to, PORT))
        s.setblocking(False)
        while True: s.send(bytes(1 << 16))
    except BlockingIOError: held.append(s)
    except OSError: s.close()
    if len(held) > 200: held.pop(0).close()
print(len(held) >= 64)
`

// TestAFloodOfConnectionsIsBounded: a program opens many and says what nobody
// reads. The caps are those of any other way. What lies unread in the guest's
// kernel is memory of the cell, and how much that becomes is the scheduler's: at
// the default, a flood on a busy machine may end by that ceiling first.
func TestAFloodOfConnectionsIsBounded(t *testing.T) {
	for name, setting := range map[string]string{"tunnels": "runsc.network = sandbox", "the host's sockets": hostNetwork} {
		t.Run(name, func(t *testing.T) { aFloodIsBounded(t, newGround(t, "spares = 0", setting)) })
	}
}

func aFloodIsBounded(t *testing.T, g *ground) {
	t.Helper()
	w := newNetWorld(t, g)
	stop := make(chan struct{})
	at := listener.Start(t, "127.0.0.1:0", func(net.Conn) { <-stop })
	defer close(stop)
	w.port = int(at.Port())
	w.n.Allow[0].Ports = []int{w.port}
	w.memory = envelope.GiB
	before := resident(t)
	out, seen := w.reach(t, g.Runtime, flooding)
	if out != "True\n" || seen.Connections > int64(egress.Defaults().Connections) || seen.Connections < 16 || seen.Denied == 0 || len(seen.Attempts) > envelope.MaxAttempts {
		t.Errorf("%s, %d connections, %d denied, %d lines", out, seen.Connections, seen.Denied, len(seen.Attempts))
	}
	if more := resident(t) - before; more > 128<<20 { // the windows of 64 connections are 16, and there is garbage
		t.Errorf("%d MiB more in this process", more>>20)
	}
}

// resident is how much memory this process has.
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

const loading = `
import socket, sys, time
s = socket.create_connection(("box.test", PORT))
began = time.time()
for _ in range(512): s.sendall(bytes(1 << 16))
s.shutdown(socket.SHUT_WR)
n = 0
while True:
    b = s.recv(1 << 18)
    if n == 0: up, began = time.time() - began, time.time()
    if not b: break
    n += len(b)
print("%.0f %.0f" % (n / 1e6 / up, n / 1e6 / (time.time() - began)))
`

// BenchmarkWayOut is how fast a program sends and loads 32 MiB: at container, and
// here by tunnel and by the host's sockets.
func BenchmarkWayOut(b *testing.B) {
	g, hosts := newGround(b), newGround(b, "spares = 0", hostNetwork)
	for name, rt := range map[string]cell.Runtime{"container": container.New(g.launchers), "tunnel": g.Runtime, "host": hosts.Runtime} {
		b.Run(name, func(b *testing.B) {
			w := newNetWorld(b, g)
			var up, down float64
			for b.Loop() {
				out, _ := w.reach(b, rt, loading)
				var u, d float64
				if _, err := fmt.Sscan(out, &u, &d); err != nil {
					b.Fatal(err)
				}
				up, down = up+u, down+d
			}
			b.ReportMetric(up/float64(b.N), "up-MB/s")
			b.ReportMetric(down/float64(b.N), "down-MB/s")
		})
	}
}
