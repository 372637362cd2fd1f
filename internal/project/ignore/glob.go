package ignore

import (
	"strings"
	"unicode/utf8"
)

// globName reports whether one component of a name matches one of a rule. It
// goes back to the last * alone, which is enough: what an earlier one could
// take in its place, the last one can take as well.
func globName(pattern, name string, m *Meter) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		m.left--
		if p < len(pattern) && pattern[p] == '*' {
			for p < len(pattern) && pattern[p] == '*' {
				p++
			}
			star, from = p, n
			continue
		}
		if p < len(pattern) && pattern[p] == '[' {
			m.left -= int64(len(pattern) - p) // at most so much of it is looked at
		}
		if width, next, ok := one(pattern, p, name[n:]); ok {
			n, p = n+width, next
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches what stands at p, which is no star, against the front of name. It
// returns how much of the name that is, and what of the pattern comes next.
// Bytes are matched, as git does.
func one(pattern string, p int, name string) (width, next int, ok bool) {
	if p >= len(pattern) {
		return 0, 0, false
	}
	switch pattern[p] {
	case '?':
		return 1, p + 1, true
	case '[':
		return class(pattern, p, name[0])
	case '\\':
		if p++; p >= len(pattern) {
			return 0, 0, false
		}
	}
	return 1, p + 1, pattern[p] == name[0]
}

// class matches a bracket expression. One without an end matches nothing.
func class(pattern string, p int, c byte) (width, next int, ok bool) {
	p++
	negated := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negated {
		p++
	}
	in := false
	for first := true; ; first = false {
		if p >= len(pattern) {
			return 0, 0, false
		}
		if pattern[p] == ']' && !first {
			return 1, p + 1, in != negated
		}
		if strings.HasPrefix(pattern[p:], "[:") {
			end := strings.Index(pattern[p:], ":]")
			if end < 0 {
				return 0, 0, false
			}
			in = in || inNamed(pattern[p+2:p+end], c)
			p += end + 2
			continue
		}
		low, after, fine := member(pattern, p)
		high := low
		if fine && after+1 < len(pattern) && pattern[after] == '-' && pattern[after+1] != ']' {
			high, after, fine = member(pattern, after+1)
		}
		if !fine {
			return 0, 0, false
		}
		in = in || low <= c && c <= high
		p = after
	}
}

// member is one character of a bracket expression, which may be escaped.
func member(pattern string, p int) (c byte, next int, ok bool) {
	if pattern[p] == '\\' {
		if p++; p >= len(pattern) {
			return 0, 0, false
		}
	}
	return pattern[p], p + 1, true
}

// inNamed reports whether c is in a named class of POSIX, in ASCII.
func inNamed(name string, c byte) bool {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alpha":
		return lower || upper
	case "digit":
		return digit
	case "alnum":
		return lower || upper || digit
	case "lower":
		return lower
	case "upper":
		return upper
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r'
	case "blank":
		return c == ' ' || c == '\t'
	case "punct":
		return c > ' ' && c < utf8.RuneSelf-1 && !lower && !upper && !digit
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	case "print":
		return c >= ' ' && c < utf8.RuneSelf-1
	case "graph":
		return c > ' ' && c < utf8.RuneSelf-1
	case "cntrl":
		return c < ' ' || c == utf8.RuneSelf-1
	}
	return false
}

// globPath reports whether the components of a name match those of a rule, in
// which ** stands for any number of them. As globName it goes back to the last
// one alone.
func globPath(rule, name []string, m *Meter) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		m.left--
		switch {
		case p < len(rule) && rule[p] == "**":
			p++
			if p == len(rule) {
				return true // whatever is below
			}
			star, from = p, n
			continue
		case p < len(rule) && globName(rule[p], name[n], m):
			p, n = p+1, n+1
			continue
		case star < 0:
			return false
		}
		from++
		p, n = star, from
	}
	return p == len(rule)
}
