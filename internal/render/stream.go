package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
)

// Stream returns what was kept of an output stream, neutralised by [Text]: the
// head, a line that says how much of the whole is missing, the tail. A
// character that was cut in two when the stream was kept counts as missing.
// o.Max bounds head and tail together.
func Stream(s envelope.Stream, o Options) string {
	if !s.Truncated {
		return Text(s.Head, o)
	}
	head, tail := whole(trimEnd(s.Head), false), whole(trimStart(s.Tail), false)
	shown := len(trimEnd(s.Head)) + len(trimStart(s.Tail))
	if o.Max > 0 && len(head)+len(tail) > o.Max {
		var used, from int
		head, used = headOf(trimEnd(s.Head), o.Max-o.Max/2, false)
		tail, from = tailOf(trimStart(s.Tail), o.Max/2, false)
		shown = used + len(trimStart(s.Tail)) - from
	}
	return string(head) + gap(string(head), s.Total, int64(shown)) + string(tail)
}

// gap is the line between head and tail.
func gap(head string, total, shown int64) string {
	newline := "\n"
	if head == "" || strings.HasSuffix(head, newline) {
		newline = ""
	}
	return fmt.Sprintf("%s[... %d of %d bytes cut ...]\n", newline, max(total-shown, 0), max(total, shown))
}

// trimEnd takes the first bytes of a character without its last ones off the
// end of b.
func trimEnd(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		at := len(b) - n
		if !utf8.RuneStart(b[at]) {
			continue
		}
		if !utf8.FullRune(b[at:]) {
			return b[:at]
		}
		break
	}
	return b
}

// trimStart takes the last bytes of a character without its first ones off the
// front of b.
func trimStart(b []byte) []byte {
	n := 0
	for n < utf8.UTFMax-1 && n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	return b[n:]
}
