package audit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// TestSpanHoldsIDsThatBeginSo: each id was made in the time of each of its
// beginnings, and none that begins otherwise was, as far as milliseconds say it.
func TestSpanHoldsIDsThatBeginSo(t *testing.T) {
	for _, at := range []time.Time{time.UnixMilli(0), time.Date(2026, 11, 30, 14, 0, 0, 999_999_999, time.UTC), time.UnixMilli(1<<48 - 1)} {
		id := audit.NewID(at)
		made := time.UnixMilli(at.UnixMilli())
		for n := 1; n <= len(id); n++ {
			since, until, err := audit.Span(id[:n])
			if err != nil || made.Before(since) || !made.Before(until) {
				t.Errorf("%s: from %s until %s, %v: made %s", id[:n], since, until, err, made)
			}
			if n >= 13 && (!since.Equal(made) || until.Sub(since) != time.Millisecond) {
				t.Errorf("%s: from %s until %s", id[:n], since, until)
			}
		}
	}
	since, until, err := audit.Span("01a2")
	if next, _, _ := audit.Span("01a3"); err != nil || !until.Equal(next) || !since.Before(until) {
		t.Errorf("from %s until %s, and the next from %s", since, until, next)
	}
	for _, text := range []string{"", "x", "-", "01A2", "01a22b22155f", audit.NewID(time.Now()) + "0"} {
		if _, _, err := audit.Span(text); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
