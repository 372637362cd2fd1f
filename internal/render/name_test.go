package render

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"out/report-1.csv":  "out/report-1.csv",
		"résumé.pdf":        "résumé.pdf",
		"漢字":                "漢字",
		"":                  `""`,
		"a b":               `"a b"`,
		" a":                `" a"`,
		`a"b`:               `"a\"b"`,
		`a\nb`:              `"a\\nb"`,
		"a\nb\tc\rd":        `"a\nb\tc\rd"`,
		"\x1b[31m":          `"\x1b[31m"`,
		"\x7f":              `"\x7f"`,
		"\xff":              `"\xff"`,
		"a\u202egpj.exe":    `"a\u{202e}gpj.exe"`,
		"\u0085":            `"\u{0085}"`,
		"a\u00a0b":          `"a\u{00a0}b"`,
		"👩\u200d💻":          `"👩\u{200d}💻"`,
		"a\u200c\u0301":     `"a\u{200c}\u{0301}"`,
		"$(id);`x`|&<>*?'!": "\"$(id);`x`|&<>*?'!\"",
		"“x”":               `"“x”"`,
		"\ufffd":            "\ufffd",
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

// FuzzName holds Name to being injective: it can be read back.
func FuzzName(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Add("a/b.c")
	f.Add(strings.Repeat("n", 255))
	f.Fuzz(func(t *testing.T, name string) {
		shown := Name(name)
		checkSafe(t, shown)
		if strings.ContainsAny(shown, "\n\t") {
			t.Fatalf("more than one line: %q", shown)
		}
		if len(shown) > MaxGrowth*len(name)+2 {
			t.Fatalf("%d bytes of %d", len(shown), len(name))
		}
		if back := unname(t, shown); back != name {
			t.Fatalf("%q reads back as %q", shown, back)
		}
	})
}

// unname is the inverse of Name.
func unname(t *testing.T, shown string) string {
	t.Helper()
	body, quoted := strings.CutPrefix(shown, `"`)
	if !quoted {
		return shown
	}
	body = strings.TrimSuffix(body, `"`)
	var out []byte
	for body != "" {
		if body[0] != '\\' {
			_, size := utf8.DecodeRuneInString(body)
			out, body = append(out, body[:size]...), body[size:]
			continue
		}
		var piece string
		piece, body = unescape(t, body)
		out = append(out, piece...)
	}
	return string(out)
}

func unescape(t *testing.T, body string) (piece, rest string) {
	t.Helper()
	switch body[1] {
	case 'n':
		return "\n", body[2:]
	case 't':
		return "\t", body[2:]
	case 'r':
		return "\r", body[2:]
	case 'x':
		n, err := strconv.ParseUint(body[2:4], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		return string([]byte{byte(n)}), body[4:]
	case 'u':
		digits, rest, _ := strings.Cut(body[3:], "}")
		n, err := strconv.ParseUint(digits, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		return string(rune(n)), rest
	}
	return body[1:2], body[2:]
}
