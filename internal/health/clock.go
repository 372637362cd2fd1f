package health

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Clock notices that the time of day has jumped: leases, rates and rows go by
// it. What is true for as long as a lease of the log is not to be relied on.
type Clock struct {
	most   time.Duration // that is no step
	settle time.Duration
	wall   func() time.Time // the time of day
	mono   func() time.Duration

	mu      sync.Mutex // guards what follows
	begun   bool
	was     time.Time
	at      time.Duration // of was, by the monotonic clock
	stepped time.Duration // how far, last
	since   time.Duration // when that was noticed
	steps   int64
}

// NewClock returns a Clock for steps of more than most; after one it is not well
// for settle. wall and mono are the two clocks of a host; nil: this one's.
func NewClock(most, settle time.Duration, wall func() time.Time, mono func() time.Duration) *Clock {
	began := time.Now()
	if wall == nil {
		wall = func() time.Time { return time.Now().Round(0) }
	}
	if mono == nil {
		mono = func() time.Duration { return time.Since(began) }
	}
	c := &Clock{most: most, settle: settle, wall: wall, mono: mono}
	c.look()
	return c
}

// look compares the clocks with what they said the last time.
func (c *Clock) look() (step, ago time.Duration, steps int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mono()
	wall, mono := c.wall(), c.mono()
	if mono-before > c.most/2 { // this process stood still between the two: try again the next time
		return c.stepped, mono - c.since, c.steps
	}
	if c.begun {
		if jump := wall.Sub(c.was) - (mono - c.at); jump > c.most || jump < -c.most {
			c.stepped, c.since, c.steps = jump, mono, c.steps+1
		}
	}
	c.begun, c.was, c.at = true, wall, mono
	return c.stepped, mono - c.since, c.steps
}

// Steps is how many were noticed.
func (c *Clock) Steps() int64 {
	_, _, steps := c.look()
	return steps
}

// Check is the check.
func (c *Clock) Check(context.Context) error {
	step, ago, steps := c.look()
	if steps > 0 && ago < c.settle {
		return &Error{ClockStepped, fmt.Errorf("the time of day jumped by %v, %v ago", step.Round(time.Millisecond), ago.Round(time.Millisecond))}
	}
	return nil
}
