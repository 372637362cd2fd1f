package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/callcell/callcell/internal/mcp"
)

// A session is one of a key's.
type session struct {
	id, key string
	server  *mcp.Server
	handler http.Handler
	made    chan struct{} // closed when server and handler are there, or never will be
	over    context.CancelFunc

	// What follows is guarded by Hub.mu.
	busy  int       // requests under way
	last  time.Time // when the last one ended
	idle  *time.Timer
	ended bool
}

// homeID is the id of the session of a key's clients that have none. No client
// can name it: a blank is in no id.
func homeID(key string) string { return "home " + key }

// home passes a message on that is of no session.
func (h *Hub) home(w http.ResponseWriter, r *http.Request, o Owner, msg *mcp.Message) error {
	s, err := h.take(homeID(o.Key), o.Key)
	if err != nil {
		s, err = h.begin(o, homeID(o.Key), "")
	}
	if err != nil {
		return err
	}
	defer h.release(s)
	h.pass(w, r, s, msg)
	return nil
}

// open begins a session with its first message.
func (h *Hub) open(w http.ResponseWriter, r *http.Request, o Owner, msg *mcp.Message) error {
	id := rand.Text()
	s, err := h.begin(o, id, id)
	if err != nil {
		return err
	}
	h.pass(w, r, s, msg)
	h.release(s)
	if !s.server.Open() { // it was no good beginning
		h.drop(s)
	}
	return nil
}

// begin makes a session, taken. Where another request made it meanwhile, it is
// that one.
func (h *Hub) begin(o Owner, id, name string) (*session, error) {
	s, mine, err := h.reserve(o.Key, id)
	switch {
	case err != nil:
		return nil, err
	case !mine:
		return h.ready(s)
	}
	server, err := o.Make(name)
	if err != nil {
		close(s.made)
		h.release(s)
		h.drop(s)
		return nil, err
	}
	s.server, s.handler = server, server.Handler()
	close(s.made)
	return s, nil
}

// reserve takes a place for a session, and says whether it is new.
func (h *Hub) reserve(key, id string) (s *session, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.by[id]; s != nil {
		h.takeLocked(s)
		return s, false, nil
	}
	switch {
	case h.closed:
		return nil, false, ErrClosed
	case h.of[key] >= h.o.OfKey || len(h.by) >= h.o.AtOnce:
		if !h.makeRoomLocked(key) {
			return nil, false, ErrFull
		}
	}
	s = &session{id: id, key: key, made: make(chan struct{})}
	ctx, over := h.o.While(h.ending, key)
	s.over = over
	h.by[id] = s
	h.of[key]++
	h.takeLocked(s)
	h.closing.Add(1) // until it is closed
	context.AfterFunc(ctx, func() { h.drop(s) })
	return s, true, nil
}

// makeRoomLocked ends the session of a key that has been quiet for longest.
func (h *Hub) makeRoomLocked(key string) bool {
	var quiet *session
	for _, s := range h.by {
		if s.key == key && s.busy == 0 && (quiet == nil || s.last.Before(quiet.last)) {
			quiet = s
		}
	}
	if quiet == nil {
		return false
	}
	h.dropLocked(quiet)
	return true
}

// take returns a session of a key's for a request.
func (h *Hub) take(id, key string) (*session, error) {
	h.mu.Lock()
	s := h.by[id]
	if s == nil || s.key != key {
		h.mu.Unlock()
		return nil, ErrUnknown
	}
	h.takeLocked(s)
	h.mu.Unlock()
	return h.ready(s)
}

// ready waits until a session that was taken is made.
func (h *Hub) ready(s *session) (*session, error) {
	if <-s.made; s.server == nil {
		h.release(s)
		return nil, ErrUnknown
	}
	return s, nil
}

func (h *Hub) takeLocked(s *session) {
	s.busy++
	if s.idle != nil {
		s.idle.Stop()
	}
}

// release notes that a request is over. Who is quiet for long enough is ended.
func (h *Hub) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy--
	s.last = time.Now()
	if s.busy > 0 || s.ended {
		return
	}
	s.idle = time.AfterFunc(h.o.Idle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.busy == 0 {
			h.dropLocked(s)
		}
	})
}

// drop ends a session, if it has not ended.
func (h *Hub) drop(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(s)
}

func (h *Hub) dropLocked(s *session) {
	if s.ended {
		return
	}
	s.ended = true
	if s.idle != nil {
		s.idle.Stop()
	}
	delete(h.by, s.id)
	if h.of[s.key]--; h.of[s.key] == 0 {
		delete(h.of, s.key)
	}
	go func() {
		defer h.closing.Done()
		s.over()
		if <-s.made; s.server != nil {
			s.server.Close()
		}
	}()
}

// pass passes a request on to its session. Where the client has gone before its
// answer, the session is told what it would have told.
func (h *Hub) pass(w http.ResponseWriter, r *http.Request, s *session, msg *mcp.Message) {
	if msg == nil || msg.Method == "subscriptions/listen" { // who only listens
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.quiet, cancel)()
		r = r.WithContext(ctx)
	}
	s.handler.ServeHTTP(w, r)
	if msg == nil || msg.ID == nil || msg.Method == "initialize" || r.Context().Err() == nil || s.id == homeID(s.key) {
		return // of a message without a session the end of its request is the word
	}
	cancel, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodPost, r.URL.Path, bytes.NewReader(msg.Cancels()))
	if err != nil {
		return // of an address that was there a moment ago: cannot be
	}
	for _, name := range []string{"Content-Type", "Accept", mcp.SessionHeader, mcp.RevisionHeader} {
		cancel.Header[name] = r.Header[name]
	}
	s.handler.ServeHTTP(&nobody{}, cancel)
}

// nobody is where an answer goes that nobody waits for.
type nobody struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n *nobody) Header() http.Header {
	if n.header == nil {
		n.header = http.Header{}
	}
	return n.header
}

// Write implements http.ResponseWriter.
func (*nobody) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (*nobody) WriteHeader(int) {}
