// Package systime is the time of this host, for whoever takes a clock that a
// test can set.
package systime

import "time"

// Clock is the clock of this host. Its times have a monotonic reading.
type Clock struct{}

// Now returns the wall-clock time.
func (Clock) Now() time.Time { return time.Now() }

// Ticker delivers on c every d until stop is called. It drops ticks that nobody
// takes.
func (Clock) Ticker(d time.Duration) (c <-chan time.Time, stop func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}
