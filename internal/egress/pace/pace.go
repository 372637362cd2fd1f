// Package pace slows down who does more of something than anybody has a use for,
// where it costs this host more than it costs him: a guest asks with a few bytes
// of what the front and the egress process then make of them, whose CPU time is in
// no call's account.
package pace

import (
	"context"
	"sync/atomic"
	"time"
)

// Pace lets so many times pass at once, and each after them after a while. Its
// methods may be called concurrently.
type Pace struct {
	free  int64
	every time.Duration
	n     atomic.Int64
}

// New returns a Pace that lets free times pass at once.
func New(free int, every time.Duration) *Pace { return &Pace{free: int64(free), every: every} }

// Wait counts a time, and waits where it is one too many. The error is ctx's.
func (p *Pace) Wait(ctx context.Context) error {
	if p.n.Add(1) <= p.free {
		return ctx.Err()
	}
	late := time.NewTimer(p.every)
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
