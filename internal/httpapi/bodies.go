package httpapi

import "sync"

// What is held of bodies at once, in bodies of the size that one may have:
// whoever sends one slowly, or waits with it for a turn, holds its memory.
const (
	bodiesOfKey = 8
	bodiesOfAll = 32
)

// bodies counts what is held.
type bodies struct {
	mu  sync.Mutex // guards what follows
	all int64
	of  map[string]int64 // by key
}

// enter takes room for a body, where one has at most most bytes. leave gives it
// back; it is nil where there is none.
func (b *bodies) enter(key string, size, most int64) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size > bodiesOfAll*most-b.all || size > bodiesOfKey*most-b.of[key] {
		return nil
	}
	b.all += size
	b.of[key] += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all -= size
		if b.of[key] -= size; b.of[key] == 0 {
			delete(b.of, key)
		}
	}
}

// hold takes room for the body of a request, until it is answered. One that does
// not say how large it is has as much as it may have.
func (a *API) hold(e *endpoint, req *request) (leave func(), err error) {
	most := int64(a.Serve.Body)
	size := req.r.ContentLength
	switch {
	case e.in == nil: // it is not read
		return func() {}, nil
	case size < 0 || size > most:
		size = most
	}
	if leave = a.bodies.enter(req.key.ID, size, most); leave != nil {
		return leave, nil
	}
	p := problem("capacity", "requests with more bytes than there is room for are under way", "wait until some are answered; say how large a body is, in Content-Length")
	p.Retry = true
	return nil, p
}
