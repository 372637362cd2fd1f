// Package tokens counts the tokens of a text as o200k does, in bounded time
// whatever the text is.
package tokens

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// The bounds of what is handed to the tokenizer at once. Its time grows with
// the square of a run of white space, and nothing bounds its memory otherwise.
const (
	maxPiece = 16 << 10 // bytes
	maxSpace = 256      // bytes of white space in a row
)

// Counter counts by o200k. The zero value is ready; its first use loads the
// vocabulary, which takes some ten milliseconds. It is safe for concurrent use.
type Counter struct {
	once  sync.Once
	codec *codec.Codec
}

// Load loads the vocabulary now.
func (c *Counter) Load() {
	c.once.Do(func() {
		c.codec = codec.NewO200kBase()
		c.codec.SetErrorMode(codec.ErrorModeReplace)
	})
}

// Count returns how many tokens a text has, or some number above most where it
// has more. Bytes that are no UTF-8 count as what replaces them, and no text
// has more tokens than bytes. A text with a run of white space beyond 256 bytes
// may count a token or two more for each than in one piece.
func (c *Counter) Count(text []byte, most int64) (n int64) {
	c.Load()
	for len(text) > 0 && n <= most {
		size := piece(text)
		n += c.count(text[:size])
		text = text[size:]
	}
	return n
}

func (c *Counter) count(text []byte) int64 {
	n, err := c.codec.Count(string(text))
	if err != nil { // no expression of ours fails; then a byte is a token
		n = len(text)
	}
	return int64(min(n, len(text)))
}

// piece returns how much of a text is handed over at once: all of it where it
// is short, else up to a place where the tokenizer begins anew, if there is
// one.
func piece(text []byte) int {
	spaces, edge := 0, 0 // bytes of white space in a row; the last good place
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case i+size > maxPiece && edge > 0:
			return edge
		case i+size > maxPiece, spaces+size > maxSpace && unicode.IsSpace(r):
			return i
		case unicode.IsSpace(r):
			spaces += size
		default:
			if spaces == 1 && i > 1 && text[i-1] == ' ' && letter(text[i]) && letter(text[i-2]) {
				edge = i - 1 // between two words a token begins with the space
			}
			spaces = 0
		}
		i += size
	}
	return len(text)
}

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
