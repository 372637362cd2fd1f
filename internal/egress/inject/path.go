package inject

import (
	"strings"
	"unicode/utf8"
)

// maxRounds is how often escapes within escapes are undone.
const maxRounds = 4

// Path says why a path is refused on a host with a credential, "" where it is
// not. path is escaped, as it is sent, without the query.
//
// A path is compared byte by byte; servers do not read it so. Therefore one is
// refused that some of them read as another: with an empty, . or .. component
// (or one of dots and spaces, or with a parameter behind it: ..;x), with a
// backslash, with %2e, %2f or %5c, with a control character, with bytes that
// are no UTF-8. All of that as it stands, and when its escapes have been
// undone, and theirs, as long as there are any. Dots, slashes and backslashes
// of other scripts count as such: some servers fold them.
func Path(path string) string {
	if path == "*" {
		return ""
	}
	if !strings.HasPrefix(path, "/") {
		return "the path does not begin with a slash"
	}
	for range maxRounds {
		if why := plain(path); why != "" {
			return why
		}
		next := unescaped(path)
		if next == path {
			return ""
		}
		path = next
	}
	return "the path has escapes within escapes"
}

// plain judges a path as it stands.
func plain(path string) string {
	for i := range len(path) {
		switch c := path[i]; {
		case c < ' ' || c == 0x7f:
			return "the path has a control character"
		case c == '\\':
			return "the path has a backslash"
		}
	}
	switch lower := strings.ToLower(path); {
	case !utf8.ValidString(path):
		return "the path is not UTF-8"
	case strings.Contains(lower, "%2f"), strings.Contains(lower, "%5c"):
		return "the path has an encoded separator"
	case strings.Contains(lower, "%2e"):
		return "the path has an encoded dot"
	case strings.Contains(path, "//"):
		return "the path has an empty component"
	}
	if strings.ContainsFunc(path, folds) {
		return "the path has a dot or a slash of another script"
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		part, _, _ = strings.Cut(part, ";")
		if part != "" && strings.Trim(part, ". ") == "" {
			return "the path has a component of dots"
		}
	}
	return ""
}

// folds reports whether compatibility forms make of r a dot, a slash or a
// backslash.
func folds(r rune) bool {
	switch r {
	case '\u2024', '\u2025', '\u2026', '\uff0e', '\ufe52', // leaders, ellipsis, full stops
		'\uff0f', '\u2044', '\u2215', '\u29f8', // slashes
		'\uff3c', '\ufe68', '\u29f5', '\u2216': // backslashes
		return true
	}
	return false
}

// unescaped undoes every escape once. What is none stays.
func unescaped(text string) string {
	at := strings.IndexByte(text, '%')
	if at < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '%' && i+2 < len(text) {
			if high, low := digit(text[i+1]), digit(text[i+2]); high < 16 && low < 16 {
				out = append(out, high<<4|low)
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

// digit is the value of a digit of hex, 255 of what is none.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
