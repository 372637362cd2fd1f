package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Conn sends and receives messages over one end of the pair. Send may be
// called concurrently, Receive by one goroutine.
type Conn struct {
	f   *os.File   // non-blocking, in the runtime's poller
	mu  sync.Mutex // serialises Send
	buf []byte     // Receive's: a message is decoded out of it before the next comes
	oob []byte
}

// NewConn takes over one end of a SOCK_SEQPACKET pair.
func NewConn(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("wire: set non-blocking: %w", err)
	}
	unix.CloseOnExec(fd)
	return &Conn{
		f:   os.NewFile(uintptr(fd), "wire"),
		buf: make([]byte, MaxMessage+1),
		oob: make([]byte, unix.CmsgSpace(MaxFDs*4)),
	}, nil
}

// Pair returns two connected ends, close-on-exec.
func Pair() (int, int, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("wire: socketpair: %w", err)
	}
	return p[0], p[1], nil
}

// Close ends the conversation and unblocks Receive.
func (c *Conn) Close() error { return c.f.Close() }

// CloseSend ends our half of the conversation: the other side reads the end,
// and we can still hear what it has to say.
func (c *Conn) CloseSend() error {
	return c.raw(true, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// Send sends one message with its descriptors, which stay the caller's.
func (c *Conn) Send(m Message, fds ...int) error {
	b, err := Encode(m)
	if err != nil {
		return err
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

// Receive returns the next message and its descriptors, which are the
// caller's and close-on-exec. It returns io.EOF after the other side has hung
// up, ErrMalformed for bytes that are no message, whose descriptors are closed,
// and os.ErrClosed after Close.
func (c *Conn) Receive() (Message, []int, error) {
	var n, oobn, flags int
	err := c.raw(false, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, c.buf, c.oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return Message{}, nil, err
	}
	fds, err := rights(c.oob[:oobn])
	if n == 0 {
		closeAll(fds)
		return Message{}, nil, io.EOF
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = ErrMalformed
	}
	var m Message
	if err == nil {
		m, err = Decode(c.buf[:n])
	}
	if err != nil {
		closeAll(fds)
		return Message{}, nil, err
	}
	return m, fds, nil
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
			if errors.Is(opErr, unix.EINTR) || errors.Is(opErr, unix.ECONNRESET) && !write {
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
	if err != nil {
		// The poller's word for a closed file is internal to the standard
		// library; without deadlines it is the only error it has.
		return fmt.Errorf("wire: %w", os.ErrClosed)
	}
	return opErr
}

// rights returns the descriptors of a control message. What is there besides
// (the other side can ask for it by options of the socket) is malformed; a
// descriptor among that is returned too, to be closed.
func rights(oob []byte) (fds []int, err error) {
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

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
