package serve

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/policy"
)

// direct carries a connection to an address in the cell: the one of a name, or
// one that is listed itself.
func (c *call) direct(conn net.Conn) {
	at := now()
	host, port, named := c.meant(conn)
	v := c.judge(host, port)
	if !v.OK {
		carry.Reset(conn)
		if !named && synthetic(v.Literal) {
			v.Why = "no name of this call has the address"
		}
		c.lines.add(denied(at, v))
		return
	}
	c.carry(at, carry.NewStream(conn, nil), v, c.target(v))
}

// meant returns the host and port that a connection in the cell is to: its
// local address says it. named is false where that is the address itself.
func (c *call) meant(conn net.Conn) (host string, port int, named bool) {
	at := local(conn)
	if name := c.names.Table().Name(at.Addr()); name != "" {
		return name, int(at.Port()), true
	}
	return at.Addr().String(), int(at.Port()), false
}

// local returns the address that a connection in the cell was made to.
func local(conn net.Conn) netip.AddrPort {
	t, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// synthetic reports whether an address is of the range that names get theirs
// from.
func synthetic(a netip.Addr) bool {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18}), 15).Contains(a)
}

// unplaced is the line of a connection for which there was no place.
func (c *call) unplaced(conn net.Conn, err error) envelope.Attempt {
	host, port, _ := c.meant(conn)
	return envelope.Attempt{At: now(), Host: host, Port: port, Verdict: envelope.VerdictDenied, Why: err.Error()}
}

// carry carries one connection, and notes how it ended.
func (c *call) carry(at time.Time, program *carry.Stream, v policy.Verdict, t carry.Target) {
	leave, ok := c.look(at, program, v)
	if !ok {
		return
	}
	defer leave()
	c.lines.add(ended(at, v, carry.Carry(c.ctx, program, t, c.options(at, v))))
}

// look takes a place where a connection is to be looked into. One for which
// there is none is reset.
func (c *call) look(at time.Time, program net.Conn, v policy.Verdict) (leave func(), ok bool) {
	if !v.Inspect && v.Protocol != envelope.ProtocolHTTP {
		return func() {}, true
	}
	leave, err := c.quota.look()
	if err != nil {
		carry.Reset(program)
		v.Why = err.Error()
		c.lines.add(denied(at, v))
	}
	return leave, err == nil
}

func (c *call) target(v policy.Verdict) carry.Target {
	return carry.Target{Host: v.Host, Port: v.Port, Literal: v.Literal, Protocol: v.Protocol, Inspect: v.Inspect}
}

func (c *call) options(at time.Time, v policy.Verdict) carry.Options {
	l := c.p.setup.Limits
	var once sync.Once // HTTP may dial again
	return carry.Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := c.dial(ctx, v, c.pol.JudgeAddr)
			if err == nil {
				once.Do(func() { c.dialled(ctx, at, v, conn) })
			}
			return conn, err
		},
		HTTP:  c.web,
		Count: c.quota.count,
		Idle:  l.Idle, Total: l.Total, First: min(firstWords, l.Idle),
		Buffers: &c.p.buffers,
	}
}

// dial connects to what was judged.
func (c *call) dial(ctx context.Context, v policy.Verdict, judge func(netip.Addr, []netip.Addr) policy.AddrVerdict) (net.Conn, error) {
	return c.p.dialer.Dial(ctx, func(a netip.Addr, own []netip.Addr) (bool, string) {
		got := judge(a, own)
		return got.OK, got.Why
	}, dial.Target{Host: v.Host, Port: uint16(v.Port), Literal: v.Literal})
}

// dialled says that the connection of a line to come has been made.
func (c *call) dialled(ctx context.Context, at time.Time, v policy.Verdict, conn net.Conn) {
	c.lines.dialled(ctx, envelope.Attempt{At: at, Host: v.Host, Port: v.Port, Protocol: v.Protocol, Verdict: envelope.VerdictAllowed, Address: conn.RemoteAddr().String()})
}

// denied is the line of a connection that is not allowed.
func denied(at time.Time, v policy.Verdict) envelope.Attempt {
	return envelope.Attempt{At: at, Host: v.Host, Port: v.Port, Protocol: v.Protocol, Verdict: envelope.VerdictDenied, Why: v.Why, Took: time.Since(at)}
}

// ended is the line of a connection that was carried, or was to be.
func ended(at time.Time, v policy.Verdict, out carry.Outcome) envelope.Attempt {
	why := out.Why
	if out.Verdict == envelope.VerdictAllowed {
		if why = v.Why; out.Why != "" {
			why += ": " + out.Why
		}
	}
	return envelope.Attempt{
		At: at, Host: v.Host, Port: v.Port, Protocol: v.Protocol, Verdict: out.Verdict, Why: why, Address: out.Address, Blocked: out.Blocked,
		Requests: out.Requests, Sent: out.Sent, Received: out.Received, Took: time.Since(at), Unchecked: out.Unchecked,
	}
}
