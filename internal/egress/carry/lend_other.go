//go:build !linux

package carry

import "net"

// lender reads from a connection. It is for one goroutine.
type lender struct {
	buffers *Buffers
	c       net.Conn
	buf     *[bufferSize]byte
}

func newLender(c net.Conn, buffers *Buffers) (*lender, error) {
	return &lender{buffers: buffers, c: c}, nil
}

// read waits for bytes. They are valid until back.
func (l *lender) read() ([]byte, error) {
	l.buf = l.buffers.lend()
	n, err := l.c.Read(l.buf[:])
	if n > 0 {
		return l.buf[:n], nil
	}
	return nil, err
}

// back returns the buffer.
func (l *lender) back() {
	if l.buf != nil {
		l.buffers.back(l.buf)
		l.buf = nil
	}
}
