package audit

import (
	"time"

	"github.com/callcell/callcell/envelope"
)

// ParseTime reads a time that rows are searched by: how long before now it is
// (2h, 90m), a day, which begins where now's zone has it begin, or a time as RFC
// 3339 has it. An error is an *envelope.ValueError of the kind "time".
func ParseTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339Nano} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, &envelope.ValueError{Kind: "time", Value: text, Want: []string{"2h", "2026-11-30", "2026-11-30T14:00:00Z"},
		Hint: "write how long ago (2h), a day (2026-11-30) or a time (2026-11-30T14:00:00Z)"}
}
