package cell

import "time"

// Timed is the optional power of a cell that knows how long the process that
// builds and removes it took for that, by that process's own clock.
type Timed interface{ Timings() Timings }

// Timings are how long others took. What is not known, or has not been yet, is 0.
type Timings struct {
	Build  time.Duration
	Remove time.Duration
}
