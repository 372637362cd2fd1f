package wire

import (
	"errors"

	"github.com/callcell/callcell/internal/packet"
)

// Conn sends and receives messages over one end of the pair. Send may be
// called concurrently, Receive by one goroutine.
type Conn struct{ p *packet.Conn }

// NewConn takes over one end of a SOCK_SEQPACKET pair, and closes it where it
// fails.
func NewConn(fd int) (*Conn, error) {
	p, err := packet.New(fd, packet.Limits{Message: MaxMessage, FDs: MaxFDs})
	if err != nil {
		return nil, err
	}
	return &Conn{p}, nil
}

// Pair returns two connected ends, close-on-exec.
func Pair() (int, int, error) { return packet.Pair() }

// Close ends the conversation and unblocks Receive.
func (c *Conn) Close() error { return c.p.Close() }

// CloseSend ends our half of the conversation: the other side reads the end,
// and we can still hear what it has to say.
func (c *Conn) CloseSend() error { return c.p.CloseSend() }

// Send sends one message with its descriptors, which stay the caller's.
func (c *Conn) Send(m Message, fds ...int) error {
	b, err := Encode(m)
	if err != nil {
		return err
	}
	return c.p.Send(b, fds...)
}

// Receive returns the next message and its descriptors, which are the
// caller's and close-on-exec. It returns io.EOF after the other side has hung
// up, ErrMalformed for bytes that are no message, whose descriptors are closed,
// and os.ErrClosed after Close.
func (c *Conn) Receive() (Message, []int, error) {
	b, fds, err := c.p.Receive()
	if errors.Is(err, packet.ErrMalformed) {
		return Message{}, nil, ErrMalformed
	}
	if err != nil {
		return Message{}, nil, err
	}
	m, err := Decode(b)
	if err != nil {
		packet.CloseAll(fds)
		return Message{}, nil, err
	}
	return m, fds, nil
}
