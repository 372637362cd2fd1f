package audit

import (
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

func TestParseTime(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, east)
	for _, c := range []struct {
		name, text string
		want       time.Time
	}{
		{"so long ago", "2h", now.Add(-2 * time.Hour)},
		{"parts of it", "1h30m", now.Add(-90 * time.Minute)},
		{"a day begins in the zone of now", "2026-11-29", time.Date(2026, 11, 29, 0, 0, 0, 0, east)},
		{"a time in UTC", "2026-11-29T12:00:00Z", time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)},
		{"a time of its own zone", "2026-11-29T12:00:00.5+01:00", time.Date(2026, 11, 29, 11, 0, 0, 5e8, time.UTC)},
	} {
		if got, err := ParseTime(c.text, now); err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	for _, text := range []string{"", "yesterday", "-2h", "0s", "2", "2026-11", "2026-13-01", "2026-11-29T12:00:00", "2026-11-29T12:00:00 01:00"} {
		var fault *envelope.ValueError
		if got, err := ParseTime(text, now); !errors.As(err, &fault) || fault.Kind != "time" || fault.Hint == "" || !got.IsZero() {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
