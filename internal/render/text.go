package render

import (
	"fmt"
	"unicode/utf8"
)

// Options says how much of a text is shown. The zero value shows all of it.
type Options struct {
	// Max is the most bytes of the result, a notice of the cut not counted.
	// What is over is cut out of the middle, between characters. 0 is no cap.
	Max int
}

// Text returns b with everything neutralised that is not seen as it is. See
// the package doc for what passes and for its laws.
func Text(b []byte, o Options) string { return cut(b, o.Max, false) }

// Line is Text for a value that must stay on one line, a cell of a table or a
// field of a log: \n and \t become pictures too. A max of 0 is no cap.
func Line(text string, max int) string { return cut([]byte(text), max, true) }

func cut(b []byte, max int, line bool) string {
	if max <= 0 {
		return string(whole(b, line))
	}
	if len(b) <= max {
		if out := whole(b, line); len(out) <= max {
			return string(out)
		}
	}
	head, from := headOf(b, max-max/2, line)
	tail, to := tailOf(b[from:], max/2, line)
	return string(head) + notice(int64(to)) + string(tail)
}

func notice(n int64) string { return fmt.Sprintf("[... %d bytes cut ...]", n) }

func whole(b []byte, line bool) []byte {
	s := scanner{in: b, line: line}
	out := make([]byte, 0, len(b)+len(b)/8)
	for s.more() {
		out, _ = s.next(out)
	}
	return out
}

// headOf renders as much of the front of b as fits into max bytes, and returns
// how many bytes of b that is.
func headOf(b []byte, max int, line bool) (out []byte, used int) {
	s := scanner{in: b, line: line}
	end := 0 // of what may stay, in out
	for s.more() {
		at, length := s.pos, len(out)
		var cuttable bool
		out, cuttable = s.next(out)
		if cuttable {
			used, end = at, length
		}
		if len(out) > max {
			return out[:end], used
		}
	}
	return out, len(b)
}

// tailMargin lets the scanner of a tail meet a free-standing character before
// the first one that may be shown: more than the longest run without one.
const tailMargin = 1024

// tailOf renders as much of the back of b as fits into max bytes, and returns
// where in b that begins.
func tailOf(b []byte, max int, line bool) (out []byte, from int) {
	// No character becomes shorter, so nothing before this can be shown.
	skipped := runeStart(b, len(b)-max-tailMargin)
	s := scanner{in: b[skipped:], line: line}
	total := len(whole(s.in, line))
	length := 0
	buf := make([]byte, 0, 16)
	for s.more() {
		at := s.pos
		one, cuttable := s.next(buf[:0])
		if cuttable && total-length <= max {
			return whole(s.in[at:], line), skipped + at
		}
		length += len(one)
	}
	return nil, len(b)
}

// runeStart returns the first index not before i at which a character begins.
func runeStart(b []byte, i int) int {
	if i <= 0 {
		return 0
	}
	for n := 0; n < utf8.UTFMax-1 && i < len(b) && !utf8.RuneStart(b[i]); n++ {
		i++
	}
	return i
}
