package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The bounds of a connection of DNS over TCP.
const (
	maxConns    = 4               // at once; one more is closed
	maxTCPBytes = 4 << 10         // of a question: nobody has a longer one
	maxTCPAsked = 1 << 10         // questions of one connection
	tcpIdle     = 5 * time.Second // for a question to come, and for an answer to be taken
)

// ServeUDP answers until the socket is closed. It returns net.ErrClosed then,
// and any other error of reading.
func (r *Responder) ServeUDP(pc net.PacketConn) error {
	buf := make([]byte, maxTCPBytes)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return err
		}
		if answer := r.Answer(buf[:n]); answer != nil {
			// An answer that cannot be sent is asked for again.
			_, _ = pc.WriteTo(answer, from)
		}
	}
}

// How many questions a guest can hand over before each waits, and how long: it
// hands over thousands with one call of its kernel, and each costs us several.
const (
	freeExchanged  = 100_000
	exchangedEvery = 100 * time.Microsecond
)

// ServeExchange answers the datagrams that come on one connection, each with
// its length before it in two bytes, and in the order in which they come: by an
// empty one where there is no answer. It returns when the connection ends, or
// brings what is too long for a question.
func (r *Responder) ServeExchange(c io.ReadWriter) error {
	buf := make([]byte, 2+maxTCPBytes)
	for {
		q, err := readFramed(c, buf)
		if err != nil {
			return err
		}
		_ = r.slowly.Wait(context.Background()) // a moment: it does not fail
		if _, err := c.Write(withLength(r.Answer(q))); err != nil {
			return err
		}
	}
}

// readFramed reads a question that has its length before it.
func readFramed(c io.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(c, buf[:2]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(buf))
	if n > maxTCPBytes {
		return nil, errors.New("a question that is too long")
	}
	_, err := io.ReadFull(c, buf[2:2+n])
	return buf[2 : 2+n], err
}

func withLength(answer []byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(answer)), uint16(len(answer)))
	return append(b, answer...)
}

// ServeTCP answers connections until the listener is closed, at most four at
// once, and closes those that are left. It returns what Accept returned after
// all of them have ended. Goroutines are started by run, which must not wait.
func (r *Responder) ServeTCP(l net.Listener, run func(func())) error {
	s := &streams{open: map[net.Conn]struct{}{}}
	defer s.end()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if !s.add(c) {
			_ = c.Close()
			continue
		}
		run(func() {
			defer s.done(c)
			_ = r.serveConn(c) // it ends the connection, and that is all that can be done
		})
	}
}

// serveConn answers the questions of one connection.
func (r *Responder) serveConn(c net.Conn) error {
	buf := make([]byte, 2+maxTCPBytes)
	for range maxTCPAsked {
		if err := c.SetDeadline(time.Now().Add(r.idle)); err != nil {
			return err
		}
		q, err := readFramed(c, buf)
		if err != nil {
			return err
		}
		answer := r.Answer(q)
		if answer == nil {
			return errors.New("no question")
		}
		if _, err := c.Write(withLength(answer)); err != nil {
			return err
		}
	}
	return nil
}

// streams are the open connections.
type streams struct {
	mu   sync.Mutex // guards open
	open map[net.Conn]struct{}
	wg   sync.WaitGroup
}

func (s *streams) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxConns {
		return false
	}
	s.open[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *streams) done(c net.Conn) {
	_ = c.Close() // nothing is left to be said on it
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.wg.Done()
}

// end closes what is open and waits for it.
func (s *streams) end() {
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
