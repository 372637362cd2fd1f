package httpapi

import "sync"

// A turn is that of a call whose result is held here: by who runs the call, by who
// answers with it, or by both. It is over when none of them holds it, and what is
// left of the call is counted otherwise or is nothing. It is safe for concurrent use.
type turn struct {
	mu    sync.Mutex // guards what follows
	held  int        // by so many
	leave func()     // nil: the call is not settled yet, or never had a turn
}

// newTurn returns a turn that so many hold.
func newTurn(held int) *turn { return &turn{held: held} }

// take is broker.Live.Turn.
func (t *turn) take(leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leave = leave; t.held == 0 {
		leave()
	}
}

// drop is said by each that holds it, once.
func (t *turn) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held > 0 {
		t.held--
		t.endLocked()
	}
}

// end ends it for all: what they hold is small.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = 0
	t.endLocked()
}

func (t *turn) endLocked() {
	if t.held == 0 && t.leave != nil {
		t.leave()
	}
}
