package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// ErrReset is the error of a stream that the other side has reset.
var ErrReset = errors.New("the other side has reset the stream")

// Stream is one stream. Read and Answer are for one goroutine each, Write and
// CloseWrite for one together; Reset and Close may be called concurrently with
// them, and unblock them.
type Stream struct {
	m    *Mux
	id   uint32
	ours bool
	note []byte
	most int // its window

	mu       sync.Mutex // guards what follows
	cond     sync.Cond  // of mu: something has changed
	in       ring       // what came and was not read
	granted  int        // how much more the other side may send
	read     int        // what was read and is not granted anew
	credit   int        // how much more may be sent
	answers  [][]byte   // that came and were not taken
	answered int        // how many came
	sent     bool       // END or RESET was sent, or is being sent
	sentCut  bool       // RESET was
	cut      bool       // by this side: nothing is taken any more
	got      bool       // END or RESET has come
	gotCut   bool       // RESET has, and no END before it: what was said is not all
	deaf     bool       // RESET has: nothing is taken there any more
	err      error      // of the channel
}

func newStream(m *Mux, id uint32, ours bool, note []byte) *Stream {
	most := Window
	if id%2 == 0 {
		most = GuestWindow
	}
	s := &Stream{m: m, id: id, ours: ours, note: note, most: most, granted: most, credit: most}
	s.cond.L = &s.mu
	return s
}

// Note is what the other side has opened it for.
func (s *Stream) Note() []byte { return s.note }

// ID is its number.
func (s *Stream) ID() uint32 { return s.id }

// Ended reports whether the other side has said all, or has reset the stream.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// Read implements io.Reader. It returns io.EOF after the other side's END, and
// ErrReset as soon as a RESET has come instead.
func (s *Stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	for s.in.len() == 0 && !s.got && !s.cut && s.err == nil {
		s.cond.Wait()
	}
	n, err := s.takeLocked(b)
	grant := 0
	if s.read >= s.most/2 && !s.got {
		grant, s.read = s.read, 0
		s.granted += grant
	}
	s.mu.Unlock()
	if grant > 0 {
		if err := s.m.send(credit, s.id, binary.BigEndian.AppendUint32(nil, uint32(grant))); err != nil && n == 0 {
			return 0, err
		}
	}
	return n, err
}

func (s *Stream) takeLocked(b []byte) (int, error) {
	switch {
	case s.cut:
		return 0, ErrClosed
	case s.gotCut:
		return 0, ErrReset
	case s.in.len() > 0:
		n := s.in.take(b)
		s.read += n
		return n, nil
	case s.got:
		return 0, io.EOF
	}
	return 0, s.err
}

// Answer waits for the next answer. It returns io.EOF where none comes, and
// ErrReset where the stream was reset instead; what came before is returned
// first.
func (s *Stream) Answer() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.answers) == 0 && !s.got && !s.cut && s.err == nil {
		s.cond.Wait()
	}
	switch {
	case s.cut:
		return nil, ErrClosed
	case len(s.answers) > 0:
		a := s.answers[0]
		s.answers = s.answers[1:]
		return a, nil
	case s.gotCut:
		return nil, ErrReset
	case s.got:
		return nil, io.EOF
	}
	return nil, s.err
}

// Write implements io.Writer. It waits for credit.
func (s *Stream) Write(b []byte) (n int, err error) {
	for n < len(b) {
		room, err := s.room(len(b) - n)
		if err != nil {
			return n, err
		}
		if err := s.say(data, b[n:n+room]); err != nil {
			return n, err
		}
		n += room
	}
	return n, nil
}

// room takes credit for one frame of at most want bytes.
func (s *Stream) room(want int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit == 0 && s.sendsLocked() == nil {
		s.cond.Wait()
	}
	if err := s.sendsLocked(); err != nil {
		return 0, err
	}
	n := min(want, s.credit, MaxData)
	s.credit -= n
	return n, nil
}

// sendsLocked says why nothing can be sent.
func (s *Stream) sendsLocked() error {
	switch {
	case s.err != nil:
		return s.err
	case s.deaf:
		return ErrReset
	case s.sent, s.cut:
		return ErrClosed
	}
	return nil
}

// Reply sends an answer, of at most MaxNote bytes, on a stream of the other
// side's, at most MaxAnswers times.
func (s *Stream) Reply(b []byte) error {
	return s.say(answer, b)
}

// say sends a frame of ours, unless an END or RESET went before it: whether one
// did is settled with the turn in hand, or it would come after the end, which is
// a breach.
func (s *Stream) say(k kind, b []byte) error {
	<-s.m.turn
	defer func() { s.m.turn <- struct{}{} }()
	s.mu.Lock()
	err := s.sendsLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.m.write(k, s.id, b)
}

// CloseWrite says that nothing more comes. It may be called again.
func (s *Stream) CloseWrite() error { return s.finish(end) }

// Reset ends both directions at once: what came and was not read is dropped.
// It may be called again.
func (s *Stream) Reset() error { return s.finish(reset) }

// Close ends the stream: as CloseWrite where the other side has said all, and
// as Reset otherwise.
func (s *Stream) Close() error {
	s.mu.Lock()
	all := s.got
	s.mu.Unlock()
	if all {
		return s.CloseWrite()
	}
	return s.Reset()
}

// finish sends END or RESET. It takes the turn: a Write that is under way comes
// before.
func (s *Stream) finish(k kind) error {
	if k == reset {
		s.mu.Lock()
		s.cut, s.in, s.answers = true, ring{}, nil // who waits, waits no longer
		s.cond.Broadcast()
		s.mu.Unlock()
	}
	<-s.m.turn
	defer func() { s.m.turn <- struct{}{} }()
	s.mu.Lock()
	say := s.err == nil && (!s.sent || k == reset && !s.got && !s.sentCut)
	s.sent = true
	s.sentCut = s.sentCut || k == reset
	s.cond.Broadcast()
	gone := s.got
	s.mu.Unlock()
	var err error
	if say {
		err = s.m.write(k, s.id, nil)
	}
	if gone {
		s.m.forget(s)
	}
	return err
}

// takeData takes bytes of the other side.
func (s *Stream) takeData(h head, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.got:
		return h.wrong("it comes after the end")
	case len(b) > s.granted:
		return h.wrong("it has more bytes than there is credit for")
	}
	s.granted -= len(b)
	if s.cut || s.err != nil {
		return nil
	}
	s.in.put(b)
	s.cond.Broadcast()
	return nil
}

// takeCredit takes what more may be sent. The other side grants what it has
// read, so there is never more than a window.
func (s *Stream) takeCredit(h head, n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 || n > uint32(s.most-s.credit) {
		return h.wrong("so much was never sent")
	}
	s.credit += int(n)
	s.cond.Broadcast()
	return nil
}

func (s *Stream) takeAnswer(h head, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.ours:
		return h.wrong("it was not asked")
	case s.got:
		return h.wrong("it comes after the end")
	case s.answered >= MaxAnswers:
		return h.wrong("there are too many")
	}
	s.answered++
	if !s.cut {
		s.answers = append(s.answers, append([]byte(nil), b...))
		s.cond.Broadcast()
	}
	return nil
}

// takeEnd takes END or RESET.
func (s *Stream) takeEnd(h head) error {
	s.mu.Lock()
	if s.deaf || s.got && h.kind == end {
		s.mu.Unlock()
		return h.wrong("it comes after the end")
	}
	if s.deaf = h.kind == reset; s.deaf && !s.got {
		s.gotCut, s.in = true, ring{}
	}
	s.got = true
	gone := s.sent
	s.cond.Broadcast()
	s.mu.Unlock()
	if gone {
		s.m.forget(s)
	}
	return nil
}

// fail ends the stream with the channel. What has come can still be read.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.cond.Broadcast()
}

// A ring holds at most a window of bytes, in memory that grows with them.
type ring struct {
	buf  []byte // its length is 0 or a power of two
	from int
	n    int
}

const ringMin = 512

func (r *ring) len() int { return r.n }

// put appends b. Credit bounds what is in it.
func (r *ring) put(b []byte) {
	if need := r.n + len(b); need > len(r.buf) {
		size := max(len(r.buf), ringMin)
		for size < need {
			size *= 2
		}
		grown := make([]byte, size)
		r.copy(grown)
		r.buf, r.from = grown, 0
	}
	at := (r.from + r.n) & (len(r.buf) - 1)
	k := copy(r.buf[at:], b)
	copy(r.buf, b[k:])
	r.n += len(b)
}

// copy copies what is in the ring to b, and returns how much that was.
func (r *ring) copy(b []byte) int {
	if r.n == 0 {
		return 0
	}
	first := r.buf[r.from:min(r.from+r.n, len(r.buf))]
	k := copy(b, first)
	return k + copy(b[k:], r.buf[:r.n-len(first)])
}

// take moves bytes to b.
func (r *ring) take(b []byte) int {
	k := r.copy(b)
	if r.n -= k; r.n == 0 {
		r.from = 0
		return k
	}
	r.from = (r.from + k) & (len(r.buf) - 1)
	return k
}
