package userkernel_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/userkernel"
)

// TestTheHostsNetworkIsSaid: whose sockets a cell has, and what that makes the
// level worth, is what the operator's file says.
func TestTheHostsNetworkIsSaid(t *testing.T) {
	for setting, host := range map[string]bool{"runsc.network = sandbox": false, hostNetwork: true} {
		g := newGround(t, "spares = 0", setting)
		f := g.Features()
		said := slices.ContainsFunc(f.Enforced, func(e cell.Feature) bool { return e.Name == "host network bugs" && !e.On })
		if !f.Available || f.HostNetwork != host || said != host {
			t.Errorf("%s: %+v", setting, f)
		}
		s := shape()
		s.Envelope.Network.Allow = []envelope.Allow{{Host: "box.test", Ports: []int{443}, Protocol: envelope.ProtocolTCP}}
		c, err := g.Open(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		_, gated := c.(cell.Gated)
		_, tunnelled := c.(cell.Tunnelled)
		if gated != host || tunnelled == host {
			t.Errorf("%s: gated %v, tunnelled %v", setting, gated, tunnelled)
		}
		closed(t, c) // with a gate that nobody took
	}
}

// TestAChangedFileIsRefused: calls were placed by what a launcher said once. The
// next one, by a file that says otherwise, makes no cell.
func TestAChangedFileIsRefused(t *testing.T) {
	const sandbox = "runsc.network = sandbox"
	for before, after := range map[string]string{sandbox: hostNetwork, hostNetwork: sandbox} {
		g := newGround(t, "spares = 0", before)
		c, err := g.Open(context.Background(), shape())
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(g.conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.conf, []byte(strings.Replace(string(text), before, after, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		kill(t, g.launcher(t))
		c.Close(context.Background()) // it died with its launcher
		_, err = g.Open(context.Background(), shape())
		if refused := (*cell.Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "start it anew") {
			t.Errorf("open: %v", err)
		}
		if f := g.Features(); f.Available || !strings.Contains(f.Why, "runsc.network") {
			t.Errorf("%+v", f)
		}
		if f := userkernel.New(g.launchers).Features(); !f.Available || f.HostNetwork != (after == hostNetwork) {
			t.Errorf("a runtime that starts now: %+v", f)
		}
	}
}

const outward = `
import errno, os, socket
def say(what, f):
    try: print(what, f(), flush=True)
    except OSError as e: print(what, errno.errorcode.get(e.errno, e), flush=True)
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return s.sendto(b"x", ("192.0.2.1", 9))
def bound(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.53", port))
    s.listen()
def abstract():
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0HOST")
def own():
    l = socket.create_server(("127.0.0.1", 8080))
    c = socket.create_connection(("127.0.0.1", 8080))
    c.sendall(b"hello")
    return l.accept()[0].recv(10)
def waiting():
    l, held = socket.create_server(("127.0.0.1", 8081), backlog=100000), []
    try:
        while len(held) < 240:
            c = socket.socket()
            c.settimeout(5)
            c.connect(("127.0.0.1", 8081))
            held.append(c)
    except OSError: pass
    return "are bounded" if 60 < len(held) < 70 else len(held)
say("interfaces", lambda: [name for _, name in socket.if_nameindex()])
say("udp", udp)
say("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
say("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
say("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
say("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
say("the name server's place", lambda: bound(53))
say("the proxy's", lambda: bound(3128))
say("an allowed port", lambda: bound(PORT))
say("a socket of the host by name", abstract)
say("its own loopback", own)
say("connections that nobody accepted", waiting)
`

// TestWhatTheHostsNetworkIs: an empty namespace, whatever a program asks of it,
// and what waits in it is bounded as at container.
func TestWhatTheHostsNetworkIs(t *testing.T) {
	g := newGround(t, "spares = 0", hostNetwork)
	out, _ := newNetWorld(t, g).reach(t, g.Runtime, outward)
	golden(t, "hostnet.golden", strings.Split(strings.TrimSpace(out), "\n"))
}
