package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/wire"
)

// mostExchanges bounds the exchanges of datagrams of a call, at once. One is
// enough.
const mostExchanges = 2

// tunnel takes a connection that a guest hands over, as one that was accepted
// at that address. It takes over f.
func (c *call) tunnel(to wire.Conn, f *os.File) {
	conn, err := net.FileConn(f)
	_ = f.Close() // what was made of it has a descriptor of its own
	sock, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		if err == nil {
			_ = conn.Close() // it is nobody's
		}
		c.p.log.line("a tunnelled connection is no socket")
		return
	}
	name, proxy := netip.AddrPortFrom(netip.MustParseAddr(cell.NameServer), 53), netip.MustParseAddrPort(cell.ProxyAddress)
	t := &tunnelled{UnixConn: sock, local: net.TCPAddrFromAddrPort(to.Local), ctx: c.ctx}
	switch {
	case to.Datagrams:
		c.exchange(sock)
	case to.Local == name:
		if !c.socks.handed.give(t) {
			carry.Reset(t)
		}
	case to.Local == proxy:
		c.take(t, c.proxy)
	default:
		c.take(t, c.direct)
	}
}

// exchange answers datagrams to the name server. One that is too many is
// closed.
func (c *call) exchange(conn net.Conn) {
	if !c.exchanges.take() {
		_ = conn.Close() // the guest begins anew
		return
	}
	c.run(func() {
		defer c.exchanges.give()
		defer conn.Close()
		defer context.AfterFunc(c.ctx, func() { _ = conn.Close() })()
		_ = c.names.ServeExchange(conn) // it has ended, and the guest begins anew
	})
}

// handed is a listener of what a guest hands over.
type handed struct {
	conns  chan net.Conn
	closed chan struct{}

	mu    sync.Mutex // guards ended
	ended bool       // closed is: nothing more is given
}

// mostHanded is how many wait to be accepted. Whoever accepts does nothing else.
const mostHanded = 8

func newHanded() *handed {
	return &handed{conns: make(chan net.Conn, mostHanded), closed: make(chan struct{})}
}

// give hands over one, and reports whether there was room. After Close there is
// none: nobody would find it.
func (h *handed) give(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	select {
	case h.conns <- c:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
	}
	for {
		select {
		case c := <-h.conns:
			carry.Reset(c) // nobody accepts it any more
		default:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return &net.TCPAddr{} }

// tunnelled is a connection of a program that its guest hands over. It is to
// whoever has it what an accepted one is.
type tunnelled struct {
	*net.UnixConn
	local *net.TCPAddr
	ctx   context.Context // of the call

	mu    sync.Mutex // held while something is written; guards ended
	ended bool       // nothing more is written
}

const maxFrame = 1<<16 - 1 // bytes of one frame

// LocalAddr is the address in the cell.
func (t *tunnelled) LocalAddr() net.Addr { return t.local }

// Read implements net.Conn.
func (t *tunnelled) Read(b []byte) (int, error) {
	n, err := t.UnixConn.Read(b)
	if errors.Is(err, io.EOF) && t.BrokenOff() {
		err = syscall.ECONNRESET
	}
	return n, err
}

// BrokenOff reports whether the program has broken the connection off: the
// front has closed its end, and not only its side of it.
func (t *tunnelled) BrokenOff() bool {
	rc, err := t.SyscallConn()
	if err != nil {
		return true
	}
	if closed := rc.Control(func(fd uintptr) { err = unix.Sendto(int(fd), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil) }); closed != nil {
		return true
	}
	return err == unix.EPIPE || err == unix.ECONNRESET
}

// Write implements net.Conn.
func (t *tunnelled) Write(b []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, syscall.EPIPE
	}
	for n < len(b) {
		part := b[n:min(n+maxFrame, len(b))]
		if err := t.frame(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (t *tunnelled) frame(b []byte) error {
	var head [2]byte
	binary.BigEndian.PutUint16(head[:], uint16(len(b)))
	frame := net.Buffers{head[:], b}
	_, err := frame.WriteTo(t.UnixConn)
	if err != nil {
		t.ended = true // half a frame may have gone
	}
	return err
}

// CloseWrite says that nothing more comes.
func (t *tunnelled) CloseWrite() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	t.ended = true
	return t.frame(nil)
}

// SetLinger is what a connection is told that is to be reset.
func (t *tunnelled) SetLinger(int) error {
	_ = t.UnixConn.SetWriteDeadline(time.Unix(1, 0)) // whoever writes gives up; it is closed, else
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return nil
}

// lastFrame bounds how long the last frame may take to be taken.
const lastFrame = 10 * time.Second

// Close implements net.Conn. What was written is delivered, and then the end,
// unless something is being written now: that is what it unblocks.
func (t *tunnelled) Close() error {
	if t.mu.TryLock() {
		if !t.ended {
			t.ended = true
			stop := context.AfterFunc(t.ctx, func() { _ = t.UnixConn.Close() }) // it is not waited for then
			_ = t.UnixConn.SetWriteDeadline(time.Now().Add(lastFrame))          // closed, else: the same
			_ = t.frame(nil)                                                    // the program sees it broken, else
			stop()
		}
		t.mu.Unlock()
	}
	return t.UnixConn.Close()
}
