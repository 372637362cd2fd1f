package httpapi

import (
	"context"
	"slices"
	"sync"
)

// A line is where answers are made whose making takes several times their bytes:
// one of a key at a time, and together no more bytes than there are; one alone may
// have more. Who comes waits: to make one takes no longer than it computes. Who
// came first goes first, but for those whose key is at work.
type line struct {
	most int64 // bytes

	mu      sync.Mutex // guards what follows
	used    int64
	busy    map[string]bool // keys at work
	waiting []*inLine
}

// inLine is who waits.
type inLine struct {
	key  string
	size int64
	in   chan struct{} // closed when he is let in
}

func newLine(most int64) *line { return &line{most: most, busy: map[string]bool{}} }

// enter waits for a turn to make an answer that takes size bytes meanwhile. leave
// gives it up, and may be called more than once. An error is the context's.
func (l *line) enter(ctx context.Context, key string, size int64) (leave func(), err error) {
	w := &inLine{key, size, make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.serveLocked()
	l.mu.Unlock()
	leave = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.waiting, w); i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		} else {
			l.used -= size
			delete(l.busy, key)
		}
		l.serveLocked()
	})
	select {
	case <-w.in:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// serveLocked lets in whoever can be. A large one that waits for room is not
// overtaken by small ones.
func (l *line) serveLocked() {
	for i := 0; i < len(l.waiting); {
		w := l.waiting[i]
		switch {
		case l.busy[w.key]:
			i++
			continue
		case l.used > 0 && w.size > l.most-l.used:
			return
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.used += w.size
		l.busy[w.key] = true
		close(w.in)
	}
}
