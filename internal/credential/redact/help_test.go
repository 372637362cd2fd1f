package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/callcell/callcell/internal/credential/secret"
)

// pair is a value in the clear, for tests.
type pair struct{ name, value string }

func newRedactor(t testing.TB, pairs ...pair) *Redactor {
	t.Helper()
	r, err := tryNew(t, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Destroy)
	return r
}

func tryNew(t testing.TB, pairs ...pair) (*Redactor, error) {
	t.Helper()
	var values []Value
	for _, p := range pairs {
		s, err := secret.New([]byte(p.value))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Destroy)
		values = append(values, Value{p.name, s})
	}
	return New(values)
}

// stream sends text through a Writer, cut at the places that cut returns.
func stream(t testing.TB, r *Redactor, text string, cut func(rest int) int) (string, Counts) {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for rest := text; rest != ""; {
		n := min(max(cut(len(rest)), 1), len(rest))
		if m, err := w.Write([]byte(rest[:n])); m != n || err != nil {
			t.Fatalf("wrote %d of %d: %v", m, n, err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), w.Counts()
}

func bytewise(int) int { return 1 }

// encoders are what programs make of a value: each one by other code than
// what is tested.
func encoders() map[string]func(string) string {
	b64 := func(e *base64.Encoding, front, back string) func(string) string {
		return func(v string) string { return e.EncodeToString([]byte(front + v + back)) }
	}
	wrapped := func(text, line string, width int) string {
		var b strings.Builder
		for i := 0; i < len(text); i += width {
			b.WriteString(text[i:min(i+width, len(text))] + line)
		}
		return b.String()
	}
	each := func(format string) func(string) string {
		return func(v string) string {
			var b strings.Builder
			for i := range len(v) {
				fmt.Fprintf(&b, format, v[i])
			}
			return b.String()
		}
	}
	all := map[string]func(string) string{
		"plain":         func(v string) string { return v },
		"hex":           func(v string) string { return hex.EncodeToString([]byte(v)) },
		"HEX":           func(v string) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) },
		"hex in lines":  func(v string) string { return wrapped(hex.EncodeToString([]byte(v)), "\n", 5) },
		"query":         url.QueryEscape,
		"path":          url.PathEscape,
		"%xx":           each("%%%02x"),
		"%XX":           each("%%%02X"),
		"mixed case %":  func(v string) string { return strings.ReplaceAll(each("%%%02x")(v), "f", "F") },
		"\\xXX":         each(`\x%02x`),
		"\\ooo":         each(`\%03o`),
		"\\u00XX":       each(`\u%04x`),
		"\\u00xx":       each(`\u%04X`),
		"\\U000000XX":   each(`\U%08x`),
		"json":          func(v string) string { b, _ := json.Marshal(v); return string(b) },
		"json, slashes": func(v string) string { b, _ := json.Marshal(v); return strings.ReplaceAll(string(b), "/", `\/`) },
		"json, ascii":   asciiJSON,
		"go":            strconv.Quote,
		"go, ascii":     strconv.QuoteToASCII,
		"shell":         func(v string) string { return regexp.MustCompile("[ -/:-@[-`{-~]").ReplaceAllString(v, `\$0`) },
		"crlf":          func(v string) string { return strings.ReplaceAll(v, "\n", "\r\n") },
		"base64 in a url": func(v string) string {
			return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(v)))
		},
		"base64 in json": func(v string) string {
			return strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(v)), "/", `\/`)
		},
		"base64 in lines": func(v string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(v)), "\n", 7) },
		"base64 in lines, CR LF": func(v string) string {
			return wrapped(base64.StdEncoding.EncodeToString([]byte("user:"+v)), "\r\n", 4)
		},
		"base64 in lines in json, CR LF": func(v string) string {
			return wrapped(base64.StdEncoding.EncodeToString([]byte("x"+v)), `\r\n`, 6)
		},
		"base64 in lines in json": func(v string) string {
			return wrapped(base64.StdEncoding.EncodeToString([]byte(v)), `\n`, 9)
		},
	}
	for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "raw": base64.RawStdEncoding, "url": base64.URLEncoding, "rawurl": base64.RawURLEncoding} {
		for _, front := range []string{"", "a", "ab", "abc", "user:", "\xff\xff"} {
			for _, back := range []string{"", "\n", ":x", "\xff\xff\xff"} {
				all[fmt.Sprintf("base64 %s %q %q", name, front, back)] = b64(e, front, back)
			}
		}
	}
	return all
}

// asciiJSON is what Python's json.dumps writes.
func asciiJSON(v string) string {
	b, _ := json.Marshal(v)
	var out strings.Builder
	for _, r := range string(b) {
		switch high, low := utf16.EncodeRune(r); {
		case r < 0x80:
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// oracle finds values in another way to the same end: it lists every spelling
// of every byte, and tries them all at every place.
type oracle struct{ forms []form }

// form is one form of a value: the steps at a place, and a line break between
// them where there may be one.
type form struct {
	steps  [][]step // by place in the form
	breaks bool
}

// step is one spelling of what stands at a place.
type step struct {
	text string
	fold int // from here on, case does not matter; the whole of it is lower case from there
	on   int // places that it goes on
}

func newOracle(pairs ...pair) *oracle {
	o := &oracle{}
	for _, p := range pairs {
		o.add(p.value, false, false)
		o.add(hex.EncodeToString([]byte(p.value)), true, true)
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for front := range 3 {
				// What is the same whatever stands in front and behind.
				all := e.EncodeToString([]byte(strings.Repeat("\x00", front) + p.value + "\x00\x00\x00"))
				other := e.EncodeToString([]byte(strings.Repeat("\xff", front) + p.value + "\xff\xff\xff"))
				o.add(common(all, other), true, false)
			}
		}
	}
	return o
}

// common is the stretch in which two texts of one length agree, but for up to
// four characters at their beginning and their end.
func common(a, b string) string {
	first, last := 0, len(a)
	for i := range len(a) {
		if a[i] == b[i] {
			continue
		}
		if i < 4 {
			first = i + 1
		} else {
			last = min(last, i)
		}
	}
	return a[first:last]
}

func (o *oracle) add(text string, breaks, fold bool) {
	f := form{steps: make([][]step, len(text)), breaks: breaks}
	for i := range len(text) {
		f.steps[i] = spellings(text[i])
		if fold && text[i] >= 'a' {
			f.steps[i] = append(f.steps[i], spellings(text[i]-'a'+'A')...)
		}
		if r, size := utf8.DecodeRuneInString(text[i:]); size > 1 && !breaks {
			f.steps[i] = append(f.steps[i], characters(r, size)...)
		}
	}
	o.forms = append(o.forms, f)
}

func spellings(b byte) []step {
	all := []step{{string([]byte{b}), 1, 1}, {fmt.Sprintf("%%%02x", b), 1, 1}, {fmt.Sprintf(`\x%02x`, b), 2, 1},
		{fmt.Sprintf(`\u%04x`, b), 2, 1}, {fmt.Sprintf(`\U%08x`, b), 2, 1}, {fmt.Sprintf(`\%03o`, b), 4, 1}}
	if at := strings.IndexByte("\a\b\f\n\r\t\v", b); at >= 0 {
		all = append(all, step{`\` + "abfnrtv"[at:at+1], 2, 1})
	}
	if b >= ' ' && b < 0x7f && !alphanumeric(b) {
		all = append(all, step{`\` + string(b), 2, 1})
	}
	switch b {
	case ' ':
		all = append(all, step{"+", 1, 1})
	case '\n':
		all = append(all, step{"\r\n", 2, 1})
	}
	return all
}

// characters are the spellings of a character of several bytes as one.
func characters(r rune, size int) []step {
	all := []step{{fmt.Sprintf(`\U%08x`, r), 2, size}}
	switch {
	case r <= 0xff:
		return append(all, step{fmt.Sprintf(`\x%02x`, r), 2, size}, step{fmt.Sprintf(`\u%04x`, r), 2, size}, step{fmt.Sprintf(`\%03o`, r), 4, size})
	case r <= 0xffff:
		return append(all, step{fmt.Sprintf(`\u%04x`, r), 2, size})
	}
	high, low := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
	return append(all, step{fmt.Sprintf(`\u%04x\u%04x`, high, low), 2, size})
}

// at returns how long s is where text begins with it, else 0.
func (s step) at(text string) int {
	n := len(s.text)
	if len(text) < n || text[:s.fold] != s.text[:s.fold] {
		return 0
	}
	for i := s.fold; i < n; i++ {
		have := text[i]
		if have >= 'A' && have <= 'F' {
			have += 'a' - 'A'
		}
		if have != s.text[i] {
			return 0
		}
	}
	return n
}

// end returns where the longest match of f ends that begins at start, 0 where
// there is none.
func (f form) end(text string, start int) (longest int) {
	ends := make([]map[int]bool, len(f.steps)+1)
	ends[0] = map[int]bool{start: true}
	for place, steps := range f.steps {
		for from := range ends[place] {
			for _, at := range f.past(text, from, place) {
				for _, s := range steps {
					if n := s.at(text[at:]); n > 0 {
						if ends[place+s.on] == nil {
							ends[place+s.on] = map[int]bool{}
						}
						ends[place+s.on][at+n] = true
					}
				}
			}
		}
	}
	for e := range ends[len(f.steps)] {
		longest = max(longest, e)
	}
	return longest
}

// past lists where a form can go on: here, and behind a line break.
func (f form) past(text string, at, place int) []int {
	all := []int{at}
	if !f.breaks || place == 0 {
		return all
	}
	for _, cr := range append(spellings('\r'), step{}) {
		for _, lf := range append(spellings('\n'), step{}) {
			first := cr.at(text[at:])
			second := lf.at(text[at+first:])
			if (first > 0 || cr.text == "") && (second > 0 || lf.text == "") {
				all = append(all, at+first+second)
			}
		}
	}
	return all
}

// find returns where the values are in text, as stretches that do not overlap.
func (o *oracle) find(text string) (found [][2]int) {
	for at := range len(text) {
		for _, f := range o.forms {
			end := f.end(text, at)
			last := len(found) - 1
			switch {
			case end == 0:
			case last >= 0 && at < found[last][1]:
				found[last][1] = max(found[last][1], end)
			default:
				found = append(found, [2]int{at, end})
			}
		}
	}
	return found
}

// strip returns text without what was found, and with a mark instead.
func strip(text string, found [][2]int, mark string) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		b.WriteString(text[at:f[0]] + mark)
		at = f[1]
	}
	return b.String() + text[at:]
}
