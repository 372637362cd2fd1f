package inside

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
)

// The bounds of questions to the name server.
const (
	maxQuestion = 4 << 10 // bytes: nobody has a longer one
	maxWaiting  = 256     // that are not answered yet; one more is dropped
)

// An exchange is a stream on which questions go and their answers come, in the
// same order.
type exchange struct {
	s *mux.Stream

	mu    sync.Mutex      // guards what follows
	asked []unix.Sockaddr // who waits
	ended bool
}

// serveNames passes on the questions that come by UDP, and their answers, until
// the socket is closed. An exchange that has ended is begun anew.
func (t *tunnels) serveNames() {
	var x *exchange
	buf := make([]byte, 2+maxQuestion)
	for {
		n, from, err := receive(t.names, buf[2:])
		if errors.Is(err, os.ErrClosed) {
			break
		}
		if err != nil || n == 0 {
			continue // an answer of ours that nobody took
		}
		if x == nil || x.over() {
			s, err := t.open(netip.AddrPortFrom(nameServer(), namePort), true)
			if err != nil {
				continue // it is asked again
			}
			x = &exchange{s: s}
			go x.answer(t.names)
		}
		if x.wait(from) {
			binary.BigEndian.PutUint16(buf, uint16(n))
			_, _ = x.s.Write(buf[:2+n]) // the exchange has ended, else, and it is asked again
		}
	}
	if x != nil {
		_ = x.s.Close() // nobody waits any more
	}
}

func (x *exchange) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ended
}

// wait notes who waits for the next answer, where there is room.
func (x *exchange) wait(who unix.Sockaddr) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.asked) >= maxWaiting {
		return false
	}
	x.asked = append(x.asked, who)
	return true
}

func (x *exchange) next() (unix.Sockaddr, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.asked) == 0 {
		return nil, false
	}
	who := x.asked[0]
	x.asked = x.asked[1:]
	return who, true
}

// answer passes on answers until the exchange ends.
func (x *exchange) answer(socket *os.File) {
	buf := make([]byte, 1<<16)
	for {
		if _, err := io.ReadFull(x.s, buf[:2]); err != nil {
			break
		}
		n := int(binary.BigEndian.Uint16(buf))
		if _, err := io.ReadFull(x.s, buf[:n]); err != nil {
			break
		}
		who, ok := x.next()
		if !ok {
			break // more answers than questions
		}
		if n > 0 {
			_ = control(socket, func(fd int) error { return unix.Sendto(fd, buf[:n], 0, who) }) // who asked asks again
		}
	}
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	_ = x.s.Close() // it has ended
}

// receive waits for a datagram.
func receive(f *os.File, buf []byte) (n int, from unix.Sockaddr, err error) {
	closed := waitRead(f, func(fd int) bool {
		n, from, err = unix.Recvfrom(fd, buf, 0)
		return err == unix.EAGAIN
	})
	if closed != nil {
		return 0, nil, closed
	}
	return n, from, err
}
