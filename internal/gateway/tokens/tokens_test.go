package tokens

import (
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"

	"github.com/callcell/callcell/internal/testing/spent"
)

// TestKnownCounts pins counts that the vocabulary's authors publish.
func TestKnownCounts(t *testing.T) {
	var c Counter
	for text, want := range map[string]int64{
		"": 0, "hello world": 2, "antidisestablishmentarianism": 6, "お誕生日おめでとう": 8, "2 + 2 = 4": 7, "\xff": 1, "\xff\xfe\xfd": 1,
	} {
		if got := c.Count([]byte(text), 100); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
}

// TestPiecesCountAsTheWhole: a text without long white space has in pieces as
// many tokens as in one, and no text has more tokens than bytes.
func TestPiecesCountAsTheWhole(t *testing.T) {
	var c Counter
	whole := codec.NewO200kBase()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ -~äöü漢]{0,8}`), 0, 20).Draw(t, "words")
		text := strings.Repeat(strings.Join(words, " ")+" and so on ", rapid.IntRange(1, 2000).Draw(t, "times"))
		want, err := whole.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Count([]byte(text), 1<<30); got != min(int64(want), int64(len(text))) {
			t.Fatalf("%d tokens in pieces, %d in one, of %d bytes", got, want, len(text))
		}
	})
}

// TestBoundedTime: texts that are made to be slow are not.
func TestBoundedTime(t *testing.T) {
	var c Counter
	c.Load()
	for name, unit := range map[string]string{
		"letters": "a", "lines": " \n", "no-break": "\u00a0\n", "ideographic": "\u3000\r", "tabs": "\t\n", "marks": "e\u0301",
		"upper": "Aa", "digits": "7", "broken": "\xff\x01", "apostrophes": "'s", "slashes": "!/", "control": "\x00 ", "next line": "\u0085\n",
	} {
		before := spent.CPU()
		text := []byte(strings.Repeat(unit, 64<<10/len(unit)))
		if n := c.Count(text, 1<<30); n > int64(len(text)) || n == 0 {
			t.Errorf("%s: %d tokens of %d bytes", name, n, len(text))
		}
		if took := spent.CPU() - before; took > 30*time.Second { // a tenth of a second alone on a machine, without the race detector
			t.Errorf("%s: 64 KiB took %s", name, took)
		}
	}
}

// TestPiecesAreBounded: what is handed to the tokenizer at once is at most 16
// KiB, with at most 256 bytes of white space in a row, whole characters where
// there are any, and all pieces together are the text.
func TestPiecesAreBounded(t *testing.T) {
	units := []string{"a", " ", "\n", "\u00a0", "\u3000", "\u0085", "word ", "\xff", "漢", strings.Repeat(" \n", 300), strings.Repeat("x", 9000)}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(units), 1, 200).Draw(t, "units"), ""))
		valid := utf8.Valid(text)
		for rest := text; len(rest) > 0; {
			n := piece(rest)
			if n < 1 || n > maxPiece || n > len(rest) {
				t.Fatalf("a piece of %d bytes, of %d", n, len(rest))
			}
			if valid && !utf8.Valid(rest[:n]) {
				t.Fatalf("half a character in %q", rest[:n])
			}
			run := 0
			for _, r := range string(rest[:n]) {
				if run += utf8.RuneLen(r); !unicode.IsSpace(r) {
					run = 0
				}
				if run > maxSpace {
					t.Fatalf("%d bytes of white space in a row", run)
				}
			}
			rest = rest[n:]
		}
	})
}

// TestMostEndsTheCount: counting beyond what matters costs nothing.
func TestMostEndsTheCount(t *testing.T) {
	var c Counter
	text := []byte(strings.Repeat("seven words that nobody needs to read ", 1<<16))
	if n := c.Count(text, 10); n <= 10 || n > maxPiece {
		t.Errorf("%d tokens", n)
	}
}

// TestTogether: the first use may be many at once.
func TestTogether(t *testing.T) {
	var c Counter
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n := c.Count([]byte("hello world"), 10); n != 2 {
				t.Error(n)
			}
		})
	}
	all.Wait()
}
