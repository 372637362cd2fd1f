package redact

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func values() []string {
	return []string{
		"s3cr3t", "hunter2-hunter2", "ghp_0123456789abcdefABCDEF", "AKIA/wJalr+XUtnFEMI=", `p"a\s's<w>o&r/d`, "with space and + plus",
		"line one\nline two\tand\rthree", "grüße-an-alle", "日本語の秘密", "emoji 😀 secret", "\xff\xfe\x00\x01\x02\x03", "%41%42%43x", `\u0041\x42`,
		"100% sure?", "long-" + strings.Repeat("longer-", 40) + "end", "-----BEGIN KEY-----\nMIIB+/==\n-----END KEY-----", "\nstarts with a line", "ends with a line\n",
		"+plus+plus", "a=b&c=d", "user:password", "a bcdefg", "a\nbcdefg", " bcdefg", "plane 16: \U00100000", "deadbeefdeadbeef", "aaaaaaaaaaab", "\a\b\f\v\x7f\x1b[0m",
	}
}

// TestEncodings masks each value in each encoding, cut in every way.
func TestEncodings(t *testing.T) {
	for _, value := range values() {
		r, o := newRedactor(t, pair{"gh", value}), newOracle(pair{"gh", value})
		for _, name := range slices.Sorted(maps.Keys(encoders())) {
			if strings.HasPrefix(name, "json") && !utf8.ValidString(value) {
				continue // it would write another value
			}
			text := "before <" + encoders()[name](value) + "> after"
			whole, counts := r.String(text)
			if len(o.find(whole)) > 0 || counts["gh"] != 1 || !strings.HasPrefix(whole, "before <") || !strings.HasSuffix(whole, "> after") {
				t.Errorf("%q as %s: %q became %q, %v", value, name, text, whole, counts)
			}
			for i, cut := range []func(int) int{bytewise, func(int) int { return 2 }, func(int) int { return 7 }} {
				if got, n := stream(t, r, text, cut); got != whole || n["gh"] != 1 {
					t.Errorf("%q as %s, cut %d: %q, %v, want %q", value, name, i, got, n, whole)
				}
			}
		}
	}
}

// TestMixtures spells every byte of a value in a way of its own.
func TestMixtures(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, value := range values() {
		r, o := newRedactor(t, pair{"gh", value}), newOracle(pair{"gh", value})
		for range 20 {
			var b strings.Builder
			for i := range len(value) {
				forms := []string{string(value[i]), string(value[i]), fmt.Sprintf("%%%02x", value[i]), fmt.Sprintf("%%%02X", value[i]),
					fmt.Sprintf(`\x%02X`, value[i]), fmt.Sprintf(`\u%04x`, value[i]), fmt.Sprintf(`\%03o`, value[i])}
				b.WriteString(strings.Replace(forms[random.IntN(len(forms))], string(rune(value[i])), value[i:i+1], 1))
			}
			text := "x" + b.String() + "y"
			got, counts := r.String(text)
			if counts["gh"] != 1 || len(o.find(got)) > 0 {
				t.Errorf("%q spelt %q: %q, %v", value, text, got, counts)
			}
		}
	}
}

// What stands in front of a value must not hide it: an escape that it would
// complete, a half match, a value that it is the end of.
func TestBeginningsAreNotMissed(t *testing.T) {
	for _, c := range []struct {
		name, value, text, want string
	}{
		{"an escape ends in the value", "Fabc/def", "%2Fabc%2Fdef", "%2[redacted:gh]"},
		{"the same in JSON", "0041abc", `\u00410041abc\u0041`, `\u0041[redacted:gh]\u0041`},
		{"an escape that is none of its own", "b0041bc", `\u0b0041bc`, `\u0[redacted:gh]`},
		{"a backslash in front", "npassword", `\npassword`, `\[redacted:gh]`},
		{"a half match in front", "aabaac", "aabaabaac", "aab[redacted:gh]"},
		{"twice", "abcdef", "abcdefabcdef", "[redacted:gh][redacted:gh]"},
		{"overlapping itself", "abcabc", "xabcabcabcy", "x[redacted:gh]y"},
		{"a value of escapes, plain", "%41%42%43", "%41%42%43", "[redacted:gh]"},
		{"a value of escapes, escaped", "%41%42%43", "%2541%2542%2543", "[redacted:gh]"},
		{"a value of escapes is not what they mean", "%41%42%43", "ABC", "ABC"},
		{"at the end, an escape is cut", "secret1", "secret%3", "secret%3"},
		{"CR alone", "line\nline", "line\rline\r\nline\r", "line\r[redacted:gh]\r"},
	} {
		r := newRedactor(t, pair{"gh", c.value})
		whole, _ := r.String(c.text)
		cut, _ := stream(t, r, c.text, bytewise)
		if whole != c.want || cut != c.want {
			t.Errorf("%s: %q, cut %q, want %q", c.name, whole, cut, c.want)
		}
	}
}

func TestNamesAndCounts(t *testing.T) {
	r := newRedactor(t, pair{"short", "secret-1"}, pair{"long", "secret-1-and-more"}, pair{"other", "more-secret"}, pair{"twin", "secret-1"})
	for _, c := range []struct{ text, want, counts string }{
		{"secret-1", "[redacted:short]", "map[short:1]"},
		{"secret-1-and-more", "[redacted:long]", "map[long:1]"},
		{"secret-1-and-mor", "[redacted:short]-and-mor", "map[short:1]"},
		{"secret-1-and-more-secret", "[redacted:long]", "map[long:1]"},
		{"secret-1secret-1 more-secret", "[redacted:short][redacted:short] [redacted:other]", "map[other:1 short:2]"},
		{"secret-", "secret-", "map[]"},
		{"", "", "map[]"},
	} {
		whole, counts := r.String(c.text)
		cut, again := stream(t, r, c.text, bytewise)
		if whole != c.want || cut != c.want || fmt.Sprint(counts) != c.counts || fmt.Sprint(again) != c.counts {
			t.Errorf("%q: %q %v, cut %q %v", c.text, whole, counts, cut, again)
		}
	}
	total := Counts{"a": 1}
	total.Add(Counts{"a": 2, "b": 3})
	if total.Total() != 6 || total["a"] != 3 {
		t.Errorf("%v", total)
	}
}

// TestOrdinaryTextIsLeft: text that shares words, beginnings, cases and
// alphabets with a value is not the value.
func TestOrdinaryTextIsLeft(t *testing.T) {
	r := newRedactor(t, pair{"a", "correct-horse"}, pair{"b", "Token_2024"}, pair{"c", "s3cr3t"})
	text := "Correct-Horse correct horse CORRECT-HORSE correct-hors\ne correct-Horse token_2024 Token-2024 Token_2023 Token_202\n4 s3cr3 t s3 cr3t S3CR3T secret " +
		"100% \\ \\u \\u00 %4 %zz \r\n \r \\x4 \xff\xfe \\777 Y29ycmVjdC1ob3Jz 636f72726563742d686f7273 日本語\n"
	if got, counts := r.String(text); got != text || counts.Total() != 0 {
		t.Errorf("%v: %q", counts, got)
	}
	if got, _ := stream(t, r, text, bytewise); got != text {
		t.Errorf("cut: %q", got)
	}
	in := []byte(text)
	if out, _ := r.Bytes(in); &out[0] != &in[0] {
		t.Error("text without a value was copied")
	}
}

func TestRefusals(t *testing.T) {
	many := make([]pair, MaxValues+1)
	for i := range many {
		many[i] = pair{fmt.Sprint("n", i), fmt.Sprint("value-", i)}
	}
	half := strings.Repeat("0123456789abcdef", 4096)
	for _, c := range []struct {
		name  string
		pairs []pair
		want  error
		of    string
	}{
		{"none", nil, nil, ""},
		{"short", []pair{{"ok", "longer"}, {"pin", "12345"}}, ErrShort, "pin"},
		{"long enough", []pair{{"pin", "123456"}}, nil, ""},
		{"one letter", []pair{{"z", strings.Repeat("0", 64)}}, ErrRepeats, "z"},
		{"two letters", []pair{{"z", strings.Repeat("ab", 64)}}, ErrRepeats, "z"},
		{"eight zeros", []pair{{"z", "00000000"}}, nil, ""},
		{"too many", many, ErrTooMuch, ""},
		{"as many as go", many[1:], nil, ""},
		{"too long together", []pair{{"a", half}, {"b", "1" + half[1:]}, {"c", "more-of-it"}}, ErrTooMuch, "c"},
		{"no name", []pair{{"", "longer"}}, ErrName, ""},
		{"a name with a line", []pair{{"a\nb", "longer"}}, ErrName, ""},
		{"a name that is too long", []pair{{strings.Repeat("a", 65), "longer"}}, ErrName, ""},
	} {
		r, err := tryNew(t, c.pairs...)
		var fault *Error
		if !errors.Is(err, c.want) || (r == nil) != (err != nil) || err != nil && (!errors.As(err, &fault) || fault.Name != c.of) {
			t.Errorf("%s: %v, want %v of %q", c.name, err, c.want, c.of)
		}
		if r != nil {
			r.Destroy()
		}
	}
	gone := newSecret(t, "longer-value")
	gone.Destroy()
	if _, err := New([]Value{{"gone", gone}}); !errors.Is(err, ErrGone) {
		t.Errorf("a secret that is gone: %v", err)
	}
}

// TestMasksAreToldApart: where a value is in the mask, or would become one
// next to it, there is another mask.
func TestMasksAreToldApart(t *testing.T) {
	for _, c := range []struct{ value, mask string }{
		{"plain-value", "[redacted:gh]"},
		{"password[", "<redacted:gh>"}, {"]password", "<redacted:gh>"}, {"password[redac", "<redacted:gh>"}, {"[]{}<>", "[redacted:gh]"},
		{"redacted", "[***]"}, {"redacted:gh", "[redacted]"}, {"acted:gh", "[redacted]"}, {"[redacted:gh]", "<redacted:gh>"},
		{"a[redacted:gh]b", "<redacted:gh>"},
	} {
		r := newRedactor(t, pair{"gh", c.value})
		for _, text := range []string{c.value, c.value + c.value, c.value[:len(c.value)-1] + c.value + c.value[1:], "[" + c.value + "]"} {
			out, counts := r.String(text)
			again, more := r.String(out)
			if !strings.Contains(out, c.mask) || again != out || more.Total() != 0 || counts.Total() == 0 {
				t.Errorf("%q in %q: %q, again %q", c.value, text, out, again)
			}
		}
	}
	var all []pair
	for i, around := range []string{"[]", "<>", "{}", "()", "||", "~~"} {
		all = append(all, pair{fmt.Sprint("n", i), "value" + around[:1]})
	}
	var fault *Error
	if _, err := tryNew(t, all...); !errors.Is(err, ErrMask) || !errors.As(err, &fault) || fault.Name != "n5" {
		t.Errorf("values in the way of every mask: %v", err)
	}
}

func TestOrdinary(t *testing.T) {
	for value, want := range map[string]bool{"password": true, "12345678": true, "passw0rd": false, "Password": false, "correcthorsebattery": false, "123456789012": false} {
		if Ordinary([]byte(value)) != want {
			t.Errorf("%q: want %v", value, want)
		}
	}
}

func TestErrorsHaveNoValue(t *testing.T) {
	for _, p := range []pair{{"pin", "12345"}, {"z", strings.Repeat("0", 64)}} {
		if _, err := tryNew(t, p); err == nil || strings.Contains(err.Error(), p.value) || !strings.Contains(err.Error(), p.name) {
			t.Errorf("%v", err)
		}
	}
}
