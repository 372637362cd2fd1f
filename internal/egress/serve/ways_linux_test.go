package serve

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/egress/relay"
	"github.com/callcell/callcell/internal/egress/wire"
)

// A way is how what a program connects to comes to the process.
type way int

// The ways: the sockets in the cell are the process's own, or a guest has them
// and hands over what they accept.
const (
	bySockets way = iota
	byTunnel
)

// bothWays runs a test once each way: the verdicts, the lines and the caps are
// the same.
func bothWays(t *testing.T, test func(t *testing.T, w way)) {
	t.Run("sockets", func(t *testing.T) { test(t, bySockets) })
	t.Run("tunnel", func(t *testing.T) { test(t, byTunnel) })
}

// A guest plays the part of one, and of the front: it has the sockets of a cell
// and hands over what comes to them.
type guest struct {
	s      *session
	ctx    context.Context
	closes []io.Closer
	doing  sync.WaitGroup
}

// stand begins to hand over what comes to the sockets that are named by list.
func (s *session) stand(list []wire.Socket, files []*os.File) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &guest{s: s, ctx: ctx}
	for i, f := range files {
		if list[i].Use == wire.UseDNS {
			pc, err := net.FilePacketConn(f)
			if err != nil {
				s.t.Fatal(err)
			}
			g.closes = append(g.closes, pc)
			g.doing.Go(func() { g.relayDatagrams(pc) })
		} else {
			l, err := net.FileListener(f)
			if err != nil {
				s.t.Fatal(err)
			}
			g.closes = append(g.closes, l)
			g.doing.Go(func() { g.accept(l) })
		}
		_ = f.Close()
	}
	s.t.Cleanup(func() {
		cancel()
		for _, c := range g.closes {
			_ = c.Close()
		}
		g.doing.Wait()
	})
}

func (g *guest) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		t := &programConn{TCPConn: c.(*net.TCPConn)}
		if front, ok := g.hand(t.Local(), false); ok {
			g.doing.Go(func() { relay.Carry(g.ctx, t, front) })
		} else {
			_ = t.Reset()
		}
	}
}

// hand hands over one connection; the call may have ended.
func (g *guest) hand(local netip.AddrPort, datagrams bool) (*net.UnixConn, bool) {
	front, its, err := relay.Pair()
	if err != nil {
		return nil, false
	}
	b, err := wire.Encode(wire.Message{Conn: &wire.Conn{Local: local, Datagrams: datagrams}})
	if err == nil {
		err = g.s.conn.Send(b, int(its.Fd()))
	}
	_ = its.Close()
	if err != nil {
		_ = front.Close()
	}
	return front, err == nil
}

// relayDatagrams has one exchange for one datagram after another.
func (g *guest) relayDatagrams(pc net.PacketConn) {
	front, ok := g.hand(netip.MustParseAddrPort(pc.LocalAddr().String()), true)
	if !ok {
		return
	}
	defer front.Close()
	buf := make([]byte, 2+4096)
	for {
		n, from, err := pc.ReadFrom(buf[2:])
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(buf, uint16(n))
		if _, err := front.Write(buf[:2+n]); err != nil {
			return
		}
		if _, err := io.ReadFull(front, buf[:2]); err != nil {
			return
		}
		answer := buf[2 : 2+binary.BigEndian.Uint16(buf)]
		if _, err := io.ReadFull(front, answer); err != nil {
			return
		}
		if len(answer) > 0 {
			_, _ = pc.WriteTo(answer, from)
		}
	}
}

// programConn is a connection of a program as a cell.Tunnel.
type programConn struct{ *net.TCPConn }

func (p *programConn) Reset() error {
	_ = p.SetLinger(0)
	return p.Close()
}

func (p *programConn) Local() netip.AddrPort {
	at := p.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func (p *programConn) Datagrams() bool { return false }
