package gateway

import (
	"fmt"
	"time"
)

// Month is a calendar month in UTC: 202611. The zero value is none.
type Month int32

// MonthOf returns the month of a time.
func MonthOf(t time.Time) Month {
	t = t.UTC()
	return Month(t.Year()*100 + int(t.Month()))
}

// Next returns when the month after m begins.
func (m Month) Next() time.Time {
	return time.Date(int(m/100), time.Month(m%100)+1, 1, 0, 0, 0, 0, time.UTC)
}

// String returns 2026-11.
func (m Month) String() string { return fmt.Sprintf("%04d-%02d", m/100, m%100) }

// MarshalText implements encoding.TextMarshaler.
func (m Month) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Month) UnmarshalText(text []byte) error {
	t, err := time.Parse("2006-01", string(text))
	if err != nil {
		return &FieldError{ErrInvalid, "month", "not a month", "write it as 2026-11"}
	}
	*m = MonthOf(t)
	return nil
}
