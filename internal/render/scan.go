package render

import (
	"fmt"
	"unicode/utf8"
)

// MaxGrowth bounds how much longer than its input a result is, for one byte
// that becomes \xNN and for the two bytes of U+0085 that become \u{0085}.
const MaxGrowth = 4

const (
	maxMarks = 8 // on one base; what is written has at most five
	maxJoins = 8 // in a row; the longest emoji there is has three
)

// A scanner goes over a text one character at a time and renders it. What
// passes depends only on what passed right before it and on the next
// character, so that its output passes unchanged.
type scanner struct {
	in  []byte
	pos int
	// line makes \n and \t visible too.
	line bool

	base     rune // what a mark would combine with; 0 where there is nothing
	marks    int  // on base
	selector bool // base has one
	joined   bool // the last character was a joiner that passed
	joins    int  // joiners since the last free-standing character
}

func (s *scanner) more() bool { return s.pos < len(s.in) }

// next appends the rendering of the next character. It reports whether the
// text may be cut right before it: not within what is seen as one character.
func (s *scanner) next(dst []byte) (out []byte, cuttable bool) {
	at := s.pos
	r, size := utf8.DecodeRune(s.in[at:])
	s.pos += size
	if r == utf8.RuneError && size == 1 {
		s.reset()
		return fmt.Appendf(dst, `\x%02x`, s.in[at]), true
	}
	passes, cuttable := s.take(r)
	if passes {
		return append(dst, s.in[at:s.pos]...), cuttable
	}
	s.reset()
	return appendEscape(dst, r), true
}

// take decides about r and keeps what the decision about the next character
// needs.
func (s *scanner) take(r rune) (passes, cuttable bool) {
	switch classOf(r) {
	case classPlain:
		cuttable = !s.joined
		if cuttable {
			s.joins = 0
		}
		s.base, s.marks, s.selector, s.joined = r, 0, false, false
		return true, cuttable
	case classBreak:
		s.reset()
		return !s.line, true
	case classMark:
		s.marks++
		s.joined = false
		return s.base != 0 && s.marks <= maxMarks, false
	case classSelector:
		ok := takesSelector(s.base) && s.marks == 0 && !s.selector && !s.joined
		s.selector = true
		return ok, false
	case classJoiner:
		next, size := utf8.DecodeRune(s.in[s.pos:])
		if next == utf8.RuneError && size <= 1 {
			next = 0
		}
		s.joins++
		ok := !s.joined && s.joins <= maxJoins && s.marks < maxMarks && joins(s.base, r, next)
		s.joined = true
		return ok, false
	}
	return false, true
}

func (s *scanner) reset() {
	s.base, s.marks, s.selector, s.joined, s.joins = 0, 0, false, false, 0
}

// appendEscape appends what is shown in place of r.
func appendEscape(dst []byte, r rune) []byte {
	switch {
	case r < ' ':
		return utf8.AppendRune(dst, '\u2400'+r)
	case r == 0x7f:
		return utf8.AppendRune(dst, '\u2421')
	}
	return fmt.Appendf(dst, `\u{%04x}`, r)
}
