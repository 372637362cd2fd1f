package source

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
		err  error
	}{
		{"", nil, nil}, {" \t", nil, nil}, {"/bin/a b  c\td ", []string{"/bin/a", "b", "c", "d"}, nil},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}, nil},
		{`a'b'"c"\d`, []string{"abcd"}, nil},
		{`'' "" x`, []string{"", "", "x"}, nil},
		{`"a\"b\\c\d" '\'`, []string{`a"b\c\d`, `\`}, nil},
		{`$HOME *; rm | x > y && (z)`, []string{"$HOME", "*;", "rm", "|", "x", ">", "y", "&&", "(z)"}, nil},
		{`'open`, nil, errQuote}, {`"open`, nil, errQuote}, {`"open\"`, nil, errQuote}, {`a \`, nil, errSlash},
	} {
		if got, err := split(c.line); !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v, want %q, %v", c.line, got, err, c.want, c.err)
		}
	}
}

// FuzzSplit holds split to reading back what was quoted: every list of words
// can be written, and comes out as it was.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{"", "a b", `a 'b c' "d\"e" f\ g`, `'`, `"\`, `\`, "\x00\xff", `'"'"'"`, "a\n b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := split(line)
		if err != nil {
			if words != nil {
				t.Fatalf("%q: %q and %v", line, words, err)
			}
			return
		}
		quoted := make([]string, 0, len(words))
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, words) {
			t.Fatalf("%q: %q, quoted and split again %q, %v", line, words, again, err)
		}
	})
}
