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
	"time"

	"github.com/callcell/callcell/internal/cell"
)

// size is how much goes through at once.
const size = 32 << 10

// Pair returns the two ends of what goes between front and egress process: the
// front's, and the one to be sent.
func Pair() (front *net.UnixConn, egress *os.File, err error) {
	syscall.ForkLock.RLock() // no process that is started meanwhile gets them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
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
// says something more, as it is with a connection of the kernel's. What the process
// said before comes first.
func Carry(ctx context.Context, t cell.Tunnel, front *net.UnixConn) {
	(&carrier{t: t, front: front, parting: parting}).carry(ctx)
}

// parting is for how long a program hears out a process that is gone, once it has
// said more than that process took.
const parting = 5 * time.Second

type carrier struct {
	t       cell.Tunnel
	front   *net.UnixConn
	parting time.Duration
	once    sync.Once
}

func (c *carrier) carry(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { c.abort(ctx.Err()) })()
	hearing, heard := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { c.abort(c.up(hearing)) })
	both.Go(func() {
		defer heard()
		c.abort(c.down())
	})
	both.Wait()
	_ = c.t.Close()     // both have said all
	_ = c.front.Close() // the same
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
func (c *carrier) up(hearing context.Context) error {
	err := copyAll(process{c.front}, c.t)
	if err == nil {
		return c.front.CloseWrite()
	}
	if errors.As(err, new(gone)) {
		c.hearOut(hearing, err)
	}
	return err
}

// hearOut waits until all is passed on that a process said before it closed. What
// the program says meanwhile goes nowhere.
func (c *carrier) hearOut(hearing context.Context, err error) {
	hearing, cancel := context.WithTimeout(hearing, c.parting)
	defer cancel()
	defer context.AfterFunc(hearing, func() { c.abort(err) })() // it unblocks what follows
	_, _ = io.Copy(io.Discard, c.t)
	<-hearing.Done()
}

// process is the front's end of what goes to the process.
type process struct{ front *net.UnixConn }

// gone is the error of what the process takes no more.
type gone struct{ error }

func (p process) Write(b []byte) (int, error) {
	n, err := p.front.Write(b)
	if err != nil {
		err = gone{err}
	}
	return n, err
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
