package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"time"
)

// maxConnections bounds the connections at once.
const maxConnections = 1024

// A door is a listener with a bounded number of connections. Who comes when
// there is no room takes the place of one that has nothing under way with a good
// key: a connection that says nothing costs whoever opens it next to nothing, and
// must not keep out who has a key. Where something is under way on every one, who
// comes waits.
type door struct {
	net.Listener
	most int

	mu     sync.Mutex // guards what follows, and the guests' own
	free   *sync.Cond // for one who waits: somebody has gone, or has nothing under way
	guests map[*guest]struct{}
	closed bool
	ended  bool // nobody lingers any more

	lingering sync.WaitGroup
}

// A guest is one connection.
type guest struct {
	net.Conn
	door *door
	peer string // an address, or of IPv6 the network of one host

	// What follows is guarded by door.mu.
	busy    int       // requests under way, whose head was read
	keyed   bool      // a request of it came with a good key
	since   time.Time // when it was opened, or had nothing under way any more
	unheard bool      // the last answer was begun before the body was read
	leaving bool      // it is closed, but for the client to read that answer
}

func newDoor(l net.Listener, most int) *door {
	d := &door{Listener: l, most: most, guests: map[*guest]struct{}{}}
	d.free = sync.NewCond(&d.mu)
	return d
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: c, door: d, peer: hostOf(c.RemoteAddr())}
	if !d.admit(g) {
		_ = c.Close() // nobody has heard of it
		return nil, net.ErrClosed
	}
	return g, nil
}

// admit makes room for a guest; it reports whether the door is still open.
func (d *door) admit(g *guest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.guests) >= d.most && !d.closed {
		if out := d.outLocked(); out != nil {
			delete(d.guests, out)
			_ = out.Conn.Close() // its server reads the end
		} else {
			d.free.Wait()
		}
	}
	if d.closed {
		return false
	}
	g.since = time.Now()
	d.guests[g] = struct{}{}
	return true
}

// outLocked returns the one that is to go: those that linger first; of those that
// never came with a good key, the ones with nothing under way, of them one of the address that has
// most, and of those the one that has been so for longest; then one whose key was
// good, with nothing under way. nil: each has a request with a key under way.
func (d *door) outLocked() (out *guest) {
	of := map[string]int{}
	for g := range d.guests {
		if !g.keyed {
			of[g.peer]++
		}
	}
	for g := range d.guests {
		if g.busy > 0 && g.keyed {
			continue
		}
		if out == nil || cmp.Or(cmp.Compare(g.rank(), out.rank()), cmp.Compare(of[g.peer], of[out.peer]), out.since.Compare(g.since)) > 0 {
			out = g
		}
	}
	return out
}

// rank is who goes first: the highest.
func (g *guest) rank() int {
	switch {
	case g.leaving:
		return 3
	case g.keyed:
		return 0
	case g.busy > 0:
		return 1
	}
	return 2
}

// Close implements net.Listener. Connections stay. A server closes it too: the
// second time it is nothing.
func (d *door) Close() error {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	d.mu.Unlock()
	d.free.Broadcast()
	if was {
		return nil
	}
	return d.Listener.Close()
}

// Close implements net.Conn. A client that is still to read an answer is waited
// for elsewhere; the second time it is at once.
func (g *guest) Close() error {
	if g.lingers() {
		go g.linger()
		return nil
	}
	return g.leave()
}

// leave closes a connection.
func (g *guest) leave() error {
	g.door.mu.Lock()
	delete(g.door.guests, g)
	g.door.mu.Unlock()
	g.door.free.Broadcast()
	return g.Conn.Close()
}

type guestKey struct{}

// guestOf is the connection that a request came on; nil: it is not of a door.
func guestOf(ctx context.Context) *guest {
	g, _ := ctx.Value(guestKey{}).(*guest)
	return g
}

// with is http.Server.ConnContext: requests know on which connection they came.
func (*door) with(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if g, ok := c.(*guest); ok {
		return context.WithValue(ctx, guestKey{}, g)
	}
	return ctx
}

// atWork notes that a request is under way on its connection, until the function
// that it returns is called.
func atWork(ctx context.Context) (over func()) {
	g := guestOf(ctx)
	if g == nil {
		return func() {}
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.busy++
	return func() {
		g.door.mu.Lock()
		g.busy--
		g.since = time.Now()
		g.door.mu.Unlock()
		g.door.free.Broadcast()
	}
}

// known notes that a request came with a good key.
func known(ctx context.Context) {
	g := guestOf(ctx)
	if g == nil {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.keyed = true
}

// hostOf is the address of who opened a connection, or of IPv6 the network of
// one host.
func hostOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return "unknown"
	}
	return hostName(at.Addr().Unmap())
}

func hostName(addr netip.Addr) string {
	if addr.Is6() {
		return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
	}
	return addr.String()
}
