package redact

import "unicode/utf8"

// token is one way to read a few bytes of text: as escape for others.
type token struct {
	n     int     // bytes of the text
	bytes [4]byte // what they stand for
	used  int     // of bytes
}

func (t *token) means() []byte { return t.bytes[:t.used] }

// maxToken is the length of the longest token: a surrogate pair.
const maxToken = 12

// tokens are the readings of what text begins with, beside that of its first
// byte as itself.
type tokens struct {
	list [2]token
	n    int
	more bool // text is the beginning of an escape, and ends too early
}

func (t *tokens) add(n int, means ...byte) {
	t.list[t.n].n, t.list[t.n].used = n, copy(t.list[t.n].bytes[:], means)
	t.n++
}

// character adds the reading as the character with that number, in UTF-8.
func (t *tokens) character(n int, number rune) {
	var buf [utf8.UTFMax]byte
	if size := utf8.EncodeRune(buf[:], number); utf8.ValidRune(number) {
		t.add(n, buf[:size]...)
	}
}

// trigger reports whether c can begin an escape.
func trigger(c byte) bool { return c == '\\' || c == '%' || c == '+' || c == '\r' }

// read returns the readings of what text begins with. It looks at nothing in
// front of text, and at nothing behind what it reads.
func read(text []byte) (t tokens) {
	switch text[0] {
	case '+':
		t.add(1, ' ')
	case '\r':
		if len(text) < 2 {
			t.more = true
		} else if text[1] == '\n' {
			t.add(2, '\n')
		}
	case '%':
		if v, ok := t.digits(text, 1, 2, 16); ok {
			t.add(3, byte(v))
		}
	case '\\':
		if len(text) < 2 {
			t.more = true
		} else {
			t.escape(text, text[1])
		}
	}
	return t
}

// escape reads what begins with a backslash and c.
func (t *tokens) escape(text []byte, c byte) {
	switch {
	case c == 'x':
		if v, ok := t.digits(text, 2, 2, 16); ok {
			t.byteOrCharacter(4, v)
		}
	case c == 'u':
		t.utf16(text)
	case c == 'U':
		if v, ok := t.digits(text, 2, 8, 16); ok && v <= utf8.MaxRune {
			t.byteOrCharacter(10, v)
		}
	case c >= '0' && c <= '3':
		if v, ok := t.digits(text, 1, 3, 8); ok {
			t.byteOrCharacter(4, v)
		}
	case control(c) != 0:
		t.add(2, control(c))
	case c > ' ' && c < 0x7f && !alphanumeric(c), c == ' ':
		t.add(2, c)
	}
}

func control(c byte) byte {
	switch c {
	case 'a':
		return '\a'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'v':
		return '\v'
	}
	return 0
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// byteOrCharacter adds the readings of a number as a byte, and, from 0x80 on,
// as a character.
func (t *tokens) byteOrCharacter(n int, v uint32) {
	if v <= 0xff {
		t.add(n, byte(v))
	}
	if v >= 0x80 {
		t.character(n, rune(v))
	}
}

// utf16 reads \uXXXX, or two of them that are one character.
func (t *tokens) utf16(text []byte) {
	v, ok := t.digits(text, 2, 4, 16)
	switch {
	case !ok:
	case v < 0xd800 || v > 0xdfff:
		t.byteOrCharacter(6, v)
	case v > 0xdbff:
	case len(text) < 8 && string(text[6:]) == `\u`[:len(text)-6]:
		t.more = true
	case len(text) >= 8 && text[6] == '\\' && text[7] == 'u':
		if low, ok := t.digits(text, 8, 4, 16); ok && low >= 0xdc00 && low <= 0xdfff {
			t.character(12, rune(0x10000+(v-0xd800)<<10+(low-0xdc00)))
		}
	}
}

// digits reads count digits of a base from text[at] on. It sets more where
// text ends among them.
func (t *tokens) digits(text []byte, at, count int, base uint32) (v uint32, ok bool) {
	for i := at; i < at+count; i++ {
		if i >= len(text) {
			t.more = true
			return 0, false
		}
		d := digit(text[i])
		if d >= base {
			return 0, false
		}
		v = v*base + d
	}
	return v, true
}

// digit is the value of a digit of hex, 255 of what is none.
func digit(c byte) uint32 {
	switch {
	case c >= '0' && c <= '9':
		return uint32(c - '0')
	case c >= 'a' && c <= 'f':
		return uint32(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return uint32(c-'A') + 10
	}
	return 255
}
