package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/inspect"
	"github.com/callcell/callcell/internal/egress/names"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/suffix"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// firstWords is how long a program may take to say what it wants.
const firstWords = 30 * time.Second

// call is one call's way out. Its context ends with End, with a hang-up, and
// with a fault; then everything of it ends.
type call struct {
	p      *process
	conn   *packet.Conn
	team   string
	ctx    context.Context
	cancel context.CancelCauseFunc

	pol   *policy.Policy
	grant *inject.Set        // what the call may use; nil where there is nothing
	ca    *inspect.Authority // nil where nothing is inspected
	names *names.Responder
	socks *sockets
	lines *lines
	quota quota
	wg    sync.WaitGroup // everything that runs for it

	exchanges places // of datagrams with the name server

	fetched bool // the receiving goroutine's
}

// call serves one call to its end. It takes over conn and fds.
func (p *process) call(ctx context.Context, conn *packet.Conn, b *wire.Begin, fds []int) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Shutdown() })() // the process ends: no End comes
	if !p.calls.take() {
		packet.CloseAll(fds)
		p.refuse(conn, "too many calls are open")
		return
	}
	defer p.calls.give()
	grant, err := granted(conn, b)
	if err != nil {
		packet.CloseAll(fds)
		p.refuse(conn, err.Error())
		return
	}
	defer grant.Destroy()
	c, err := p.open(conn, b, fds, grant)
	if err != nil {
		p.refuse(conn, err.Error())
		return
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	c.serve()
}

// refuse says that a call could not begin.
func (p *process) refuse(conn *packet.Conn, why string) {
	if err := send(conn, wire.Message{Refused: &wire.Refused{Why: cut(why, maxWhyShown)}}); err != nil {
		p.log.line("a refusal could not be said: the front has hung up")
	}
}

// open makes what a call needs. It takes over fds; on an error none is open.
func (p *process) open(conn *packet.Conn, b *wire.Begin, fds []int, grant *inject.Set) (*call, error) {
	socks, err := adopt(b.Sockets[1:], fds)
	if err != nil {
		return nil, err
	}
	c := &call{p: p, conn: conn, team: b.Team, grant: grant, socks: socks, lines: newLines()}
	if err := c.judgeBy(b.Network); err != nil {
		socks.close()
		return nil, err
	}
	l := p.setup.Limits
	c.names = names.New(names.Options{Allow: c.allow, Names: l.Names, Note: c.noteName})
	c.quota.all, c.quota.here.most, c.quota.mostEver, c.quota.mostBytes = &p.places, int64(l.Connections), int64(l.CallConnections), l.Bytes
	c.quota.allWeb, c.quota.web.most = &p.web, callWeb
	c.exchanges.most = mostExchanges
	return c, nil
}

// judgeBy makes the call's policy, and an authority where it inspects.
func (c *call) judgeBy(n envelope.Network) error {
	pol, err := policy.New(n, policy.Options{PublicSuffix: suffix.Public, Deny: c.p.setup.Deny, FetchPorts: c.p.setup.Limits.FetchPorts})
	if err != nil {
		return err
	}
	c.pol = pol
	hosts, err := c.inspected(n)
	if err != nil {
		return err
	}
	if len(hosts) > 0 {
		if c.ca, err = inspect.NewAuthority(hosts, time.Now()); err != nil {
			return fmt.Errorf("the call's authority: %w", err)
		}
	}
	return nil
}

// serve says Ready, runs what serves the sockets, and waits for the end.
func (c *call) serve() {
	ready := &wire.Ready{}
	if c.ca != nil {
		ready.CA = c.ca.PEM()
	}
	defer context.AfterFunc(c.ctx, c.socks.close)()
	told := make(chan struct{})
	go func() {
		defer close(told)
		c.tell()
	}()
	asked := false
	if err := send(c.conn, wire.Message{Ready: ready}); err == nil {
		c.start()
		asked = c.listen()
	}
	c.cancel(carry.ErrEnded)
	c.socks.close()
	c.wg.Wait()
	c.lines.close()
	if !asked {
		_ = c.conn.Shutdown() // nobody listens: a line that waits to be sent is given up
	}
	<-told
	c.grant.Destroy()
	if asked {
		if err := send(c.conn, c.done()); err != nil {
			c.p.log.line("the end of a call could not be said: the front has hung up")
		}
	}
}

// tell sends the lines as they come.
func (c *call) tell() {
	for w := range c.lines.queue {
		if err := send(c.conn, w.m); err != nil {
			c.cancel(carry.ErrEnded) // the front has hung up
		}
		if w.sent != nil {
			close(w.sent)
		}
	}
}

// start serves the sockets.
func (c *call) start() {
	for _, pc := range c.socks.dns {
		c.run(func() { _ = c.names.ServeUDP(pc) }) // it ends when the socket is closed
	}
	for _, l := range c.socks.dnsTCP {
		c.run(func() { _ = c.names.ServeTCP(patient{l, c.ctx}, c.run) }) // the same
	}
	for _, l := range c.socks.proxy {
		c.run(func() { c.accept(l, c.proxy) })
	}
	for _, l := range c.socks.listen {
		c.run(func() { c.accept(l, c.direct) })
	}
}

// run runs f, guarded.
func (c *call) run(f func()) {
	c.wg.Go(func() {
		guard(f, func(where string) {
			c.p.log.line("a fault of ours ended a call's way out, at " + where)
			c.cancel(errFault)
		})
	})
}

// listen takes messages until End, which it reports, or a hang-up.
func (c *call) listen() (asked bool) {
	for {
		m, fds, err := receive(c.conn)
		switch {
		case err != nil:
			return false
		case m.End != nil && len(fds) == 0:
			return true
		case m.Conn != nil && len(fds) == 1:
			c.tunnel(*m.Conn, os.NewFile(uintptr(fds[0]), "tunnel"))
		case m.Fetch != nil && len(fds) == 0 && !c.fetched:
			c.fetched = true
			c.run(func() { c.fetch(*m.Fetch) })
		default:
			packet.CloseAll(fds)
			c.p.log.line("the front said what is not for it to say: a call is ended")
			return false
		}
	}
}

// allow is names.Options.Allow.
func (c *call) allow(name string) (canonical, why string) {
	v := c.pol.Resolves(name)
	if !v.OK {
		return "", v.Why
	}
	return v.Host, ""
}

// noteName is names.Options.Note.
func (c *call) noteName(a names.Asked) {
	c.lines.name()
	if !a.OK {
		c.lines.add(envelope.Attempt{At: now(), Host: c.pol.Resolves(a.Host).Host, Verdict: envelope.VerdictDenied, Why: a.Why}) // fit to be shown
	}
}

func now() time.Time { return time.Now().UTC() }

// accept takes connections until the listener is closed.
func (c *call) accept(l net.Listener, handle func(net.Conn)) {
	l = patient{l, c.ctx}
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) && c.ctx.Err() == nil {
				c.p.log.line("a listener of a call has failed")
			}
			return
		}
		c.take(conn, handle)
	}
}

// take handles a connection in a goroutine of its own. One for which there is
// no place is reset.
func (c *call) take(conn net.Conn, handle func(net.Conn)) {
	leave, err := c.quota.enter()
	if err != nil {
		carry.Reset(conn)
		c.lines.add(c.unplaced(conn, err))
		return
	}
	c.run(func() {
		defer leave()
		handle(conn)
	})
}
