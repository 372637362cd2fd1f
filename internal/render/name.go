package render

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Name returns a file's name, or any other word that a stranger chose, on one
// line: as it is where it is made of letters, digits and a few signs only,
// else in double quotes, with \" \\ \n \t \r, \xNN for other control
// characters and for bytes that are not UTF-8, and \u{NNNN} for what is not
// seen, spaces other than U+0020 too. Different names have different results.
// It has no cap: names are bounded where they are read.
func Name(name string) string {
	out := make([]byte, 0, len(name)+2)
	s := scanner{in: []byte(name), line: true}
	quote := name == ""
	for s.more() {
		at := s.pos
		var special bool
		out, special = nextOfName(&s, out, name[at:])
		quote = quote || special
	}
	if !quote {
		return name
	}
	return `"` + string(out) + `"`
}

// nextOfName appends the next character of a name as it is inside quotes, and
// reports whether it needs them.
func nextOfName(s *scanner, dst []byte, rest string) (out []byte, special bool) {
	r, size := utf8.DecodeRuneInString(rest)
	at := len(dst)
	dst, _ = s.next(dst)
	if string(dst[at:]) == rest[:size] && asIs(r) {
		return dst, !bare(r)
	}
	s.reset()
	switch {
	case r == '"' || r == '\\':
		return append(dst[:at], '\\', byte(r)), true
	case r == '\n':
		return append(dst[:at], `\n`...), true
	case r == '\t':
		return append(dst[:at], `\t`...), true
	case r == '\r':
		return append(dst[:at], `\r`...), true
	case r < ' ' || r == 0x7f:
		return fmt.Appendf(dst[:at], `\x%02x`, r), true
	case r == utf8.RuneError && size == 1:
		return dst, true
	}
	return appendEscape(dst[:at], r), true
}

// asIs reports whether r, which has passed the scanner, stands for itself
// inside quotes.
func asIs(r rune) bool {
	switch classOf(r) {
	case classPlain:
		return r == ' ' || r != '"' && r != '\\' && !unicode.Is(unicode.Zs, r)
	case classMark:
		return true
	}
	return false
}

// bare reports whether a name with r in it needs no quotes.
func bare(r rune) bool {
	if r > unicode.MaxASCII {
		return !unicode.Is(unicode.Pi, r) && !unicode.Is(unicode.Pf, r)
	}
	switch r {
	case '.', '_', '-', '/', '+', '=', '@', '%', ':', ',', '~':
		return true
	}
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
