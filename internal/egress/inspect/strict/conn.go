package strict

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// maxChunkLine is the most bytes of the line before a chunk, maxHexDigits the
// most digits of its size.
const (
	maxChunkLine = 512
	maxHexDigits = 15
)

// state is what is read next.
type state int

const (
	atStart   state = iota // the first byte of a head
	inHead                 // the rest of it
	inBody                 // left bytes, then atStart
	atSize                 // the line before a chunk
	inChunk                // left bytes, then atGap
	atGap                  // CR LF behind a chunk
	inTrailer              // fields behind the last chunk
	waiting                // an upgrade has not been answered
	raw                    // it has been: everything passes
	broken                 // there was a fault
)

// Conn is a connection of which only strict requests can be read. One
// goroutine at a time may read; Next, Raw and Head may be called meanwhile.
type Conn struct {
	net.Conn
	in    *bufio.Reader
	max   int
	judge func(Head) *Fault
	fault func(*Fault, bool)

	// Of the reader alone.
	out     []byte // is handed on first
	text    []byte // of the head or the trailer that is being read
	left    int64  // of a body or a chunk
	skipped bool   // an empty line before the request line

	mute atomic.Bool // a fault in a head has been answered

	mu   sync.Mutex // guards what follows
	at   state
	head Head
	n    int64 // heads
}

// Options say what a Conn asks, and whom it tells.
type Options struct {
	Max int // bytes of a head, and of a trailer

	// Judge may find a fault in a head that is strict, nil where not. It is
	// called by the reader.
	Judge func(Head) *Fault

	// Fault is called at the first fault, and then only, by the reader. With
	// inHead a head was being read: no earlier request is unanswered, and
	// Fault may answer on the connection.
	Fault func(f *Fault, inHead bool)
}

// NewConn returns a Conn on top of conn.
func NewConn(conn net.Conn, o Options) *Conn {
	return &Conn{Conn: conn, in: bufio.NewReaderSize(conn, 4096), max: o.Max, judge: o.Judge, fault: o.Fault}
}

// Head returns the last head that was handed on, and how many there were.
func (c *Conn) Head() (Head, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head, c.n
}

// Next says that the last request is going to be answered: if it was an
// upgrade, it is not granted, and another request may follow.
func (c *Conn) Next() { c.leaveWaiting(atStart) }

// Raw says that the last request was an upgrade and is going to be granted:
// what follows passes as it is.
func (c *Conn) Raw() { c.leaveWaiting(raw) }

func (c *Conn) leaveWaiting(to state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == waiting {
		c.at = to
	}
}

func (c *Conn) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *Conn) enter(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = s
}

// CloseWrite ends the sending side, where the connection below has two.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write implements net.Conn. After a fault in a head it writes nothing: Fault
// has answered it, and the reader, which saw the first byte of it, would too.
func (c *Conn) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn. After a fault it returns an error that net/http
// takes for a lost connection. A deadline that passes within a head is a fault.
func (c *Conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(c.out) > 0 {
			n := copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		}
		at := c.state()
		var n int
		var err error
		switch at {
		case raw:
			return c.in.Read(p)
		case inBody, inChunk:
			n, err = c.readBody(p, at)
		default:
			err = c.step(at)
		}
		if n > 0 || err != nil {
			return n, c.report(err, at)
		}
	}
	return 0, nil
}

// report tells of a fault once and hides it from the reader.
func (c *Conn) report(err error, at state) error {
	var fault *Fault
	if !errors.As(err, &fault) {
		return err
	}
	if at != broken {
		c.enter(broken)
		c.fault(fault, at == inHead)
		c.mute.Store(at == inHead)
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: fault}
}

// step reads what is not a body, as far as one line.
func (c *Conn) step(at state) error {
	switch at {
	case atStart:
		return c.start()
	case inHead:
		return c.readHead()
	case atSize:
		return c.size()
	case atGap:
		return c.gap()
	case inTrailer:
		return c.trailer()
	case waiting:
		return c.wait()
	}
	return bad("nothing is read after a fault")
}

// start hands on the first byte of a head before the rest has been seen: who
// reads ahead while a request is being answered waits for just this one, to
// notice the end of the connection. So a fault in the next head waits until
// the request before it has been answered.
func (c *Conn) start() error {
	first, err := c.in.Peek(1)
	if err != nil {
		return err
	}
	if first[0] == '\r' && !c.skipped {
		two, err := c.in.Peek(2)
		if err != nil {
			return err
		}
		if two[1] == '\n' {
			c.skipped = true
			_, err = c.in.Discard(2)
			return err
		}
	}
	c.skipped = false
	c.text = append(c.text[:0], first[0])
	c.out = []byte{first[0]}
	c.enter(inHead)
	_, err = c.in.Discard(1)
	return err
}

// line adds one line, or a piece of one, to text. It reports whether text now
// ends in an empty line.
func (c *Conn) line() (end bool, _ error) {
	started := len(c.text) == 0 || c.text[len(c.text)-1] == '\n'
	piece, err := c.in.ReadSlice('\n')
	c.text = append(c.text, piece...)
	switch {
	case err != nil && !errors.Is(err, bufio.ErrBufferFull):
		return false, err
	case len(c.text) > c.max:
		return false, &Fault{Status: http.StatusRequestHeaderFieldsTooLarge, Why: "the head has more than " + strconv.Itoa(c.max) + " bytes"}
	}
	return started && string(piece) == "\r\n" || bytes.HasSuffix(c.text, []byte("\n\n")), nil
}

func (c *Conn) readHead() error {
	end, err := c.line()
	if late, ok := err.(net.Error); ok && late.Timeout() {
		return &Fault{Status: http.StatusRequestTimeout, Why: "the head did not come in time"}
	}
	if err != nil || !end {
		return err
	}
	head, frame, fault := parseHead(c.text)
	if fault == nil {
		fault = c.judge(head)
	}
	if fault != nil {
		return fault
	}
	c.out = c.text[1:]
	c.text = nil
	c.left = frame.length
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head, c.n = head, c.n+1
	switch {
	case head.Upgrade:
		c.at = waiting
	case frame.chunked:
		c.at = atSize
	case frame.length > 0:
		c.at = inBody
	default:
		c.at = atStart
	}
	return nil
}

// readBody hands on at most what is left of a body or a chunk.
func (c *Conn) readBody(p []byte, at state) (int, error) {
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.left == 0 && at == inBody {
		c.enter(atStart)
	} else if c.left == 0 {
		c.enter(atGap)
	}
	return n, err
}

func (c *Conn) size() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	if len(line) > maxChunkLine {
		return bad("the line before a chunk is too long")
	}
	n, fault := chunkSize(line)
	if fault != nil {
		return fault
	}
	c.out, c.left = bytes.Clone(line), n
	if n == 0 {
		c.text = nil
		c.enter(inTrailer)
	} else {
		c.enter(inChunk)
	}
	return nil
}

// chunkSize reads the line before a chunk. What is behind a semicolon means
// nothing to anybody.
func chunkSize(text []byte) (int64, *Fault) {
	line, _, fault := cutLine(text)
	if fault != nil {
		return 0, fault
	}
	size, _, _ := strings.Cut(string(line), ";")
	n, err := strconv.ParseUint(size, 16, 63)
	if err != nil || len(size) > maxHexDigits {
		return 0, bad("the size of a chunk is not one hexadecimal number")
	}
	return int64(n), nil
}

func (c *Conn) gap() error {
	var end [2]byte
	if _, err := io.ReadFull(c.in, end[:]); err != nil {
		return err
	}
	if string(end[:]) != "\r\n" {
		return bad("a chunk is longer than it said")
	}
	c.out = end[:]
	c.enter(atSize)
	return nil
}

func (c *Conn) trailer() error {
	end, err := c.line()
	if err != nil || !end {
		return err
	}
	for rest := c.text; len(rest) > 0; {
		line, more, fault := cutLine(rest)
		if fault == nil && len(line) > 0 {
			fault = trailerField(line)
		}
		if fault != nil {
			return fault
		}
		rest = more
	}
	c.out, c.text = c.text, nil
	c.enter(atStart)
	return nil
}

func trailerField(line []byte) *Fault {
	name, _, fault := cutField(line)
	if fault != nil {
		return fault
	}
	switch strings.ToLower(name) {
	case "content-length", "transfer-encoding", "host", "trailer", "connection", "upgrade":
		return bad("a trailer that belongs into the head")
	}
	return nil
}

// wait reads, so that the end of the connection is noticed, but a byte before
// the answer to an upgrade belongs to nobody.
func (c *Conn) wait() error {
	_, err := c.in.Peek(1)
	if err != nil {
		return err
	}
	if c.state() == waiting {
		return bad("bytes behind a request to upgrade, before its answer")
	}
	return nil
}
