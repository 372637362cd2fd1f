package inside

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// Where the name server and the proxy listen; package cell has the same.
const (
	namePort  = 53
	proxyPort = 3128
)

func nameServer() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 53}) }

// tunnels are what listens in the place, and the connections that are handed
// over. More than the host takes at once are reset.
type tunnels struct {
	m         *mux.Mux
	listeners []*os.File
	names     *os.File
}

// listen begins to listen. On an error it says at which port, counted from the
// first of ports; the others come after.
func listen(m *mux.Mux, ports []uint16, six bool) (*tunnels, int, error) {
	t := &tunnels{m: m}
	index, err := t.open(ports, six)
	if err != nil {
		t.close()
		return nil, index, err
	}
	for _, l := range t.listeners {
		go t.accept(l)
	}
	go t.serveNames()
	return t, 0, nil
}

func (t *tunnels) open(ports []uint16, six bool) (index int, err error) {
	if err := loopback(); err != nil {
		return 0, err
	}
	for i, port := range ports {
		err := t.add(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
		if err == nil && six {
			err = t.add(netip.AddrPortFrom(netip.IPv6Unspecified(), port))
		}
		if err != nil {
			return i, err
		}
	}
	for _, port := range []uint16{namePort, proxyPort} {
		if err := t.add(netip.AddrPortFrom(nameServer(), port)); err != nil {
			return len(ports), err
		}
	}
	t.names, err = listenUDP(netip.AddrPortFrom(nameServer(), namePort))
	return len(ports), err
}

func (t *tunnels) add(a netip.AddrPort) error {
	f, err := listenTCP(a)
	if err == nil {
		t.listeners = append(t.listeners, f)
	}
	return err
}

// close ends what listens. Connections go on until an end of theirs goes.
func (t *tunnels) close() {
	for _, l := range t.listeners {
		_ = l.Close() // nobody comes any more
	}
	if t.names != nil {
		_ = t.names.Close() // the same
	}
}

// shortOf is how long nothing is accepted where descriptors or memory are short.
const shortOf = 5 * time.Millisecond

// accept hands over the connections of one listener until it is closed.
func (t *tunnels) accept(l *os.File) {
	for {
		conn, local, err := acceptTCP(l)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(shortOf) // it was broken off, or something is short
			continue
		}
		s, err := t.stream(local, false)
		if err != nil {
			resetTCP(conn)
			continue
		}
		go carry(conn, s)
	}
}

// stream opens one for what a program has connected to.
func (t *tunnels) stream(local netip.AddrPort, datagrams bool) (*mux.Stream, error) {
	note, err := wire.Encode(&wire.Note{Op: wire.OpTunnel, Addr: local.Addr().As16(), Number: uint32(local.Port()), Datagrams: datagrams})
	if err != nil {
		return nil, err
	}
	return t.m.Open(note)
}

// carry passes on what the program and the host say, until both have said all
// or one of them has broken off.
func carry(conn *os.File, s *mux.Stream) {
	(&carrier{conn: conn, s: s, heard: make(chan struct{}), parting: parting}).carry()
}

type carrier struct {
	conn    *os.File
	s       *mux.Stream
	heard   chan struct{} // closed once all is passed on that the host says
	parting time.Duration
	broken  sync.Once
}

func (c *carrier) carry() {
	var both sync.WaitGroup
	both.Go(func() {
		if c.up() != nil || c.s.CloseWrite() != nil {
			c.abort()
		}
	})
	both.Go(func() {
		defer close(c.heard)
		if copyAll(c.conn, c.s) != nil || shutdown(c.conn) != nil {
			c.abort()
		}
	})
	both.Wait()
	_ = c.conn.Close() // both have said all
}

func (c *carrier) abort() {
	c.broken.Do(func() {
		resetTCP(c.conn)
		_ = c.s.Reset() // the channel has ended, else
	})
}

// up passes on what the program says.
func (c *carrier) up() error {
	err := copyAll(c.s, c.conn)
	if errors.Is(err, mux.ErrReset) {
		c.hearOut()
	}
	return err
}

// parting is for how long a program hears out what was said before nothing more was
// taken of it.
const parting = 5 * time.Second

// hearOut waits until the program's kernel has all of that. What the program says
// meanwhile goes nowhere.
func (c *carrier) hearOut() {
	late := time.AfterFunc(c.parting, c.abort) // it unblocks what follows
	defer late.Stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = copyAll(io.Discard, c.conn) // its end is that of the connection
	}()
	<-c.heard
	for unsent(c.conn) > 0 { // to reset a connection drops it
		time.Sleep(shortOf)
	}
	c.abort()
	<-over
}

// unsent returns how many bytes the program's kernel has not taken. It is none once
// the connection is closed.
func unsent(conn *os.File) (n int) {
	_ = control(conn, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		return err
	})
	return n
}

// copyAll copies to the end. It looks at nothing but Read and Write.
func copyAll(to io.Writer, from io.Reader) error {
	buf := make([]byte, copySize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copySize is how much goes through at once.
const copySize = 64 << 10

// shutdown says that nothing more comes. A program that is gone need not hear
// it.
func shutdown(conn *os.File) error {
	return control(conn, func(fd int) error {
		if err := unix.Shutdown(fd, unix.SHUT_WR); err != unix.ENOTCONN {
			return err
		}
		return nil
	})
}

// resetTCP ends a connection so that the program sees it broken.
func resetTCP(conn *os.File) {
	_ = control(conn, func(fd int) error { // it is closed already, else
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	_ = conn.Close() // the same
}
