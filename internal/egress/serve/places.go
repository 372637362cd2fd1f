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

// The bounds of connections whose requests are looked into, at once. One costs
// at most about 1.3 MiB, see package inspect: 96 of them are 125 MiB, less than
// half of the 256 MiB that the process's group has. A call may hold a quarter.
const (
	allWeb  = 96 // of the process
	callWeb = allWeb / 4
)

// quota is what one call has of connections and bytes.
type quota struct {
	all      *places // of the process
	here     places  // of the call
	total    atomic.Int64
	mostEver int64
	allWeb   *places // as all and here, of connections that are looked into
	web      places

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

// look takes a place for a connection that is looked into, beside the one that
// enter took.
func (q *quota) look() (leave func(), err error) {
	switch {
	case !q.web.take():
		return nil, fmt.Errorf("more than %d inspected connections at once", q.web.most)
	case !q.allWeb.take():
		q.web.give()
		return nil, fmt.Errorf("more than %d inspected connections of all calls at once", q.allWeb.most)
	}
	return func() {
		q.allWeb.give()
		q.web.give()
	}, nil
}

// count takes bytes out of the call's allowance, before they are passed on.
func (q *quota) count(sent, received int64) error {
	if q.bytes.Add(sent+received) > q.mostBytes {
		return fmt.Errorf("the call's %d bytes are used up", q.mostBytes)
	}
	return nil
}
