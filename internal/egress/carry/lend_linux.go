package carry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lender reads from a connection into buffers that it borrows when there is
// something to read. It is for one goroutine.
type lender struct {
	buffers *Buffers
	broken  func() bool // whether what looks like the end is one
	rc      syscall.RawConn
	step    func(fd uintptr) bool

	buf *[bufferSize]byte // nil while there is nothing
	n   int
	err error
}

func newLender(c net.Conn, buffers *Buffers) (*lender, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T is no socket", c)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &lender{buffers: buffers, broken: func() bool { return false }, rc: rc}
	if t, ok := c.(interface{ BrokenOff() bool }); ok {
		l.broken = t.BrokenOff
	}
	l.step = l.try
	return l, nil
}

// try reads once, and reports whether that has come to something.
func (l *lender) try(fd uintptr) bool {
	l.buf = l.buffers.lend()
	for {
		l.n, l.err = unix.Read(int(fd), l.buf[:])
		if !errors.Is(l.err, unix.EINTR) {
			break
		}
	}
	if errors.Is(l.err, unix.EAGAIN) {
		l.back()
		return false
	}
	return true
}

// read waits for bytes. They are valid until back. The error is io.EOF at the
// end, and then there are none.
func (l *lender) read() ([]byte, error) {
	if err := l.rc.Read(l.step); err != nil {
		return nil, err
	}
	switch {
	case l.err != nil:
		return nil, os.NewSyscallError("read", l.err)
	case l.n <= 0 && l.broken():
		return nil, syscall.ECONNRESET
	case l.n <= 0:
		return nil, io.EOF
	}
	return l.buf[:l.n], nil
}

// back returns the buffer.
func (l *lender) back() {
	if l.buf != nil {
		l.buffers.back(l.buf)
		l.buf = nil
	}
}
