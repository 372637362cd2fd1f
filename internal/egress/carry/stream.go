package carry

import (
	"net"
)

// Stream is a connection of a program, of which some bytes may have been read
// already.
type Stream struct {
	net.Conn
	head []byte
}

// NewStream returns c with bytes that were read from it before it. It keeps
// head.
func NewStream(c net.Conn, head []byte) *Stream { return &Stream{Conn: c, head: head} }

// Read implements net.Conn.
func (s *Stream) Read(b []byte) (int, error) {
	if len(s.head) == 0 {
		return s.Conn.Read(b)
	}
	n := copy(b, s.head)
	s.head = s.head[n:]
	return n, nil
}

// CloseWrite says that nothing more is sent, where the connection can say so.
func (s *Stream) CloseWrite() error { return closeWrite(s.Conn) }

// Reset closes a connection so that the other end fails at once, where it can
// be told.
func Reset(c net.Conn) { reset(c) }

func reset(c net.Conn) {
	if s, ok := c.(*Stream); ok {
		c = s.Conn
	}
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // it is closed already, else
	}
	_ = c.Close() // the same
}

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
