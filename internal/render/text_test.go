package render

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"printable ASCII", "a\tb\n !\"#$%&'()*+,-./~", "a\tb\n !\"#$%&'()*+,-./~"},
		{"a backslash is left alone", `\x1b \u{202e}`, `\x1b \u{202e}`},
		{"accents, Cyrillic, Arabic, Hebrew, Han", "é ñ Ж عربي שלום 漢字", "é ñ Ж عربي שלום 漢字"},
		{"a composed accent", "e\u0301", "e\u0301"},
		{"colour", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m"},
		{"clipboard and title", "\x1b]52;c;aGk=\a\x1b]0;t\x1b\\", "␛]52;c;aGk=␇␛]0;t␛\\"},
		{"a link of a terminal", "\x1b]8;;http://x.test\x1b\\docs\x1b]8;;\x1b\\", "␛]8;;http://x.test␛\\docs␛]8;;␛\\"},
		{"a line written over", "all tests FAILED\rall tests passed\n", "all tests FAILED␍all tests passed\n"},
		{"CR LF", "a\r\nb", "a␍\nb"},
		{"backspace, NUL, DEL", "a\bb\x00c\x7f", "a␈b␀c␡"},
		{"C1 as a character", "\u009b31m", `\u{009b}31m`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"next line", "a\u0085b", `a\u{0085}b`},
		{"line and paragraph separator", "a\u2028b\u2029c", `a\u{2028}b\u{2029}c`},
		{"not UTF-8", "\xff\xfe\xc3(\xe2\x82", `\xff\xfe\xc3(\xe2\x82`},
		{"overlong slash", "\xc0\xaf", `\xc0\xaf`},
		{"half of a surrogate pair", "\xed\xa0\x80", `\xed\xa0\x80`},
		{"bidi override", "a\u202egpj.exe", `a\u{202e}gpj.exe`},
		{"bidi isolate", "\u2066x\u2069", `\u{2066}x\u{2069}`},
		{"Arabic letter mark", "\u061cx", `\u{061c}x`},
		{"zero width", "a\u200bb\ufeffc\u2060d", `a\u{200b}b\u{feff}c\u{2060}d`},
		{"soft hyphen", "a\u00adb", `a\u{00ad}b`},
		{"tags", "a\U000e0041\U000e007f", `a\u{e0041}\u{e007f}`},
		{"language tag", "\U000e0001", `\u{e0001}`},
		{"selectors that carry bytes", "😀\U000e0100\U000e01ef", `😀\u{e0100}\u{e01ef}`},
		{"selectors without a use", "a\ufe00\ufe0f", `a\u{fe00}\u{fe0f}`},
		{"fillers", "\u115f\u1160\u3164\uffa0\u2800\u17b4\u034f", `\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}\u{17b4}\u{034f}`},
		{"private use", "\ue000\U000f0000\U0010fffd", `\u{e000}\u{f0000}\u{10fffd}`},
		{"not assigned, not a character", "\u0378\ufffe\uffff", `\u{0378}\u{fffe}\u{ffff}`},
		{"interlinear annotation", "\ufff9a\ufffab\ufffb", `\u{fff9}a\u{fffa}b\u{fffb}`},
		{"the replacement character itself", "\ufffd", "\ufffd"},
		{"no-break and ideographic space", "a\u00a0b\u3000c", "a\u00a0b\u3000c"},
	} {
		if got := Text([]byte(c.in), Options{}); got != c.want {
			t.Errorf("%s: Text(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestTextMarks(t *testing.T) {
	mark := "\u0336"
	for _, c := range []struct{ name, in, want string }{
		{"without a base", mark + "a", `\u{0336}a`},
		{"on a new line", "a\n" + mark, "a\n" + `\u{0336}`},
		{"on an escape", "\x1b" + mark, `␛\u{0336}`},
		{"a flood", "a" + strings.Repeat(mark, maxMarks+2) + "b", "a" + strings.Repeat(mark, maxMarks) + `\u{0336}\u{0336}b`},
		{"a flood with a joiner", "क" + strings.Repeat("\u094d", maxMarks) + "\u200dक", "क" + strings.Repeat("\u094d", maxMarks) + `\u{200d}क`},
	} {
		if got := Text([]byte(c.in), Options{}); got != c.want {
			t.Errorf("%s: Text(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// TestTextJoined has what people write, which passes, and the same invisible
// characters where nobody needs them.
func TestTextJoined(t *testing.T) {
	for _, same := range []string{
		"⚠\ufe0f careful", "❤\ufe0f", "1\ufe0f\u20e3", "ℹ\ufe0f", "©\ufe0e",
		"👩\u200d💻", "👨\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f", "👍🏽", "👩🏽\u200d💻", "🇩🇪",
		"می\u200cخواهم", "क्\u200dष", "ක්\u200dෂ",
	} {
		if got := Text([]byte(same), Options{}); got != same {
			t.Errorf("Text(%+q) = %+q, want it unchanged", same, got)
		}
	}
	for in, want := range map[string]string{
		"⚠\ufe0f\ufe0f":               "⚠\ufe0f" + `\u{fe0f}`,
		"a\u200cb":                    `a\u{200c}b`,
		"a\u200d💻":                    `a\u{200d}💻`,
		"👩\u200d":                     `👩\u{200d}`,
		"👩\u200dx":                    `👩\u{200d}x`,
		"👩\u200d\u200d💻":              `👩\u{200d}\u{200d}💻`,
		"👩\u200c💻":                    `👩\u{200c}💻`,
		"👩\u200d\u2800":               `👩\u{200d}\u{2800}`,
		"ی\u200cक":                    `ی\u{200c}क`,
		"ی\u200c\n":                   `ی\u{200c}` + "\n",
		"\u200cی":                     `\u{200c}ی`,
		strings.Repeat("👩\u200d", 10): strings.Repeat("👩\u200d", maxJoins) + `👩\u{200d}👩\u{200d}`,
	} {
		if got := Text([]byte(in), Options{}); got != want {
			t.Errorf("Text(%+q) = %+q, want %+q", in, got, want)
		}
	}
}

func TestTextCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"0123456789", 10, "0123456789"},
		{"0123456789", 9, "01234[... 1 bytes cut ...]6789"},
		{"0123456789", 1, "0[... 9 bytes cut ...]"},
		{"ééééé", 6, "é[... 6 bytes cut ...]é"},
		{"ab\x1b\x1b\x1bcd", 8, "ab[... 3 bytes cut ...]cd"},
		{"e\u0301e\u0301e\u0301", 8, "e\u0301[... 3 bytes cut ...]e\u0301"},
		{"👩\u200d💻👩\u200d💻", 12, "[... 22 bytes cut ...]"},
		{"👩\u200d💻👩\u200d💻", 21, "👩\u200d💻[... 11 bytes cut ...]"},
	} {
		if got := Text([]byte(c.in), Options{Max: c.max}); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	if got, want := Line("a\nb\tc\r\x1b", 0), "a␊b␉c␍␛"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
	if got, want := Line(strings.Repeat("a", 50), 10), "aaaaa[... 40 bytes cut ...]aaaaa"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}

// checkSafe holds text to the first law of the package.
func checkSafe(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case r == '\n' || r == '\t':
		case r == '\ufe0e' || r == '\ufe0f' || r == zwj || r == zwnj:
			if i == 0 || runes[i-1] <= ' ' || runes[i-1] == r {
				t.Fatalf("U+%04X out of place at %d in %+q", r, i, text)
			}
			if r == zwj || r == zwnj {
				checkJoined(t, runes, i)
			}
		case !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r), invisible(r):
			t.Fatalf("U+%04X passes in %+q", r, text)
		}
	}
}

func checkJoined(t *testing.T, runes []rune, i int) {
	t.Helper()
	base := i - 1
	for base > 0 && unicode.Is(unicode.M, runes[base]) {
		base--
	}
	if i+1 >= len(runes) || runes[i+1] < '\u0300' || runes[base] < '\u0600' {
		t.Fatalf("joiner out of place at %d in %+q", i, string(runes))
	}
}

func FuzzText(f *testing.F) {
	for _, seed := range seeds() {
		f.Add([]byte(seed), 0)
		f.Add([]byte(seed), 7)
	}
	f.Fuzz(checkLaws)
}

// TestTextMixed holds texts of characters that act on their neighbours to the
// same laws: a fuzzer that flips bits seldom makes two of them.
func TestTextMixed(t *testing.T) {
	pieces := []string{"a", "}", " ", "\n", "\t", "\r", "\x1b", "\xff", "\xe2\x82", "\u0301", "\u0336", "\u20e3", "\ufe0f", "\ufe0e",
		"\u200c", "\u200d", "\u200b", "1", "⚠", "👩", "💻", "🏽", "↔", "ی", "م", "क", "\u094d", "ष", "\u2800", "\u202e", "\U000e0041",
		"\U000e0100", "\ue000", "\u3164", "\u00a0", strings.Repeat("\u0301", maxMarks), strings.Repeat("👩\u200d", maxJoins)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var in strings.Builder
		for range random.IntN(24) {
			in.WriteString(pieces[random.IntN(len(pieces))])
		}
		checkLaws(t, []byte(in.String()), random.IntN(40))
	}
}

func checkLaws(t *testing.T, in []byte, max int) {
	t.Helper()
	all := Text(in, Options{})
	checkSafe(t, all)
	if len(all) < len(in) || len(all) > MaxGrowth*len(in) {
		t.Fatalf("%d bytes of %d", len(all), len(in))
	}
	if again := Text([]byte(all), Options{}); again != all {
		t.Fatalf("not idempotent: %+q, %+q", all, again)
	}
	if plainASCII(in) && all != string(in) {
		t.Fatalf("%q became %q", in, all)
	}
	line := Line(string(in), 0)
	checkSafe(t, line)
	if strings.ContainsAny(line, "\n\t") {
		t.Fatalf("Line has more than one line: %q", line)
	}
	checkCut(t, in, all, max)
}

func checkCut(t *testing.T, in []byte, all string, max int) {
	t.Helper()
	if max <= 0 {
		return
	}
	got := Text(in, Options{Max: max})
	checkSafe(t, got)
	if len(all) <= max {
		if got != all {
			t.Fatalf("cut without need: %q", got)
		}
		return
	}
	if len(got) > max+len(notice(int64(len(in)))) {
		t.Fatalf("%d bytes with a cap of %d", len(got), max)
	}
	if !strings.Contains(got, " bytes cut ...]") {
		t.Fatalf("no notice in %q", got)
	}
}

func plainASCII(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

func seeds() []string {
	return []string{
		"", "plain\n", "\x1b[2J\x1b[1A\x1b[K all checks passed\x1b]0;t\a\r fake", "\xff\xfe\x80ok\x00end\n",
		"a\u202eb\u2066c\u2069", "\U000e0041\U000e0042", "e" + strings.Repeat("\u0301", 20), "👨\u200d👩\u200d👧\u200d👦",
		"می\u200cخواهم", "⚠\ufe0f\ufe0f", "\ue000\u2028\u0085\u3164", "क" + strings.Repeat("\u094d\u200d", 12) + "ष",
		"[... 12 bytes cut ...]", `"\x1b\u{202e}`, "a b\u00a0c\u3000",
	}
}
