package gateway

import (
	"sync"
	"time"
)

// Throttle bounds how often each of many strangers may try something: at most
// limit times in any 60 seconds. It remembers a bounded number of them; where
// there are more, those that are new share one bound. It is safe for
// concurrent use.
type Throttle struct {
	limit, most int
	clock       Clock
	zero        time.Time

	mu    sync.Mutex // guards what follows
	by    map[string]*window
	rest  window
	swept int64 // when it was last looked for who is gone
}

// NewThrottle returns a Throttle for at most most strangers at a time.
func NewThrottle(limit, most int, clock Clock) *Throttle {
	return &Throttle{limit: limit, most: most, clock: clock, zero: clock.Now(), by: map[string]*window{}, rest: window{limit: limit}}
}

// Take notes a try of who, or says after what time there may be one.
func (t *Throttle) Take(who string) (after time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := int64(t.clock.Now().Sub(t.zero))
	w := t.by[who]
	if w == nil && len(t.by) >= t.most && time.Duration(now-t.swept) >= time.Second {
		t.sweepLocked(now)
	}
	switch {
	case w != nil:
	case len(t.by) < t.most:
		w = &window{limit: t.limit}
		t.by[who] = w
	default:
		w = &t.rest
	}
	return w.take(now)
}

// Blocked says after what time who may try again, without a try.
func (t *Throttle) Blocked(who string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := int64(t.clock.Now().Sub(t.zero))
	if w := t.by[who]; w != nil {
		return w.after(now)
	}
	if len(t.by) >= t.most {
		return t.rest.after(now)
	}
	return 0
}

func (t *Throttle) sweepLocked(now int64) {
	t.swept = now
	for who, w := range t.by {
		if w.idle(now) {
			delete(t.by, who)
		}
	}
}
