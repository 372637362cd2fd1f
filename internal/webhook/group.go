package webhook

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// The bounds of what waits for one receiver.
const (
	maxGroups = 64 // beyond them, a group for each kind alone
	maxCalls  = 8  // of a delivery
	maxWords  = 64 // of Counts
)

// Delivery is the body of a request.
type Delivery struct {
	Version int    `json:"version"` // 1
	ID      string `json:"id"`      // the same for every try
	Event   string `json:"event"`   // the kind
	Host    string `json:"host"`    // that tells it
	// Count is how many events of the kind are in it, of one caller, or of
	// several where Caller is "".
	Count  int64     `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Caller string    `json:"caller,omitempty"`
	Team   string    `json:"team,omitempty"`
	// Counts are by the reason of a refusal, the sign of an attempted escape,
	// the ceiling.
	Counts    map[string]int64 `json:"counts,omitempty"`
	Calls     []Call           `json:"calls,omitempty"`     // the first of them
	Addresses []string         `json:"addresses,omitempty"` // that were not to be reached
}

type groupKey struct{ kind, caller string }

// groups are the events that wait, oldest group first. The lock is the hook's.
type groups struct {
	list []*Delivery
	by   map[groupKey]*Delivery
}

// add lets an event join its group. merged says that there was one.
func (g *groups) add(e Event) (merged bool) {
	if g.by == nil {
		g.by = map[groupKey]*Delivery{}
	}
	key := groupKey{e.Kind, e.Caller}
	d := g.by[key]
	if d == nil && len(g.list) >= maxGroups {
		key.caller, e.Caller, e.Team = "", "", ""
		d = g.by[key]
	}
	if d == nil {
		d = &Delivery{Version: 1, Event: e.Kind, Caller: e.Caller, Team: e.Team, First: e.At.UTC(), Last: e.At.UTC(), Counts: map[string]int64{}}
		g.list, g.by[key] = append(g.list, d), d
	} else {
		merged = true
	}
	d.join(&e)
	return merged
}

func (d *Delivery) join(e *Event) {
	d.Count++
	if at := e.At.UTC(); at.After(d.Last) {
		d.Last = at
	}
	for word, n := range e.Counts {
		if _, ok := d.Counts[word]; ok || len(d.Counts) < maxWords {
			d.Counts[word] += n
		}
	}
	if e.Call.ID != "" && len(d.Calls) < maxCalls {
		d.Calls = append(d.Calls, e.Call)
	}
	for _, addr := range e.Addresses {
		d.Addresses = join(d.Addresses, addr)
	}
}

// take takes the oldest group off; nil: there is none.
func (g *groups) take() *Delivery {
	if len(g.list) == 0 {
		return nil
	}
	d := g.list[0]
	g.list = g.list[1:]
	maps.DeleteFunc(g.by, func(_ groupKey, have *Delivery) bool { return have == d })
	return d
}

// count is how many events wait.
func (g *groups) count() (n int64) {
	for _, d := range g.list {
		n += d.Count
	}
	return n
}

// body is the delivery as it is sent. An error is a fault of ours.
func (d *Delivery) body() ([]byte, error) { return json.Marshal(d) }

// A rate lets n requests pass in any minute.
type rate struct {
	n    int
	past []time.Time
}

// take takes one, or says how long to wait for the next.
func (r *rate) take(now time.Time) (wait time.Duration) {
	r.past = slices.DeleteFunc(r.past, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(r.past) < r.n {
		r.past = append(r.past, now)
		return 0
	}
	return time.Minute - now.Sub(r.past[0])
}
