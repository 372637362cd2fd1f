package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/callcell/callcell/internal/render"
)

// json prints a value as one line, or indented. What a reader would not see as
// it is stands in it as \uNNNN: the value stays the same, and a terminal is
// told nothing.
func (p *printer) json(v any, indent bool) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	_, err := p.out.Write(escapeHidden(buf.Bytes()))
	return err
}

// escapeHidden rewrites the strings of a JSON text. Outside of them it is
// ASCII, and the control characters below DEL are escaped already.
func escapeHidden(text []byte) []byte {
	first := slices.IndexFunc(text, func(b byte) bool { return b >= 0x7f })
	if first < 0 {
		return text
	}
	out := append(make([]byte, 0, len(text)+len(text)/8), text[:first]...)
	for rest := text[first:]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || shown(r):
			out = append(out, rest[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	return out
}

// shown reports whether a character by itself is seen as it is.
func shown(r rune) bool { return render.Line(string(r), 0) == string(r) }
