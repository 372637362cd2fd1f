package world

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// A Stray is a connection or a packet to INT: an address of near itself, or
// one of far at which there is no server.
type Stray struct {
	Network string // tcp or udp
	To      netip.AddrPort
}

// ports are those at which INT listens beside the servers' own.
func intPorts() []int { return []int{22, 2375, 3128, 9931} }

// services are what listens in both namespaces.
type services struct {
	group  sync.WaitGroup
	images http.Handler // of a registry of images
	wheels *wheels      // of the index of Python packages

	mu      sync.Mutex // guards what follows
	closers []func() error
	strays  []Stray
	hits    []Hit
	open    int // connections to servers
	latches map[string]chan struct{}
}

// latch is what a name's requests to /latch wait for.
func (s *services) latch(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latches == nil {
		s.latches = map[string]chan struct{}{}
	}
	if s.latches[name] == nil {
		s.latches[name] = make(chan struct{})
	}
	return s.latches[name]
}

// Release has requests for /latch of that name answered, those too that are
// still to come. It is called once for a name.
func (w *World) Release(name string) { close(w.services.latch(name)) }

// add has close called at the end, in reverse order.
func (s *services) add(close func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, close)
}

// close ends everything and waits for it.
func (s *services) close() error {
	s.mu.Lock()
	closers := s.closers
	s.closers = nil
	s.mu.Unlock()
	var err error
	for i := len(closers) - 1; i >= 0; i-- {
		if failed := closers[i](); !errors.Is(failed, net.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	s.group.Wait()
	return err
}

func (s *services) stray(network string, to net.Addr) {
	at, err := netip.ParseAddrPort(to.String())
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = append(s.strays, Stray{network, netip.AddrPortFrom(at.Addr().Unmap(), at.Port())})
}

// listen listens at a port of every address of a namespace. A connection to
// one for which is says yes comes out of the listener, any other one is stray.
func (s *services) listen(at *space, port int, is func(netip.Addr) bool) (net.Listener, error) {
	var l net.Listener
	var err error
	at.do(func() { l, err = net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String()) })
	if err != nil {
		return nil, err
	}
	s.add(l.Close)
	return &gate{Listener: l, s: s, is: is}, nil
}

// listenUDP counts every packet to a port of a namespace as stray.
func (s *services) listenUDP(at *space, port int) error {
	var c net.PacketConn
	var err error
	at.do(func() {
		c, err = net.ListenPacket("udp", netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String())
	})
	if err != nil {
		return err
	}
	s.add(c.Close)
	s.group.Go(func() {
		buf := make([]byte, 1)
		for {
			if _, _, err := c.ReadFrom(buf); err != nil {
				return
			}
			s.stray("udp", c.LocalAddr())
		}
	})
	return nil
}

// nobody is for a listener that has no server: all is stray.
func nobody(netip.Addr) bool { return false }

// serveStrays accepts for a listener without a server.
func (s *services) serveStrays(l net.Listener) {
	s.group.Go(func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	})
}

// serveEcho says back to each connection what it says, to its end.
func (s *services) serveEcho(l net.Listener) {
	s.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.add(c.Close)
			s.group.Go(func() {
				defer c.Close()
				io.Copy(c, c) // its end is the connection's
			})
		}
	})
}

// serve serves HTTP on a listener.
func (s *services) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent()}
	s.add(server.Close)
	s.group.Go(func() { server.Serve(l) }) // ends when it is closed
}

// A gate is a listener that lets in who comes to a server.
type gate struct {
	net.Listener
	s  *services
	is func(netip.Addr) bool
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(c.LocalAddr().String())
		if err == nil && g.is(at.Addr().Unmap()) {
			g.s.count(1)
			return &counted{Conn: c, s: g.s}, nil
		}
		g.s.stray("tcp", c.LocalAddr())
		c.Close()
	}
}

// A counted connection is one of those that are open until it is closed.
type counted struct {
	net.Conn
	s    *services
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.once.Do(func() { c.s.count(-1) })
	return c.Conn.Close()
}

func (s *services) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}
