package inspect

import (
	"net"
	"sync"
)

// touched is the program's connection: every byte puts the idle deadline off.
type touched struct {
	net.Conn
	s *session
}

func (c *touched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.s.touch()
	}
	return n, err
}

func (c *touched) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.s.touch()
	}
	return n, err
}

func (c *touched) CloseWrite() error { return closeWrite(c.Conn) }

// counted is a connection to the origin: its bytes count.
type counted struct {
	net.Conn
	s    *session
	once sync.Once
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.s.touch()
		c.s.received.Add(int64(n))
		if over := c.s.count(0, int64(n)); over != nil {
			return 0, over
		}
	}
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	if over := c.s.count(int64(len(p)), 0); over != nil {
		return 0, over
	}
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.s.touch()
		c.s.sent.Add(int64(n))
	}
	return n, err
}

func (c *counted) CloseWrite() error { return closeWrite(c.Conn) }

// Close closes the connection and gives its place to another.
func (c *counted) Close() error {
	c.once.Do(func() { c.s.forget(c) })
	return c.Conn.Close()
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// single is a listener that has one connection, and then waits until it is
// done.
type single struct {
	conn net.Conn
	next chan net.Conn
	done chan struct{}
	once sync.Once
}

func newSingle(conn net.Conn) *single {
	l := &single{conn: conn, next: make(chan net.Conn, 1), done: make(chan struct{})}
	l.next <- conn
	return l
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case conn := <-l.next:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close says that the connection is done.
func (l *single) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
