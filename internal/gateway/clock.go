package gateway

import "time"

// Clock is the time as a gateway sees it. It is called concurrently. Where its
// times have a monotonic reading, rates are measured by that: a clock that is
// set does not change them.
type Clock interface {
	// Now returns the wall-clock time.
	Now() time.Time
	// Ticker delivers on c every d until stop is called. It drops ticks that
	// nobody takes.
	Ticker(d time.Duration) (c <-chan time.Time, stop func())
}
