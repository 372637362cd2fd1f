package broker

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/callcell/callcell/envelope"
)

// The errors that a stream of a capture returns.
var (
	errOutputTotal  = errors.New("broker: resources.output.total is written")
	errOutputSealed = errors.New("broker: the program has ended")
)

// A capture keeps what a program writes: of each stream the head and the tail,
// and the exact number of bytes. It holds no more than resources.output.keep
// of each stream, whatever is written. It is safe for concurrent use.
type capture struct {
	mu     sync.Mutex // guards all that follows
	left   int64      // of resources.output.total, of both streams together
	sealed bool
	live   Live
	stdout keeper
	stderr keeper
}

func newCapture(c envelope.OutputCap) *capture {
	return &capture{left: int64(c.Total), stdout: newKeeper(int(c.Keep)), stderr: newKeeper(int(c.Keep))}
}

// writer returns the writer of one of the streams. It takes bytes up to the
// total and then returns an error, which ends the program.
func (c *capture) writer(k *keeper) io.Writer { return stream{c, k} }

type stream struct {
	c *capture
	k *keeper
}

// A Live hears what a program writes while it runs: masked, and no more than
// resources.output.total. nil swallows. Each is written by one goroutine, and
// not after the call has ended; one that blocks holds the program up, and must
// not do so when the call's context has ended. An error ends the program as
// one that wrote too much.
type Live struct {
	Stdout, Stderr io.Writer

	// Keep makes it durable that there is this call. It comes before the intent,
	// once, and is waited for: after an error nothing of the call runs. nil: nobody comes back for the call.
	Keep func(ctx context.Context, id string) error

	// What follows may be nil. It is called in this order, on the goroutine of
	// the call, must not block, and a panic in it is dropped.

	Begun    func(id string)            // which call it is, before anything can fail
	Admitted func(tokens int64)         // a metered call has its turn, and a result of at most so many tokens
	Running  func(level envelope.Level) // the program is about to start

	// Turn takes over the turn of a metered call, of which all but the row is done:
	// it lasts until leave, which must be called when nothing of the result is held
	// any more, and may be called more than once. nil: the turn is the next one's.
	Turn func(leave func())
}

// hear tells who listens, and reports whether anybody heard.
func hear[T any](what func(T), v T) (heard bool) {
	if what == nil {
		return false
	}
	defer func() { _ = recover() }() // a listener must not keep the row from being completed
	what(v)
	return true
}

func (s stream) Write(p []byte) (int, error) {
	n, err := s.keep(p)
	if w := s.listener(); w != nil && n > 0 {
		if _, failed := w.Write(p[:n]); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// listener is who hears the stream while it is written, or nil.
func (s stream) listener() io.Writer {
	if s.k == &s.c.stdout {
		return s.c.live.Stdout
	}
	return s.c.live.Stderr
}

func (s stream) keep(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.sealed {
		return 0, errOutputSealed
	}
	n := int(min(int64(len(p)), s.c.left))
	s.c.left -= int64(n)
	s.k.take(p[:n])
	if n < len(p) {
		return n, errOutputTotal
	}
	return n, nil
}

// seal lets no more in and returns what was kept.
func (c *capture) seal() (stdout, stderr envelope.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.stdout.stream(), c.stderr.stream()
}

// A keeper keeps the first and the last bytes of a stream.
type keeper struct {
	headMost, tailMost int
	head               []byte
	tail               []byte // a ring once it is full: its first byte is at next
	next               int
	total              int64
}

func newKeeper(keep int) keeper {
	return keeper{headMost: keep - keep/2, tailMost: keep / 2}
}

func (k *keeper) take(p []byte) {
	k.total += int64(len(p))
	n := min(len(p), k.headMost-len(k.head))
	k.head = grow(k.head, p[:n], k.headMost)
	p = p[n:]
	if over := len(p) - k.tailMost; over >= 0 { // all that was there goes
		k.tail, k.next = grow(k.tail[:0], p[over:], k.tailMost), 0
		return
	}
	n = min(len(p), k.tailMost-len(k.tail))
	k.tail = grow(k.tail, p[:n], k.tailMost)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(k.tail[k.next:], p)
		k.next = (k.next + n) % k.tailMost
	}
}

// grow appends p to b. It doubles the room as append does, but never beyond
// most: what is kept is what is held.
func grow(b, p []byte, most int) []byte {
	if need := len(b) + len(p); need > cap(b) {
		room := make([]byte, len(b), min(most, max(2*cap(b), need)))
		copy(room, b)
		b = room
	}
	return append(b, p...)
}

// stream returns what was kept, in memory of its own. Where nothing is lost
// it is all in Head.
func (k *keeper) stream() envelope.Stream {
	s := envelope.Stream{Total: k.total, Truncated: k.total > int64(len(k.head)+len(k.tail))}
	s.Head = append(envelope.Data{}, k.head...)
	tail := append(append(envelope.Data{}, k.tail[k.next:]...), k.tail[:k.next]...)
	if s.Truncated {
		s.Tail = tail
	} else {
		s.Head = append(s.Head, tail...)
	}
	return s
}
