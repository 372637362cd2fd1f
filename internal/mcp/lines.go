package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxMessage bounds one message of a client, in bytes.
const MaxMessage = 16 << 20

// lines is a transport of one message a line, over streams whose other end is
// a stranger. A line that is too long, or no message, is answered with an error
// and skipped.
type lines struct {
	in  io.ReadCloser
	out io.Writer
	max int
}

// Connect implements sdk.Transport.
func (l lines) Connect(context.Context) (sdk.Connection, error) {
	c := &lineConn{lines: l, incoming: make(chan incoming), closed: make(chan struct{})}
	go c.readAll()
	return c, nil
}

type incoming struct {
	msg jsonrpc.Message
	err error
}

// lineConn implements sdk.Connection.
type lineConn struct {
	lines
	incoming chan incoming
	closed   chan struct{}
	once     sync.Once
	mu       sync.Mutex // guards writes to out
}

// readAll reads until the input ends. Where in cannot be interrupted, it ends
// with the process.
func (c *lineConn) readAll() {
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		line, err := readLine(r, c.max)
		next := incoming{err: err}
		var bad *badLine
		switch {
		case errors.As(err, &bad):
			c.complain(bad)
			continue
		case err == nil && len(bytes.TrimSpace(line)) == 0:
			continue
		case err == nil:
			if next.msg, err = decodeLine(line); err != nil {
				c.complain(&badLine{jsonrpc.CodeParseError, err.Error()})
				continue
			}
		}
		select {
		case c.incoming <- next:
		case <-c.closed:
			return
		}
		if next.err != nil {
			return
		}
	}
}

// badLine is a line that is answered and skipped.
type badLine struct {
	code int64
	msg  string
}

func (e *badLine) Error() string { return e.msg }

// readLine returns a line of at most max bytes, without its end. What is longer
// is read to its end and dropped. A last line without an end is none: nobody
// knows whether it was whole.
func readLine(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	long := false
	for {
		piece, err := r.ReadSlice('\n')
		if !long && len(line)+len(piece) > max+1 {
			long, line = true, nil
		}
		if !long {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case long:
			return nil, &badLine{jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has more than %d bytes", max)}
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// The bounds of what a message is made of: whoever reads one by its type may
// need a hundred bytes for each of its values.
const (
	maxDepth  = 64
	maxValues = 1 << 18 // and names of members are none
)

// decodeLine makes a message of a line.
func decodeLine(line []byte) (jsonrpc.Message, error) {
	if first := bytes.TrimLeft(line, " \t")[0]; first == '[' {
		return nil, errors.New("batches are not taken: send one message a line")
	}
	switch deep, values := shape(line); {
	case deep > maxDepth:
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	case values > maxValues:
		return nil, fmt.Errorf("more than %d values in one message", maxValues)
	}
	if !json.Valid(line) {
		return nil, errors.New("not JSON")
	}
	msg, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, errors.New("not a message of JSON-RPC 2.0")
	}
	if !sameID(line, msg) {
		return nil, errors.New("the id is neither text nor a whole number that is exact in JSON")
	}
	return msg, nil
}

// exactID is how large the number of a request may be: package jsonrpc reads it as
// a float.
const exactID = 1 << 53

// sameID reports whether the id of a message is the one that was written: an
// answer to another is an answer to nobody, or to somebody else.
func sameID(line []byte, msg jsonrpc.Message) bool {
	id := jsonrpc.ID{}
	switch m := msg.(type) {
	case *jsonrpc.Request:
		id = m.ID
	case *jsonrpc.Response:
		id = m.ID
	}
	n, number := id.Raw().(int64)
	if !number {
		return true
	}
	var written struct{ ID json.RawMessage } // nothing else of it is copied
	return json.Unmarshal(line, &written) == nil && n > -exactID && n < exactID && string(written.ID) == strconv.FormatInt(n, 10)
}

// shape returns how deep brackets are nested outside of strings, and at least how
// many values there are.
func shape(line []byte) (most, values int) {
	at, text := 0, false
	values = 1
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case text && b == '\\':
			i++
		case b == '"':
			text = !text
		case text:
		case b == '{' || b == '[':
			at++
			most = max(most, at)
			values++
		case b == ',':
			values++
		case b == '}' || b == ']':
			at--
		}
	}
	return most, values
}

// complain answers a line of which no id can be known.
func (c *lineConn) complain(bad *badLine) {
	_ = c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, bad.code, bad.msg)) // who does not read ends by himself
}

// Read implements sdk.Connection.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case next := <-c.incoming:
		return next.msg, next.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return c.write(data)
}

func (c *lineConn) write(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(append(data, '\n'))
	return err
}

// Close implements sdk.Connection.
func (c *lineConn) Close() error {
	var err error
	c.once.Do(func() {
		close(c.closed)
		err = c.in.Close()
	})
	return err
}

// SessionID implements sdk.Connection: a stream is one session.
func (c *lineConn) SessionID() string { return "" }
