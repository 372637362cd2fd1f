// Package wire is how the two ends of the channel write what they say: the
// notes with which a stream is opened, the answers on it, and the messages in
// its data. Package guest says who says what.
//
// A message is its fields one after another: numbers big-endian, texts and
// lists with their length before them. Nothing follows the last field. A
// message that is longer than a note comes in the data of a stream, with its
// length before it.
package wire

import (
	"encoding/binary"
	"errors"
	"io"
)

// The bounds of messages, in bytes and items.
const (
	MaxMessage = 4 << 20 // of one in the data of a stream
	MaxItems   = 1 << 16 // arguments, variables
	MaxName    = 4 << 10
	MaxCovers  = 64
	MaxPorts   = 64
)

// ErrMalformed is the error of bytes that are no message.
var ErrMalformed = errors.New("guest/wire: not a message")

// A codec writes a message, or reads one. Its zero value writes; one with read
// set reads b. What is malformed sets bad, and then everything is zero.
type codec struct {
	read bool
	bad  bool
	b    []byte
}

func (c *codec) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	taken := c.b[:n]
	c.b = c.b[n:]
	return taken
}

func (c *codec) u8(v *uint8) {
	if !c.read {
		c.b = append(c.b, *v)
	} else if t := c.take(1); t != nil {
		*v = t[0]
	}
}

func (c *codec) u16(v *uint16) {
	if !c.read {
		c.b = binary.BigEndian.AppendUint16(c.b, *v)
	} else if t := c.take(2); t != nil {
		*v = binary.BigEndian.Uint16(t)
	}
}

func (c *codec) u32(v *uint32) {
	if !c.read {
		c.b = binary.BigEndian.AppendUint32(c.b, *v)
	} else if t := c.take(4); t != nil {
		*v = binary.BigEndian.Uint32(t)
	}
}

func (c *codec) i64(v *int64) {
	if !c.read {
		c.b = binary.BigEndian.AppendUint64(c.b, uint64(*v))
	} else if t := c.take(8); t != nil {
		*v = int64(binary.BigEndian.Uint64(t))
	}
}

// flag is one byte, 0 or 1.
func (c *codec) flag(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	*v = b == 1
	c.bad = c.bad || b > 1
}

// bytes are at most most.
func (c *codec) bytes(v *[]byte, most int) {
	n := uint32(len(*v))
	c.u32(&n)
	if c.bad = c.bad || n > uint32(most); c.bad {
		return
	}
	if !c.read {
		c.b = append(c.b, *v...)
	} else if t := c.take(int(n)); n > 0 && t != nil {
		*v = append([]byte(nil), t...)
	}
}

func (c *codec) text(v *string, most int) {
	b := []byte(*v)
	c.bytes(&b, most)
	if c.read && !c.bad {
		*v = string(b)
	}
}

// count is the length of a list whose items take at least least bytes each: it
// is never more than there can be.
func (c *codec) count(n int, most, least int) int {
	v := uint32(n)
	c.u32(&v)
	if v > uint32(most) || c.read && int(v) > len(c.b)/least {
		c.bad = true
	}
	if c.bad {
		return 0
	}
	return int(v)
}

func (c *codec) texts(v *[]string) {
	n := c.count(len(*v), MaxItems, 4)
	if c.read && n > 0 {
		*v = make([]string, n)
	}
	for i := range n {
		c.text(&(*v)[i], MaxMessage)
	}
}

// Message is one message, of which the address is meant.
type Message interface{ fields(c *codec) }

// Encode returns the bytes of a message. It refuses what Decode would not take.
func Encode(m Message) ([]byte, error) {
	c := codec{}
	m.fields(&c)
	if c.bad || len(c.b) > MaxMessage {
		return nil, ErrMalformed
	}
	return c.b, nil
}

// Decode reads a message. All of b is one. It keeps nothing of b. On an error
// what m has become is not to be used.
func Decode(b []byte, m Message) error {
	c := codec{read: true, b: b}
	m.fields(&c)
	if c.bad || len(c.b) > 0 {
		return ErrMalformed
	}
	return nil
}

// WriteTo writes a message into the data of a stream.
func WriteTo(w io.Writer, m Message) error {
	b, err := Encode(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// ReadFrom reads a message of at most most bytes from the data of a stream.
// Memory is taken as the bytes come.
func ReadFrom(r io.Reader, most int, m Message) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(min(most, MaxMessage)) {
		return ErrMalformed
	}
	b, err := ReadN(r, int64(n))
	if err != nil {
		return err
	}
	return Decode(b, m)
}

// ReadN reads n bytes. Memory is taken as they come.
func ReadN(r io.Reader, n int64) ([]byte, error) {
	const step = 64 << 10
	b := make([]byte, 0, min(n, step))
	for int64(len(b)) < n {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		room := b[len(b):min(int64(cap(b)), n)]
		k, err := r.Read(room)
		b = b[:len(b)+k]
		if err != nil && int64(len(b)) < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}
