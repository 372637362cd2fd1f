package redact

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// compose makes a text of what the bytes of script say: values in encodings,
// pieces of values, pieces of escapes, and bytes as they are.
func compose(script []byte, values []string) string {
	names, all := slices.Sorted(maps.Keys(encoders())), encoders()
	ends := []string{"%", "%2", `\`, `\u`, `\u00`, `\x`, `\ud83d`, "\n", "\r", "\r\n", "+", "[", "]", "=", " ", `\\`}
	var b strings.Builder
	for len(script) >= 3 && b.Len() < 1024 {
		op, x, y := script[0], int(script[1]), int(script[2])
		script = script[3:]
		value := values[x%len(values)]
		coded := all[names[y%len(names)]](value)
		switch op % 8 {
		case 0:
			b.WriteString(coded)
		case 1: // its beginning
			b.WriteString(coded[:x*len(coded)/256])
		case 2: // its end
			b.WriteString(coded[x*len(coded)/256:])
		case 3:
			b.WriteString(ends[y%len(ends)])
		case 4: // all of it, with something in between
			at := x * len(coded) / 256
			b.WriteString(coded[:at] + ends[y%len(ends)] + coded[at:])
		case 5: // each byte in a way of its own
			for i := range len(value) {
				form := []string{"%c", "%%%02x", `\x%02x`, `\u%04X`}[(y>>(i%4*2))&3]
				if form == "%c" {
					b.WriteByte(value[i])
				} else {
					fmt.Fprintf(&b, form, value[i])
				}
			}
		default:
			b.WriteByte(op)
			b.WriteByte(byte(x))
			b.WriteByte(byte(y))
		}
	}
	return b.String()
}

// checkLaws holds a Redactor to the laws of the package doc, by the oracle.
func checkLaws(t testing.TB, pairs []pair, text string, seed uint64) {
	t.Helper()
	r, err := tryNew(t, pairs...)
	if err != nil {
		return // refused, and nothing to look for
	}
	defer r.Destroy()
	o := newOracle(pairs...)
	whole, counts := r.String(text)
	if found := o.find(whole); len(found) > 0 {
		t.Fatalf("%q in %q: a value is left in %q at %v", pairs, text, whole, found)
	}
	// The masks stand exactly where the oracle finds something.
	found := o.find(text)
	if strip(text, found, "") != unmask(whole, r) {
		t.Fatalf("%q in %q: %q, want masks at %v", pairs, text, whole, found)
	}
	if counts.Total() != len(found) {
		t.Fatalf("%q in %q: %v masks, want %d", pairs, text, counts, len(found))
	}
	if again, more := r.String(whole); again != whole || more.Total() != 0 {
		t.Fatalf("%q: redacted twice: %q, then %q", pairs, whole, again)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range 3 {
		cut := func(int) int { return 1 + random.IntN(1+random.IntN(40)) }
		if got, n := stream(t, r, text, cut); got != whole || !maps.Equal(n, counts) {
			t.Fatalf("%q in %q: cut it is %q %v, whole %q %v", pairs, text, got, n, whole, counts)
		}
	}
	if got, _ := stream(t, r, text, bytewise); got != whole {
		t.Fatalf("%q in %q: byte by byte it is %q, whole %q", pairs, text, got, whole)
	}
}

// unmask returns text without the masks. Texts with a mask of their own are
// none of the fuzzer's.
func unmask(text string, r *Redactor) string {
	for _, mask := range r.masks {
		text = strings.ReplaceAll(text, mask, "")
	}
	return text
}

func FuzzRedact(f *testing.F) {
	for i, v := range values() {
		f.Add(v, values()[(i+1)%len(values())], []byte{0, 0, byte(i), 5, 1, 27, 4, 100, byte(3 * i), 2, 200, 7, 1, 77, 2, 0, 1, byte(i * 7)}, uint64(i))
	}
	f.Add("aaaaaa", "aaaaaab", []byte{0, 0, 0, 0, 1, 0, 0, 0, 0}, uint64(1))
	f.Add("Fabc/def", "%2Fabc", []byte{3, 0, 1, 5, 0, 85, 3, 0, 0, 5, 1, 170}, uint64(2))
	f.Add("redacted", "[redacted:a]", []byte{0, 0, 0, 0, 1, 0}, uint64(3))
	f.Fuzz(func(t *testing.T, a, b string, script []byte, seed uint64) {
		if len(a) == 0 || len(b) == 0 || len(a) > 100 || len(b) > 100 || len(script) > 60 {
			return
		}
		pairs := []pair{{"a", a}, {"b", b}}
		text := compose(script, []string{a, b})
		if strings.Contains(text, "redacted") || strings.Contains(text, "***") {
			return // it may have a mask of its own
		}
		checkLaws(t, pairs, text, seed)
	})
}

// FuzzPlain has text that is not made from the values.
func FuzzPlain(f *testing.F) {
	for i, v := range values() {
		f.Add(v, values()[(i+5)%len(values())]+" and "+v, uint64(i))
	}
	f.Fuzz(func(t *testing.T, value, text string, seed uint64) {
		if len(value) == 0 || len(value) > 100 || len(text) > 600 || strings.Contains(text, "redacted") || strings.Contains(text, "***") {
			return
		}
		checkLaws(t, []pair{{"a", value}}, text, seed)
	})
}

// TestLaws draws values that have much in common, so that beginnings and ends
// meet.
func TestLaws(t *testing.T) {
	alphabets := []string{"ab", "ab%41", `\u0061b`, "a+ b", "0aF", "\n\ra", "AQ==", "é😀x", "abcdefghijklmnop"}
	rapid.Check(t, func(rt *rapid.T) {
		alphabet := []rune(rapid.SampledFrom(alphabets).Draw(rt, "alphabet"))
		value := rapid.Custom(func(rt *rapid.T) string {
			return string(rapid.SliceOfN(rapid.SampledFrom(alphabet), 3, 14).Draw(rt, "runes"))
		})
		var pairs []pair
		var drawn []string
		for i := range rapid.IntRange(1, 4).Draw(rt, "values") {
			v := value.Draw(rt, "value")
			pairs, drawn = append(pairs, pair{fmt.Sprint("n", i), v}), append(drawn, v)
		}
		script := rapid.SliceOfN(rapid.Byte(), 0, 36).Draw(rt, "script")
		checkLaws(t, pairs, compose(script, drawn), rapid.Uint64().Draw(rt, "seed"))
	})
}
