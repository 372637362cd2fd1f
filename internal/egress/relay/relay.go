// Package relay carries the connections that a guest hands over to the egress
// process, as wire.Conn says: the front's bytes, none of which it looks at.
package relay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/callcell/callcell/internal/cell"
)

// size is how much goes through at once.
const size = 32 << 10

// Pair returns the two ends of what goes between front and egress process: the
// front's, and the one to be sent.
func Pair() (front *net.UnixConn, egress *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("egress/relay: %w", err)
	}
	ours, its := os.NewFile(uintptr(fds[0]), "tunnel"), os.NewFile(uintptr(fds[1]), "tunnel")
	conn, err := net.FileConn(ours)
	_ = ours.Close() // what was made of it has a descriptor of its own
	if err != nil {
		_ = its.Close() // it was not used
		return nil, nil, fmt.Errorf("egress/relay: %w", err)
	}
	return conn.(*net.UnixConn), its, nil
}

// Carry carries one connection to its end, which comes when both sides have
// said all, or one has broken off, or ctx has ended: then the other sees that
// too. It closes both.
//
// A process that has closed a connection at its end is noticed when the program
// says something more, as it is with a connection of the kernel's.
func Carry(ctx context.Context, t cell.Tunnel, front *net.UnixConn) {
	c := &carrier{t: t, front: front}
	defer context.AfterFunc(ctx, func() { c.abort(ctx.Err()) })()
	var both sync.WaitGroup
	both.Go(func() { c.abort(c.up()) })
	both.Go(func() { c.abort(c.down()) })
	both.Wait()
	_ = t.Close()     // both have said all
	_ = front.Close() // the same
}

type carrier struct {
	t     cell.Tunnel
	front *net.UnixConn
	once  sync.Once
}

// abort breaks off both sides, unless err is nil.
func (c *carrier) abort(err error) {
	if err == nil {
		return
	}
	c.once.Do(func() {
		_ = c.front.Close() // it unblocks the other direction
		_ = c.t.Reset()     // the same
	})
}

// up passes on what the program says.
func (c *carrier) up() error {
	if err := copyAll(c.front, c.t); err != nil {
		return err
	}
	return c.front.CloseWrite()
}

// down passes on what comes back.
func (c *carrier) down() error {
	if c.t.Datagrams() {
		if err := copyAll(c.t, c.front); err != nil {
			return err
		}
		return io.EOF // an exchange ends as a whole
	}
	r := bufio.NewReaderSize(c.front, size)
	buf := make([]byte, size)
	for {
		if _, err := io.ReadFull(r, buf[:2]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n == 0 {
			return c.t.CloseWrite()
		}
		for n > 0 {
			k, err := r.Read(buf[:min(n, size)])
			if k > 0 {
				_, err = c.t.Write(buf[:k])
				n -= k
			}
			if err != nil {
				return err
			}
		}
	}
}

// copyAll copies to the end. It looks at nothing but Read and Write.
func copyAll(to io.Writer, from io.Reader) error {
	buf := make([]byte, size)
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
