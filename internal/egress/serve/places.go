package serve

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// places bound how many connections there are at once.
type places struct {
	most int64
	used atomic.Int64
}

// take takes one, and reports whether there was one.
func (p *places) take() bool {
	if p.used.Add(1) > p.most {
		p.used.Add(-1)
		return false
	}
	return true
}

func (p *places) give() { p.used.Add(-1) }

// quota is what one call has of connections and bytes.
type quota struct {
	all      *places // of the process
	here     places  // of the call
	total    atomic.Int64
	mostEver int64

	bytes     atomic.Int64
	mostBytes int64
}

var (
	errCallFull = errors.New("too many connections of this call are open")
	errFull     = errors.New("too many connections of all calls are open")
)

// enter takes a place for one connection. leave gives it back, and may be
// called again.
func (q *quota) enter() (leave func(), err error) {
	switch {
	case q.total.Add(1) > q.mostEver:
		q.total.Add(-1)
		return nil, fmt.Errorf("the call's %d connections are used up", q.mostEver)
	case !q.here.take():
		q.total.Add(-1)
		return nil, errCallFull
	case !q.all.take():
		q.here.give()
		q.total.Add(-1)
		return nil, errFull
	}
	return sync.OnceFunc(func() {
		q.all.give()
		q.here.give()
	}), nil
}

// count takes bytes out of the call's allowance, before they are passed on.
func (q *quota) count(sent, received int64) error {
	if q.bytes.Add(sent+received) > q.mostBytes {
		return fmt.Errorf("the call's %d bytes are used up", q.mostBytes)
	}
	return nil
}
