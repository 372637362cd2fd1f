package audit

import "time"

// Clock is the time as a Log sees it.
type Clock interface {
	// Now returns the wall-clock time.
	Now() time.Time
	// Ticker delivers on c every d until stop is called. It drops ticks that
	// nobody takes.
	Ticker(d time.Duration) (c <-chan time.Time, stop func())
}
