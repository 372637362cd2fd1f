package mcp

import "sync"

// A Room bounds the bytes of the files that several sessions keep, together; a
// nil one bounds nothing. It is safe for concurrent use.
type Room struct {
	most  int64
	above *Room

	mu   sync.Mutex // guards used
	used int64
}

// NewRoom returns a room for so many bytes, within another one: nil is none.
func NewRoom(most int64, within *Room) *Room { return &Room{most: most, above: within} }

// Used is how many bytes are taken.
func (r *Room) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// take takes n bytes, here and above, or none at all.
func (r *Room) take(n int64) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.most-r.used || !r.above.take(n) {
		return false
	}
	r.used += n
	return true
}

// give gives back what was taken.
func (r *Room) give(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	r.above.give(n)
}
