package redact

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/credential/secret"
)

func newSecret(t testing.TB, text string) secret.Secret {
	t.Helper()
	s, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Destroy)
	return s
}

// TestHoldsBackNoMoreThanABeginning writes byte by byte and looks at what has
// come out by then.
func TestHoldsBackNoMoreThanABeginning(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	for _, c := range []struct {
		in   string
		held int
	}{
		{"Password: ", 0}, {"done.\n", 0}, {"100%", 1}, {"100% ", 0}, {"s3cr", 4}, {"s3cr3t-valu", 11}, {"s3cr3t-value", 0}, {"xx s3cr3t_", 0},
		{`\u00`, 4}, {`\u00-`, 0}, {`\ud83d`, 6}, {`\ud83d\ude0`, 11}, {`\ud83dx`, 0}, {"50 of 100 -\r", 0}, {"s\n", 0}, {"c\n", 2},
	} {
		var out bytes.Buffer
		w := r.Writer(&out)
		for i := range len(c.in) {
			if _, err := w.Write([]byte{c.in[i]}); err != nil {
				t.Fatal(err)
			}
		}
		// The mask itself comes with the byte behind it at the latest.
		if w.Held() != c.held && !(strings.HasSuffix(c.in, "value") && w.Held() <= 12) {
			t.Errorf("%q: %d bytes held, want %d", c.in, w.Held(), c.held)
		}
		if w.Held()+out.Len() != len(c.in) && w.Counts().Total() == 0 {
			t.Errorf("%q: %d held, %d out", c.in, w.Held(), out.Len())
		}
		if err := w.Close(); err != nil || w.Held() != 0 {
			t.Errorf("%q: %v, %d held after Close", c.in, err, w.Held())
		}
	}
}

// TestHeldBackIsBounded: line breaks are looked past one at a time, so that
// they hold nothing back for ever.
func TestHeldBackIsBounded(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	w := r.Writer(&bytes.Buffer{})
	for _, piece := range []string{"czNj", strings.Repeat("\n", 1000), strings.Repeat("\r\n", 1000), strings.Repeat("czNj\n", 1000), strings.Repeat("73", 1000), strings.Repeat(`\`, 1000)} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
		if w.Held() > 11 {
			t.Errorf("%d bytes held after %.10q", w.Held(), piece)
		}
	}
}

type failing struct{ after int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriterErrors(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	w := r.Writer(&failing{after: 1})
	if _, err := w.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := w.Write([]byte("two")); n != 0 || !errors.Is(err, errFull) {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	held := r.Writer(&failing{})
	if _, err := held.Write([]byte("s3cr")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held.Close(), held.Close()); !errors.Is(err, errFull) {
		t.Errorf("what was held back was lost without a word: %v", err)
	}
}

// TestNothingComesOutAfterDestroy: who cannot mask must not pass on.
func TestNothingComesOutAfterDestroy(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	var out bytes.Buffer
	w := r.Writer(&out)
	if _, err := w.Write([]byte("text s3cr")); err != nil {
		t.Fatal(err)
	}
	r.Destroy()
	r.Destroy()
	if _, err := w.Write([]byte("3t-value")); !errors.Is(err, ErrGone) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrGone) || out.String() != "text " {
		t.Errorf("Close: %v, out %q", err, out.String())
	}
	if b, _ := r.Bytes([]byte("s3cr3t-value")); b != nil {
		t.Errorf("Bytes: %q", b)
	}
	if text, _ := r.String("x"); text != "" {
		t.Errorf("String: %q", text)
	}
}

func TestWithoutValuesEverythingPasses(t *testing.T) {
	r := newRedactor(t)
	if got, counts := stream(t, r, "any \xff\n100%", bytewise); got != "any \xff\n100%" || counts.Total() != 0 {
		t.Errorf("%q, %v", got, counts)
	}
	if got, _ := r.String("any"); got != "any" || len(r.Names()) != 0 {
		t.Errorf("%q", got)
	}
	r.Destroy()
	if got, _ := r.String("any"); got != "any" {
		t.Errorf("%q after Destroy", got)
	}
}

// TestLargeWrites: pieces of a large write are as good as the whole.
func TestLargeWrites(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	text := strings.Repeat(strings.Repeat("x", 1013)+"s3cr3t-value", 300)
	want := strings.ReplaceAll(text, "s3cr3t-value", "[redacted:gh]")
	for _, cut := range []func(int) int{func(n int) int { return n }, func(int) int { return pieceBytes - 1 }, func(int) int { return 3 * pieceBytes }, func(int) int { return 1000 }} {
		if got, counts := stream(t, r, text, cut); got != want || counts["gh"] != 300 {
			t.Errorf("%d bytes, %v", len(got), counts)
		}
	}
}

// TestHammer uses one Redactor from many goroutines, and destroys it under
// them.
func TestHammer(t *testing.T) {
	r := newRedactor(t, pair{"gh", "s3cr3t-value"})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				var out bytes.Buffer
				w := r.Writer(&out)
				_, err := fmt.Fprint(w, "a s3cr3t-value and", " s3cr3t-", "value")
				if err == nil {
					err = w.Close()
				}
				if err != nil && !errors.Is(err, ErrGone) {
					t.Error(err)
				}
				if text := out.String(); strings.Contains(text, "s3cr") {
					t.Errorf("out: %q", text)
				}
			}
			if i == 7 {
				r.Destroy()
			}
		})
	}
	all.Wait()
}
