package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// peek skips white space and returns the first byte of the next token.
func (d *decoder) peek() byte {
	for {
		switch c := d.data[d.pos]; c {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return c
		}
	}
}

// count counts one more value.
func (d *decoder) count() error {
	if d.values++; d.values > maxValues {
		return d.fail("more than "+strconv.Itoa(maxValues)+" values in one document", "send less in one document")
	}
	return nil
}

// enter goes one level down, past the bracket that opens it.
func (d *decoder) enter() error {
	if d.depth++; d.depth > maxDepth {
		return d.fail("nested deeper than "+strconv.Itoa(maxDepth)+" levels", "send a flatter document")
	}
	d.pos++
	return nil
}

// next reports whether another element follows, and goes past the comma or,
// one level up, past the bracket that closes.
func (d *decoder) next(first bool) bool {
	c := d.peek()
	if c == '}' || c == ']' {
		d.pos++
		d.depth--
		return false
	}
	if !first {
		d.pos++ // the comma
	}
	return true
}

// members reads an object and calls visit before each value, which visit has
// to read. A key that comes twice is an error.
func (d *decoder) members(visit func(key string) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	seen := map[string]struct{}{}
	for first := true; d.next(first); first = false {
		d.peek()
		name, err := d.str()
		if err != nil {
			return err
		}
		key := string(name)
		d.path = append(d.path, step{key: key, index: -1})
		if _, twice := seen[key]; twice {
			return d.fail("the key "+quote(key)+" comes twice", "keep one of them")
		}
		seen[key] = struct{}{}
		d.peek()
		d.pos++ // the colon
		if err := visit(key); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
	}
	return nil
}

// elements reads an array and calls visit before each value, which visit has
// to read.
func (d *decoder) elements(visit func(i int) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	for i := 0; d.next(i == 0); i++ {
		d.path = append(d.path, step{index: i})
		if err := visit(i); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
	}
	return nil
}

// raw reads a value whose type does not matter and returns its text.
func (d *decoder) raw() ([]byte, error) {
	d.peek()
	start := d.pos
	if err := d.skim(); err != nil {
		return nil, err
	}
	return d.data[start:d.pos], nil
}

// skim goes past a value and holds it to what holds for every value.
func (d *decoder) skim() error {
	switch d.peek() {
	case '{':
		return d.members(func(string) error { return d.counted() })
	case '[':
		return d.elements(func(int) error { return d.counted() })
	case '"':
		_, err := d.str()
		return err
	}
	if end := bytes.IndexAny(d.data[d.pos:], ",]} \t\r\n"); end >= 0 {
		d.pos += end
	} else {
		d.pos = len(d.data)
	}
	return nil
}

func (d *decoder) counted() error {
	if err := d.count(); err != nil {
		return err
	}
	return d.skim()
}

// str reads a string. The bytes it returns may be the document's own: they
// are not to be written to, or kept.
func (d *decoder) str() ([]byte, error) {
	start := d.pos
	end := start + 1 + bytes.IndexByte(d.data[start+1:], '"')
	if bytes.IndexByte(d.data[start:end], '\\') < 0 {
		d.pos = end + 1
		return d.data[start+1 : end], nil
	}
	for end = start + 1; d.data[end] != '"'; end++ {
		if d.data[end] != '\\' {
			continue
		}
		n := escapeLength(d.data[end:])
		if n == 0 {
			return nil, d.fail("an escape that is half of a character", "a surrogate escape needs its partner: \\ud83d\\ude00")
		}
		end += n - 1
	}
	d.pos = end + 1
	var out string
	if err := json.Unmarshal(d.data[start:d.pos], &out); err != nil {
		return nil, d.fail("not a string", "write it again")
	}
	return []byte(out), nil
}

// escapeLength returns how many bytes the escape at the start of b has, or 0
// where it is a surrogate without its partner.
func escapeLength(b []byte) int {
	if b[1] != 'u' {
		return 2
	}
	switch unit := hexUnit(b); {
	case unit >= 0xdc00 && unit < 0xe000:
		return 0
	case unit < 0xd800 || unit >= 0xe000:
		return 6
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return 0
	}
	if low := hexUnit(b[6:]); low < 0xdc00 || low >= 0xe000 {
		return 0
	}
	return 12
}

// hexUnit returns the number of the escape \uXXXX at the start of b.
func hexUnit(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return n
}
