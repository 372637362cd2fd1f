package gateway

import (
	"sort"
	"time"
)

// span is the time over which a rate holds.
const span = time.Minute

// A window lets through at most limit takes in any span: a sliding log. It
// remembers the last limit times, so it is exact and bounded.
type window struct {
	limit int
	ring  []int64 // times, oldest at next once it is full; never longer than limit
	next  int
}

// take notes a take at a time, in nanoseconds from any fixed point, or says
// after what time there is room. Time does not go back; where it seems to, the
// log is as strict as at the latest time it has seen.
func (w *window) take(now int64) (after time.Duration, ok bool) {
	if after = w.after(now); after > 0 {
		return after, false
	}
	if n := len(w.ring); n > 0 {
		now = max(now, w.at(n-1)) // so that the times are in order
	}
	if len(w.ring) < w.limit {
		w.ring = append(w.ring, now)
		return 0, true
	}
	w.ring[w.next] = now
	w.next = (w.next + 1) % len(w.ring)
	return 0, true
}

// after returns how long there is no room; 0: there is.
func (w *window) after(now int64) time.Duration {
	if len(w.ring) < w.limit {
		return 0
	}
	if w.limit == 0 {
		return span
	}
	return max(time.Duration(w.ring[w.next]-now)+span, 0)
}

// used returns how many takes of the last span there were, and when the oldest
// of them leaves it.
func (w *window) used(now int64) (n int, reset time.Duration) {
	all := len(w.ring)
	first := sort.Search(all, func(i int) bool { return w.at(i)-now+int64(span) > 0 })
	if first == all {
		return 0, 0
	}
	return all - first, time.Duration(w.at(first)-now) + span
}

// at returns the i-th time that is remembered, oldest first.
func (w *window) at(i int) int64 { return w.ring[(w.next+i)%len(w.ring)] }

// resize changes the limit and keeps the latest takes.
func (w *window) resize(limit int) {
	if limit == w.limit {
		return
	}
	ordered := append(append([]int64{}, w.ring[w.next:]...), w.ring[:w.next]...)
	if over := len(ordered) - limit; over > 0 {
		ordered = ordered[over:]
	}
	w.limit, w.ring, w.next = limit, ordered, 0
}

// idle reports whether no take of the last span is remembered.
func (w *window) idle(now int64) bool {
	n, _ := w.used(now)
	return n == 0
}
