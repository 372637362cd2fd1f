package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// Streams is how many requests wait for calls of others, of all keys.
func (a *API) Streams() (n int) {
	a.follows.mu.Lock()
	defer a.follows.mu.Unlock()
	for _, of := range a.follows.by {
		n += of
	}
	return n
}

// Running is how many calls there are that are kept and have not ended.
func (a *API) Running() (n int) {
	a.jobs.mu.Lock()
	defer a.jobs.mu.Unlock()
	for _, j := range a.jobs.by {
		if _, _, over := j.bytes(); !over {
			n++
		}
	}
	return n
}

// SetBeat is how often a stream that is quiet says so, before the first request.
func (a *API) SetBeat(d time.Duration) { a.beat = d }

// Events returns what a handler of a key writes an answer of events with, and
// what happens with time and at the end.
func (a *API) Events(w http.ResponseWriter, r *http.Request, key string) (events http.ResponseWriter, beat, stop func()) {
	e, _, stop := a.events(&request{w: w, r: r, key: gateway.Key{ID: key}})
	return e, func() { e.beatOnce(true) }, stop
}

// A Door is a door.
type Door = door

// Door returns what Run serves with, with room for fewer connections. It is ended
// last.
func (a *API) Door(l net.Listener, most int) (*http.Server, *Door) {
	d, server := newDoor(l, most), a.Server()
	server.ConnContext = d.with
	return server, d
}

// End is end.
func (d *door) End() { d.end() }

// Lingering is how many connections linger.
func (d *door) Lingering() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g := range d.guests {
		if g.leaving {
			n++
		}
	}
	return n
}

// MakesAnswer takes a key's turn to make an answer out of files, until leave.
func (a *API) MakesAnswer(ctx context.Context, key string) (leave func(), err error) {
	return a.line.enter(ctx, key, 1)
}

// InLine is how many wait to make one, and how many bytes those have that do.
func (a *API) InLine() (waiting int, used int64) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	return len(a.line.waiting), a.line.used
}
