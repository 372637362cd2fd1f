package mux

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Conn is one end of the stream of bytes. Close unblocks the others.
type Conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// Options are what the two ends do not have in common.
type Options struct {
	Host bool // opens odd streams
	// Most is how many streams the other side may open at once, now; Allow
	// changes it. Own is how many this side may: what the other one allows.
	Most, Own int
	// Stall bounds one write; 0: nothing does.
	Stall time.Duration
}

// ErrClosed is the error of what was closed by this side.
var ErrClosed = errors.New("closed")

// ErrFull is the error of Open where there are as many streams as may be.
var ErrFull = errors.New("too many streams are open")

// Mux is one end of the channel. Its methods may be called concurrently.
type Mux struct {
	conn   Conn
	o      Options
	done   chan struct{} // closed when err is set
	ready  chan struct{} // closed when the other side has said HELLO
	ended  chan struct{} // closed when the reading goroutine has ended
	opened chan *Stream  // by the other side, and not accepted yet

	turn chan struct{} // holds one token: whoever has it writes
	out  []byte        // the frame that is written; turn's

	mu      sync.Mutex         // guards what follows
	streams map[uint32]*Stream // that are not gone
	next    uint32             // the id of the next one of ours
	last    uint32             // the id of the last one of theirs
	most    int                // how many of theirs there may be
	theirs  int                // how many there are
	ours    int
	strays  int  // how many frames may still come of streams that are gone
	closing bool // Close was called: what happens from now on is its doing
	err     error
}

// mostStreams bounds Options.Most and Allow: the queue of those that were not
// accepted holds as many.
const mostStreams = 256

// New takes over conn, says HELLO and begins to read. Ready says when the
// other side has said it.
func New(conn Conn, o Options) *Mux {
	m := &Mux{
		conn: conn, o: o, done: make(chan struct{}), ready: make(chan struct{}), ended: make(chan struct{}),
		opened: make(chan *Stream, mostStreams), turn: make(chan struct{}, 1), out: make([]byte, 0, headLen+MaxData),
		streams: map[uint32]*Stream{}, next: 2, most: min(o.Most, mostStreams),
	}
	if o.Host {
		m.next = 1
	}
	m.turn <- struct{}{}
	go m.read()
	return m
}

// Hello sends this side's first frame. Nothing else may be sent before.
func (m *Mux) Hello() error { return m.send(hello, 0, helloPayload()) }

// Ready is closed when the other side has said HELLO.
func (m *Mux) Ready() <-chan struct{} { return m.ready }

// Done is closed when the channel has broken or was closed; Err says why.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Err says why nothing goes any more; nil before Done.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Allow sets how many streams the other side may have open at once.
func (m *Mux) Allow(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = min(most, mostStreams)
}

// Open opens a stream with a note of at most MaxNote bytes that says what for.
func (m *Mux) Open(note []byte) (*Stream, error) {
	if len(note) == 0 || len(note) > MaxNote {
		return nil, errors.New("a note that is too long")
	}
	<-m.turn // the ids ascend on the way too
	s, err := m.add()
	if err == nil {
		err = m.write(open, s.id, note)
	}
	m.turn <- struct{}{}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *Mux) add() (*Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return nil, m.err
	case m.ours >= m.o.Own, m.next >= 1<<32-2:
		return nil, ErrFull
	}
	s := newStream(m, m.next, true, nil)
	m.streams[s.id] = s
	m.next += 2
	m.ours++
	return s, nil
}

// Accepted is where streams come from that the other side has opened. It is
// never closed: see Done.
func (m *Mux) Accepted() <-chan *Stream { return m.opened }

// Fail ends the channel, with err where it has not ended before. It does not
// wait.
func (m *Mux) Fail(err error) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return
	}
	if m.closing {
		err = ErrClosed
	}
	m.err = err
	streams := m.streams
	m.streams = nil
	m.mu.Unlock()
	close(m.done)
	_ = m.conn.Close() // nothing can be said any more
	for _, s := range streams {
		s.fail(err)
	}
}

// Close says BYE where it can be said at once, ends the channel, and waits
// until nothing of it runs. It may be called again.
func (m *Mux) Close() {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	select {
	case <-m.turn:
		if m.Err() == nil {
			_ = m.conn.SetWriteDeadline(time.Now().Add(byeWait)) // as send
			_, _ = m.conn.Write(appendFrame(m.out[:0], bye, 0, nil))
		}
		m.turn <- struct{}{}
	default:
	}
	m.Fail(ErrClosed)
	<-m.ended
}

// byeWait is how long a BYE may take.
const byeWait = 50 * time.Millisecond

// send sends one frame.
func (m *Mux) send(k kind, stream uint32, payload []byte) error {
	<-m.turn
	defer func() { m.turn <- struct{}{} }()
	return m.write(k, stream, payload)
}

// write writes one frame. The caller has the turn.
func (m *Mux) write(k kind, stream uint32, payload []byte) error {
	if err := m.Err(); err != nil {
		return err
	}
	if m.o.Stall > 0 {
		_ = m.conn.SetWriteDeadline(time.Now().Add(m.o.Stall)) // closed, else: Write says so
	}
	m.out = appendFrame(m.out[:0], k, stream, payload)
	if _, err := m.conn.Write(m.out); err != nil {
		what := "it hung up"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			what = "it does not read"
		}
		m.Fail(&BrokenError{what, err})
		return m.Err()
	}
	return nil
}

// read takes frames until the channel ends.
func (m *Mux) read() {
	defer close(m.ended)
	r := bufio.NewReaderSize(m.conn, 16<<10)
	buf := make([]byte, MaxData)
	h, payload, err := readFrame(r, buf)
	if err == nil {
		err = checkHello(h, payload)
	}
	if err == nil {
		close(m.ready)
	}
	for err == nil {
		if h, payload, err = readFrame(r, buf); err == nil {
			err = m.take(h, payload)
		}
	}
	m.Fail(err)
}

// take takes one frame.
func (m *Mux) take(h head, payload []byte) error {
	switch h.kind {
	case hello:
		return h.wrong("it was said before")
	case bye:
		return &BrokenError{"it said good-bye", io.EOF}
	case open:
		return m.takeOpen(h, payload)
	}
	s, gone := m.find(h.stream)
	switch {
	case s != nil:
	case gone && (h.kind == credit || h.kind == reset):
		return m.takeStray(h)
	default:
		return h.wrong("the stream is not open")
	}
	switch h.kind {
	case data:
		return s.takeData(h, payload)
	case credit:
		return s.takeCredit(h, binary.BigEndian.Uint32(payload))
	case answer:
		return s.takeAnswer(h, payload)
	}
	return s.takeEnd(h)
}

// maxStrays is how many frames can cross the END of a stream: a window's worth
// of CREDIT, which is granted by halves, and a RESET.
const maxStrays = 3

// takeStray passes over what has crossed our END. There is no more of it than
// can be: else a guest would have us read for ever, and pay nothing for it.
func (m *Mux) takeStray(h head) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.strays == 0 {
		return h.wrong("it is gone, and more came than can have crossed its end")
	}
	m.strays--
	return nil
}

// find returns a stream, or whether there was one.
func (m *Mux) find(id uint32) (s *Stream, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.streams[id]; s != nil {
		return s, false
	}
	if id%2 == m.next%2 {
		return nil, id < m.next
	}
	return nil, id <= m.last
}

// takeOpen takes a stream of the other side.
func (m *Mux) takeOpen(h head, note []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case h.stream%2 == m.next%2 || h.stream <= m.last:
		return h.wrong("its number is not the other side's next")
	case m.theirs >= m.most:
		return h.wrong("there are more than it may open")
	case m.err != nil:
		return m.err
	}
	s := newStream(m, h.stream, false, append([]byte(nil), note...))
	m.streams[s.id] = s
	m.last = s.id
	m.theirs++
	m.opened <- s // it has room: it holds as many as may be open
	return nil
}

// forget takes out a stream that has ended on both sides.
func (m *Mux) forget(s *Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[s.id] != s {
		return
	}
	delete(m.streams, s.id)
	m.strays += maxStrays
	if s.ours {
		m.ours--
	} else {
		m.theirs--
	}
}
