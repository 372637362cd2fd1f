package carry

import (
	"encoding/binary"
	"errors"
	"io"
)

// The bounds of a ClientHello.
const (
	maxHello   = 32 << 10 // bytes, without the headers of its records
	maxRecords = 64       // it comes in
	maxRecord  = 16 << 10 // bytes of one
)

const (
	recordHandshake = 22
	helloType       = 1

	extServerName = 0
	extECH        = 0xfe0d // encrypted ClientHello
	extESNI       = 0xffce // what it was before
)

var (
	// errSilent is the error of a program that ends without a word.
	errSilent = errors.New("the program said nothing")
	errNotTLS = errors.New("what the program says is not TLS")
	errHello  = errors.New("the program's ClientHello cannot be read")
)

// hello is what of a ClientHello matters here.
type hello struct {
	name      string // "": it has none
	encrypted bool   // it carries another one that cannot be read
}

// readHello reads a ClientHello, and not a byte more. raw is what was read, as
// it came, and is returned with an error too.
func readHello(r io.Reader) (raw []byte, h hello, err error) {
	var msg []byte
	for range maxRecords {
		raw, msg, err = readRecord(r, raw, msg)
		if err != nil {
			return raw, hello{}, err
		}
		if len(msg) < 4 {
			continue
		}
		if msg[0] != helloType {
			return raw, hello{}, errHello
		}
		switch want := 4 + int(msg[1])<<16 + int(msg[2])<<8 + int(msg[3]); {
		case want > maxHello, len(msg) > want:
			return raw, hello{}, errHello
		case len(msg) == want:
			h, ok := parseHello(msg[4:])
			if !ok {
				return raw, hello{}, errHello
			}
			return raw, h, nil
		}
	}
	return raw, hello{}, errHello
}

// readRecord reads one record and appends it to what came before.
func readRecord(r io.Reader, raw, msg []byte) ([]byte, []byte, error) {
	var head [5]byte
	n, err := io.ReadFull(r, head[:])
	first := len(raw) == 0
	raw = append(raw, head[:n]...)
	switch {
	case n == 0 && first && errors.Is(err, io.EOF):
		return raw, msg, errSilent
	case n > 0 && first && head[0] != recordHandshake:
		return raw, msg, errNotTLS // also where it is shorter than a header
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return raw, msg, errHello
	case err != nil:
		return raw, msg, err
	}
	size := int(binary.BigEndian.Uint16(head[3:]))
	if head[0] != recordHandshake || head[1] != 3 || size == 0 || size > maxRecord || len(msg)+size > maxHello {
		return raw, msg, errHello
	}
	at := len(raw)
	raw = append(raw, make([]byte, size)...)
	n, err = io.ReadFull(r, raw[at:])
	raw = raw[:at+n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errHello
	}
	return raw, append(msg, raw[at:]...), err
}

// parseHello parses the body of a ClientHello. It is strict: what a server
// might read in two ways is not read here.
func parseHello(body []byte) (h hello, ok bool) {
	p := parser{b: body, ok: true}
	p.take(2 + 32) // version, random
	session := p.vector(1)
	suites := p.vector(2)
	methods := p.vector(1)
	if !p.ok || len(session) > 32 || len(suites) < 2 || len(suites)%2 != 0 || len(methods) == 0 {
		return hello{}, false
	}
	if len(p.b) == 0 {
		return hello{}, true
	}
	exts := parser{b: p.vector(2), ok: true}
	if !p.ok || len(p.b) > 0 {
		return hello{}, false
	}
	seen := map[int]bool{}
	for len(exts.b) > 0 {
		kind := exts.number(2)
		data := exts.vector(2)
		if !exts.ok || seen[kind] {
			return hello{}, false
		}
		seen[kind] = true
		switch kind {
		case extECH, extESNI:
			h.encrypted = true
		case extServerName:
			if h.name = serverName(data); h.name == "" {
				return hello{}, false
			}
		}
	}
	return h, true
}

// serverName returns the one name of the extension, or "".
func serverName(data []byte) string {
	p := parser{b: data, ok: true}
	list := parser{b: p.vector(2), ok: true}
	kind := list.number(1)
	name := list.vector(2)
	if !p.ok || !list.ok || len(p.b) > 0 || len(list.b) > 0 || kind != 0 {
		return ""
	}
	return string(name)
}

// parser takes bytes off the front. Once they are too few, it is not ok and
// has none.
type parser struct {
	b  []byte
	ok bool
}

func (p *parser) take(n int) []byte {
	if !p.ok || n > len(p.b) {
		p.b, p.ok = nil, false
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

// number takes a number of size bytes.
func (p *parser) number(size int) (n int) {
	for _, b := range p.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

// vector takes bytes that have their length, a number of size bytes, before
// them.
func (p *parser) vector(size int) []byte { return p.take(p.number(size)) }
