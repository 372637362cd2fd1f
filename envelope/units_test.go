package envelope

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseUnits(t *testing.T) {
	size := func(s string) (int64, error) { n, err := ParseSize(s); return int64(n), err }
	duration := func(s string) (int64, error) { n, err := ParseDuration(s); return int64(n), err }
	count := func(s string) (int64, error) { n, err := ParseCount(s); return int64(n), err }
	cpu := func(s string) (int64, error) { n, err := ParseCPU(s); return int64(n), err }
	const bad = -1
	cases := []struct {
		parse func(string) (int64, error)
		text  string
		want  int64
		hint  string
	}{
		{size, "0B", 0, ""}, {size, "512B", 512, ""}, {size, "64Ki", 64 << 10, ""}, {size, "8191Ti", 8191 << 40, ""},
		{size, "8388608Ti", bad, ""}, {size, "9223372036854775807B", bad, ""}, {size, "999999999999999999B", 999999999999999999, ""},
		{size, "67108864", bad, `write "64Mi", not 67108864`}, {size, "100", bad, `"100Mi", or "100B"`}, {size, "1024", bad, `write "1Ki", not 1024`}, {size, "0", bad, `"0B"`},
		{size, "", bad, "leave the key out"}, {size, "B", bad, ""}, {size, "Mi", bad, ""}, {size, "-1Mi", bad, "negative"}, {size, "+1Mi", bad, ""},
		{size, "64MB", bad, `"64Mi"`}, {size, "64 Mi", bad, `"64Mi"`}, {size, "64M", bad, `"64Mi"`}, {size, "64mib", bad, `"64Mi"`}, {size, "1g", bad, `"1Gi"`},
		{size, "1.5Gi", bad, ""}, {size, "1e3B", bad, ""}, {size, "0x10B", bad, ""}, {size, "64Mi ", bad, ""}, {size, "６４Mi", bad, ""},
		{size, "unlimited", bad, "no unlimited"}, {size, "Infinity", bad, "no unlimited"}, {size, "-1", bad, "no unlimited"},
		{size, "1_000B", bad, ""}, {size, "64Mi\x00", bad, ""}, {size, "64KiB", bad, `"64Ki"`},

		{duration, "30s", int64(30 * time.Second), ""}, {duration, "1h30m", int64(90 * time.Minute), ""}, {duration, "0s", 0, ""}, {duration, "1.5s", 15e8, ""}, {duration, "10µs", 1e4, ""},
		{duration, "0", bad, `"0s"`}, {duration, "30", bad, `write "30s", not 30`}, {duration, "30000000", bad, `"30000000ms"`}, {duration, "1e3s", bad, ""},
		{duration, "-1s", bad, "negative"}, {duration, "-0s", bad, "negative"}, {duration, "+1s", bad, ""}, {duration, "", bad, "leave"}, {duration, "s", bad, ""},
		{duration, "1d", bad, `"24h"`}, {duration, "5min", bad, `"5m"`}, {duration, "5 seconds", bad, `"5s"`}, {duration, "never", bad, ""}, {duration, "none", bad, "no unlimited"},
		{duration, "9999999999h", bad, ""}, {duration, "0.0000000001s", bad, ""}, {duration, "NaNs", bad, ""}, {duration, "infs", bad, ""},

		{count, "0", 0, ""}, {count, "16k", 16_000, ""}, {count, "2M", 2_000_000, ""}, {count, "64", 64, ""},
		{count, "-0", bad, "negative"}, {count, "-1", bad, "no unlimited"}, {count, "1e3", bad, ""}, {count, "1.0", bad, ""}, {count, "", bad, "leave"}, {count, "k", bad, ""},
		{count, "16K", bad, "thousand"}, {count, "9223372036854775807", bad, ""}, {count, "999999999999999999M", bad, ""}, {count, "unlimited", bad, "no unlimited"}, {count, " 1", bad, ""},

		{cpu, "1", 1000, ""}, {cpu, "0.5", 500, ""}, {cpu, "0.001", 1, ""}, {cpu, "12.25", 12250, ""}, {cpu, "1.000", 1000, ""},
		{cpu, "1.", bad, ""}, {cpu, ".5", bad, ""}, {cpu, ".", bad, ""}, {cpu, "", bad, "leave"}, {cpu, "0.0001", bad, ""}, {cpu, "1.5.2", bad, ""}, {cpu, "1e1", bad, ""}, {cpu, "-1", bad, "no unlimited"},
		{cpu, "500m", bad, "0.5"}, {cpu, "1.-5", bad, ""}, {cpu, "1.+5", bad, ""}, {cpu, "999999999999999999", bad, ""},
		{cpu, "18446744073709552", bad, ""}, // times a thousand, this is 384 modulo 2^64
	}
	for _, c := range cases {
		got, err := c.parse(c.text)
		if c.want != bad {
			if err != nil || got != c.want {
				t.Errorf("%q: %d, %v; want %d", c.text, got, err, c.want)
			}
			continue
		}
		var v *ValueError
		if !errors.As(err, &v) || got != 0 {
			t.Errorf("%q: %d, %v; want a ValueError and zero", c.text, got, err)
		} else if !strings.Contains(v.Hint, c.hint) {
			t.Errorf("%q: hint %q, want %q", c.text, v.Hint, c.hint)
		}
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, math.MaxInt64/2000)).Draw(t, "n") << rapid.IntRange(0, 10).Draw(t, "shift")
		if n > 999_999_999_999_999_999 {
			n = 999_999_999_999_999_999
		}
		type quantities struct {
			S Size
			D Duration
			C Count
			P CPU
		}
		in := quantities{Size(n), Duration(n), Count(n), CPU(n)}
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out, strict quantities
		if err := json.Unmarshal(data, &out); err != nil || out != in {
			t.Fatalf("%s: %v, %v", data, out, err)
		}
		if err := Decode(data, 1<<10, &strict); err != nil || strict != in {
			t.Fatalf("%s: %v, %v", data, strict, err)
		}
	})
}

func TestNegativeQuantitiesCannotBeWritten(t *testing.T) {
	for _, v := range []any{Size(-1), Duration(-1), Count(-1), CPU(-1), CPU(math.MinInt64), Size(math.MinInt64)} {
		if data, err := json.Marshal(v); err == nil {
			t.Errorf("%T: %s", v, data)
		}
	}
	if got := CPU(-500).String(); got != "-0.5" {
		t.Errorf("got %s", got)
	}
}

func TestData(t *testing.T) {
	for _, in := range []Data{nil, {}, {0}, []byte("hello\n"), {0xff, 0xfe, 0}} {
		data, err := json.Marshal(in)
		if err != nil || string(data) == "null" {
			t.Fatalf("%v: %s, %v", in, data, err)
		}
		var out Data
		if err := json.Unmarshal(data, &out); err != nil || string(out) != string(in) {
			t.Errorf("%v: %v, %v", in, out, err)
		}
	}
	for _, text := range []string{"aGk", "aGk=\n", "aG\nk=", "aGl=", "a-_b", "====", " "} {
		d := Data("before")
		var v *ValueError
		if err := d.UnmarshalText([]byte(text)); !errors.As(err, &v) || d != nil {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestSets(t *testing.T) {
	check := func(name string, words []string, parse func(string) (string, error)) {
		for _, w := range words {
			if got, err := parse(w); err != nil || got != w {
				t.Errorf("%s %q: %q, %v", name, w, got, err)
			}
		}
		for _, w := range []string{"", "invalid", strings.ToUpper(words[0]), words[0] + " ", "0", "1", words[0] + "\x00"} {
			got, err := parse(w)
			var v *ValueError
			if !errors.As(err, &v) || v.Value != w || len(v.Want) != len(words) || !strings.HasPrefix(got, "invalid "+v.Kind) {
				t.Errorf("%s %q: %q, %v", name, w, got, err)
			}
		}
	}
	check("level", levels().list(), func(w string) (string, error) { var l Level; err := l.UnmarshalText([]byte(w)); return l.String(), err })
	check("trust", trusts().list(), func(w string) (string, error) { var l Trust; err := l.UnmarshalText([]byte(w)); return l.String(), err })
	check("outcome", outcomes().list(), func(w string) (string, error) {
		var l Outcome
		err := l.UnmarshalText([]byte(w))
		return l.String(), err
	})
	check("reason", reasons().list(), func(w string) (string, error) {
		var l Reason
		err := l.UnmarshalText([]byte(w))
		return l.String(), err
	})
	check("verdict", verdicts().list(), func(w string) (string, error) {
		var l Verdict
		err := l.UnmarshalText([]byte(w))
		return l.String(), err
	})
	check("change", changeKinds().list(), func(w string) (string, error) {
		var l ChangeKind
		err := l.UnmarshalText([]byte(w))
		return l.String(), err
	})
	for alias, want := range map[string]Level{"wasm": LevelLanguage, "gvisor": LevelUserKernel} {
		var l Level
		if err := l.UnmarshalText([]byte(alias)); err != nil || l != want {
			t.Errorf("%s: %v, %v", alias, l, err)
		}
	}
	for _, v := range []any{Level(0), Level(200), Trust(0), Outcome(0), Reason(0), Verdict(0), Verdict(200), ChangeKind(0), ChangeKind(200)} {
		if data, err := json.Marshal(v); err == nil {
			t.Errorf("%T: %s", v, data)
		}
	}
}
