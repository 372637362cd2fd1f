package gateway

import (
	"sync"
	"time"
)

// manual is a clock that is moved by hand. Its tickers never tick.
type manual struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *manual) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }
