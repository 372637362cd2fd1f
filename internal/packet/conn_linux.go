package packet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end of a conversation. Receive is for one goroutine; everything
// else may be called concurrently.
type Conn struct {
	f      *os.File // non-blocking, in the runtime's poller
	limits Limits
	buf    []byte // Receive's
	oob    []byte // Receive's

	mu sync.Mutex // serialises Send
}

// New takes over one end of a SOCK_SEQPACKET pair, and closes it where it
// fails. The descriptor becomes non-blocking and close-on-exec.
func New(fd int, l Limits) (*Conn, error) {
	if l.Message < 1 || l.FDs < 0 || l.FDs > MaxFDs {
		unix.Close(fd)
		return nil, fmt.Errorf("%w: %d bytes and %d descriptors", ErrLimits, l.Message, l.FDs)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("packet: set non-blocking: %w", err)
	}
	unix.CloseOnExec(fd)
	widen(fd, l.Message)
	return &Conn{
		f:      os.NewFile(uintptr(fd), "packet"),
		limits: l,
		buf:    make([]byte, l.Message+1), // one more: a message over the limit is seen
		oob:    make([]byte, unix.CmsgSpace(l.FDs*4)),
	}, nil
}

// widen makes the buffer hold the longest message, where this host's default
// is below it. Where the kernel does not let it, Send says so.
func widen(fd, message int) {
	const overhead = 4 << 10
	if have, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil && have < message+overhead {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, message+overhead)
	}
}

// Pair returns two connected ends, close-on-exec.
func Pair() (int, int, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("packet: socketpair: %w", err)
	}
	return p[0], p[1], nil
}

// Close ends the conversation and unblocks Send and Receive, which then
// return os.ErrClosed.
func (c *Conn) Close() error { return c.f.Close() }

// CloseSend ends our half of the conversation: the other side reads the end,
// and we can still hear what it has to say. It does not wait for a Send that is
// under way, and does not unblock it.
func (c *Conn) CloseSend() error {
	return c.shutdown(unix.SHUT_WR)
}

// Shutdown ends both halves: Receive returns what has come, and then io.EOF;
// nothing more comes, and nothing more can be sent. It unblocks both.
func (c *Conn) Shutdown() error {
	return c.shutdown(unix.SHUT_RDWR)
}

// shutdown takes no lock of the descriptor: it does not wait for a Send.
func (c *Conn) shutdown(how int) error {
	rc, err := c.f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	if err := rc.Control(func(fd uintptr) { opErr = unix.Shutdown(int(fd), how) }); err != nil {
		return fmt.Errorf("packet: %w", os.ErrClosed)
	}
	return opErr
}

// SetSendDeadline bounds every Send, also one that is under way, for a side
// that may not read: after t it returns os.ErrDeadlineExceeded. The zero time
// is no bound.
func (c *Conn) SetSendDeadline(t time.Time) error { return c.f.SetWriteDeadline(t) }

// SetReceiveDeadline is SetSendDeadline for Receive.
func (c *Conn) SetReceiveDeadline(t time.Time) error { return c.f.SetReadDeadline(t) }

// Send sends one message with its descriptors, which stay the caller's. A
// message goes as a whole or not at all. The error is ErrLimits for a message
// that the other side would not take, and wraps EPIPE where it has hung up.
func (c *Conn) Send(b []byte, fds ...int) error {
	if len(b) == 0 || len(b) > c.limits.Message || len(fds) > c.limits.FDs {
		return fmt.Errorf("%w: %d bytes and %d descriptors", ErrLimits, len(b), len(fds))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw(true, func(fd int) error {
		return unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL)
	})
}

// Receive returns the next message, whose bytes are valid until the next
// Receive, and its descriptors, which are the caller's and close-on-exec. It
// returns io.EOF after the other side has hung up, ErrMalformed for what
// cannot be a message, whose descriptors are closed, and os.ErrClosed after
// Close.
func (c *Conn) Receive() ([]byte, []int, error) {
	var n, oobn, flags int
	err := c.raw(false, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, c.buf, c.oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	fds, err := descriptors(c.oob[:oobn])
	switch {
	case n == 0:
		err = io.EOF
	case n > c.limits.Message, len(fds) > c.limits.FDs, flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = ErrMalformed
	}
	if err != nil {
		CloseAll(fds)
		return nil, nil, err
	}
	return c.buf[:n], fds, nil
}

// raw runs op on the descriptor, waiting for it as the direction wants.
func (c *Conn) raw(write bool, op func(fd int) error) error {
	rc, err := c.f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	step := func(fd uintptr) bool {
		for {
			opErr = op(int(fd))
			if errors.Is(opErr, unix.EINTR) || errors.Is(opErr, unix.ECONNRESET) {
				continue // a reset is said once, and before what the other side sent
			}
			return !errors.Is(opErr, unix.EAGAIN)
		}
	}
	if write {
		err = rc.Write(step)
	} else {
		err = rc.Read(step)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("packet: %w", os.ErrDeadlineExceeded)
	case err != nil:
		// The poller's word for a closed file is internal to the standard
		// library; beside the deadline it is the only error it has.
		return fmt.Errorf("packet: %w", os.ErrClosed)
	}
	return opErr
}

// descriptors returns those of a control message. What is there besides (the
// other side can ask for it by options of the socket) is malformed; a
// descriptor among that is returned too, to be closed.
func descriptors(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, ErrMalformed
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			err = ErrMalformed
		}
		if m.Header.Type == unix.SCM_PIDFD {
			m.Header.Type = unix.SCM_RIGHTS // one descriptor, laid out alike
		}
		if some, parseErr := unix.ParseUnixRights(&m); parseErr == nil {
			fds = append(fds, some...)
		}
	}
	return fds, err
}

// CloseAll closes descriptors that came with a message.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
