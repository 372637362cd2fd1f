package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxMessage is the longest message in bytes, MaxFDs the most descriptors one
// carries.
const (
	MaxMessage = 16 << 10
	MaxFDs     = 4 + 2*MaxPorts // the channel and the sockets of a cell with all that it may have
)

// maxString bounds every string of a message.
const maxString = 8 << 10

// ErrMalformed is a message that is not what this package writes.
var ErrMalformed = errors.New("wire: malformed message")

// Type says what a message is. The zero value is invalid.
type Type uint8

// The types of messages: requests first, then answers.
const (
	TypeOpen Type = iota + 1
	TypeStart
	TypeKill
	TypeStop
	TypeList
	TypeGet
	TypeClose
	TypeEgress
	TypeUnpack
	TypeKeep
	TypeDrop
	TypeTrees
	TypeRemove
	TypeOpenTree
	TypeHello
	TypeOpened
	TypeExited
	TypeUnpacked
	TypeDone
	TypeFound
	TypeClosed
	TypeFailed
	TypeFreed
	TypeSwept
	TypeLaunch
	TypeLaunched
	TypeCount
)

// Message is one message without its descriptors.
type Message struct {
	Seq  uint32
	Body Body
}

// Body is one of the message types of this package.
type Body interface {
	Type() Type
	fields(c *coder)
}

func newBody(t Type) Body {
	if b := newRequest(t); b != nil {
		return b
	}
	return newAnswer(t)
}

func newRequest(t Type) Body {
	switch t {
	case TypeOpen:
		return &Open{}
	case TypeStart:
		return &Start{}
	case TypeKill:
		return &Kill{}
	case TypeStop:
		return &Stop{}
	case TypeList:
		return &List{}
	case TypeGet:
		return &Get{}
	case TypeClose:
		return &Close{}
	case TypeEgress:
		return &Egress{}
	case TypeUnpack:
		return &Unpack{}
	case TypeKeep:
		return &Keep{}
	case TypeDrop:
		return &Drop{}
	case TypeTrees:
		return &Trees{}
	case TypeRemove:
		return &Remove{}
	case TypeOpenTree:
		return &OpenTree{}
	case TypeLaunch:
		return &Launch{}
	}
	return nil
}

func newAnswer(t Type) Body {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeOpened:
		return &Opened{}
	case TypeExited:
		return &Exited{}
	case TypeUnpacked:
		return &Unpacked{}
	case TypeDone:
		return &Done{}
	case TypeFound:
		return &Found{}
	case TypeClosed:
		return &Closed{}
	case TypeFailed:
		return &Failed{}
	case TypeFreed:
		return &Freed{}
	case TypeSwept:
		return &Swept{}
	case TypeLaunched:
		return &Launched{}
	case TypeCount:
		return &Count{}
	}
	return nil
}

// Encode returns the message's bytes. It fails only where a field is out of
// its bounds or the whole is too long; the error is ErrMalformed.
func Encode(m Message) ([]byte, error) {
	c := &coder{encode: true, buf: make([]byte, 0, 256)}
	t := uint8(m.Body.Type())
	c.u8(&t)
	c.u32(&m.Seq)
	m.Body.fields(c)
	if c.bad || len(c.buf) > MaxMessage {
		return nil, fmt.Errorf("%w: a field of type %d is out of its bounds, or the whole is too long", ErrMalformed, t)
	}
	return c.buf, nil
}

// Decode reads one message. On an error the message is the zero Message.
func Decode(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, ErrMalformed
	}
	c := &coder{buf: b}
	var t uint8
	var m Message
	c.u8(&t)
	c.u32(&m.Seq)
	m.Body = newBody(Type(t))
	if m.Body == nil {
		return Message{}, ErrMalformed
	}
	m.Body.fields(c)
	if c.bad || len(c.buf) != 0 {
		return Message{}, ErrMalformed
	}
	return m, nil
}

// A coder runs over the fields of a message in one order for both ways:
// encoding appends to buf, decoding eats from its front.
type coder struct {
	encode bool
	bad    bool
	buf    []byte
}

func (c *coder) eat(n int) []byte {
	if c.bad || len(c.buf) < n {
		c.bad = true
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) u8(v *uint8) {
	if c.encode {
		c.buf = append(c.buf, *v)
	} else if b := c.eat(1); b != nil {
		*v = b[0]
	}
}

func (c *coder) u16(v *uint16) {
	if c.encode {
		c.buf = binary.LittleEndian.AppendUint16(c.buf, *v)
	} else if b := c.eat(2); b != nil {
		*v = binary.LittleEndian.Uint16(b)
	}
}

func (c *coder) u32(v *uint32) {
	if c.encode {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
	} else if b := c.eat(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (c *coder) i64(v *int64) {
	if c.encode {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(*v))
	} else if b := c.eat(8); b != nil {
		*v = int64(binary.LittleEndian.Uint64(b))
	}
}

func (c *coder) i32(v *int32) {
	u := uint32(*v)
	c.u32(&u)
	*v = int32(u)
}

// flag is one byte that is 0 or 1 and nothing else.
func (c *coder) flag(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	if b > 1 {
		c.bad = true
	}
	*v = b == 1
}

func (c *coder) str(v *string) {
	if len(*v) > maxString {
		c.bad = true
		return
	}
	n := uint16(len(*v))
	c.u16(&n)
	if c.encode {
		c.buf = append(c.buf, *v...)
		return
	}
	if int(n) > maxString {
		c.bad = true
		return
	}
	if b := c.eat(int(n)); b != nil {
		*v = string(b)
	}
}

// raw is as many bytes as v has.
func (c *coder) raw(v []byte) {
	if c.encode {
		c.buf = append(c.buf, v...)
	} else if b := c.eat(len(v)); b != nil {
		copy(v, b)
	}
}

// maxItems bounds every list of a message.
const maxItems = 64

// list codes a slice. Decoding grows it item by item, so that a count alone
// takes no memory.
func list[T any](c *coder, v *[]T, item func(*T)) {
	n := uint16(min(len(*v), maxItems+1))
	c.u16(&n)
	if n > maxItems {
		c.bad = true
		return
	}
	for i := 0; i < int(n) && !c.bad; i++ {
		if !c.encode {
			*v = append(*v, *new(T))
		}
		item(&(*v)[i])
	}
}
