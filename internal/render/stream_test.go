package render

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

func TestStream(t *testing.T) {
	data := func(s string) envelope.Data { return envelope.Data(s) }
	for _, c := range []struct {
		name   string
		stream envelope.Stream
		max    int
		want   string
	}{
		{"nothing", envelope.Stream{}, 0, ""},
		{"whole", envelope.Stream{Head: data("a\x1b\n"), Total: 3}, 0, "a␛\n"},
		{"whole, capped", envelope.Stream{Head: data("0123456789"), Total: 10}, 4, "01[... 6 bytes cut ...]89"},
		{"cut", envelope.Stream{Head: data("abc"), Tail: data("xyz"), Total: 100, Truncated: true}, 0,
			"abc\n[... 94 of 100 bytes cut ...]\nxyz"},
		{"cut at a line", envelope.Stream{Head: data("abc\n"), Tail: data("xyz\n"), Total: 100, Truncated: true}, 0,
			"abc\n[... 92 of 100 bytes cut ...]\nxyz\n"},
		{"cut in a character", envelope.Stream{Head: data("abc\xe2\x82"), Tail: data("\x82\xacxyz"), Total: 100, Truncated: true}, 0,
			"abc\n[... 94 of 100 bytes cut ...]\nxyz"},
		{"bad bytes at the cut", envelope.Stream{Head: data("abc\xff"), Tail: data("\x80\x80\x80\x80"), Total: 100, Truncated: true}, 0,
			"abc" + `\xff` + "\n[... 95 of 100 bytes cut ...]\n" + `\x80`},
		{"cut and capped", envelope.Stream{Head: data("abcdef"), Tail: data("uvwxyz"), Total: 100, Truncated: true}, 6,
			"abc\n[... 94 of 100 bytes cut ...]\nxyz"},
		{"a mark at the start of the tail", envelope.Stream{Head: data("a"), Tail: data("\u0336b"), Total: 9, Truncated: true}, 0,
			"a\n[... 5 of 9 bytes cut ...]\n" + `\u{0336}b`},
		{"no head", envelope.Stream{Tail: data("z"), Total: 9, Truncated: true}, 0, "[... 8 of 9 bytes cut ...]\nz"},
	} {
		if got := Stream(c.stream, Options{Max: c.max}); got != c.want {
			t.Errorf("%s: Stream = %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range seeds() {
		f.Add([]byte(seed), []byte(seed), int64(1000), true, 0)
		f.Add([]byte(seed), []byte(seed), int64(1000), true, 9)
	}
	f.Fuzz(func(t *testing.T, head, tail []byte, total int64, truncated bool, max int) {
		s := envelope.Stream{Head: head, Tail: tail, Total: total, Truncated: truncated}
		got := Stream(s, Options{Max: max})
		checkSafe(t, got)
		if truncated && !strings.Contains(got, " bytes cut ...]\n") {
			t.Fatalf("no notice in %q", got)
		}
		if limit := max + 70; max > 0 && len(got) > limit {
			t.Fatalf("%d bytes with a cap of %d", len(got), max)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "unknown", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1023.9 KiB",
		1 << 20: "1.0 MiB", 256 << 20: "256.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 1<<63 - 1: "7.9 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "unknown", 0: "0 ns", 999: "999 ns", 850 * time.Microsecond: "850 µs", 12345 * time.Microsecond: "12.3 ms",
		999999 * time.Microsecond: "999.9 ms", 1234 * time.Millisecond: "1.23 s", 123 * time.Second: "2m03s",
		62 * time.Minute: "1h02m", 26 * time.Hour: "26h00m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %s, want %s", d, got, want)
		}
	}
}
