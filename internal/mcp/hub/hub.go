// Package hub has the sessions of the assistants that speak MCP with a daemon
// over HTTP. It says which session a request is for, and how many there are;
// package mcp says what is in one.
//
//	request of a key -> Serve -> the key's session, new or open -> mcp.Server
//
// A session is the key's that opened it: to any other it is not there, whoever
// knows its id. It ends when its client says so, when nothing of it is under way
// for Options.Idle, when its key is revoked, and with the hub. A key has a
// bounded number of them; where it opens more, the one that has been quiet for
// longest gives way, and where all are at work the new one is refused.
//
// Clients of the revision 2026-07-28 have no sessions. What is kept for them (the
// files that came out) hangs on the key, in a session without an id.
//
// No answer can be had twice, so that nobody is left who could have it when the
// request is gone: its call is cancelled.
package hub

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/mcp"
)

// The errors of Serve.
var (
	// ErrUnknown means that the key has no such session.
	ErrUnknown = errors.New("mcp: there is no such session")
	// ErrNone means that a request names no session and opens none.
	ErrNone = errors.New("mcp: the request names no session")
	// ErrFull means that there is no room for another session.
	ErrFull = errors.New("mcp: too many sessions")
	// ErrClosed means that the hub is closed.
	ErrClosed = errors.New("mcp: closed")
)

// Options bound a Hub. All must be there.
type Options struct {
	AtOnce int           // sessions, of all keys
	OfKey  int           // of one key
	Idle   time.Duration // without a request that is under way
	// While returns a context that ends when a key is no longer good.
	While func(ctx context.Context, key string) (context.Context, context.CancelFunc)
}

// A Hub is safe for concurrent use.
type Hub struct {
	o       Options
	ending  context.Context // ends with Close
	quiet   context.Context // ends with Drain: streams that only listen end with it
	end     context.CancelFunc
	silence context.CancelFunc
	closing sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the sessions' own
	closed bool
	by     map[string]*session
	of     map[string]int // sessions of each key
}

// New returns a Hub without sessions. Close ends it.
func New(o Options) *Hub {
	h := &Hub{o: o, by: map[string]*session{}, of: map[string]int{}}
	h.ending, h.end = context.WithCancel(context.Background())
	h.quiet, h.silence = context.WithCancel(h.ending)
	return h
}

// Owner is whose request it is.
type Owner struct {
	Key string // its id
	// Make makes the server of a session of the key; "" is the one of those
	// clients that have none.
	Make func(session string) (*mcp.Server, error)
}

// Serve answers a request of an owner's, with w or with an error. msg is what
// is in its body, which can be read once more; nil where it has none. It returns
// when the answer is whole, or the request's context has ended and with it the
// call that it made.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, o Owner, msg *mcp.Message) error {
	id := r.Header.Get(mcp.SessionHeader)
	switch {
	case msg != nil && r.Header.Get(mcp.RevisionHeader) >= mcp.Sessionless:
		return h.home(w, r, o, msg)
	case msg != nil && id == "" && msg.Method == "initialize":
		return h.open(w, r, o, msg)
	case id == "":
		return ErrNone
	}
	s, err := h.take(id, o.Key)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		h.release(s)
		h.drop(s)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer h.release(s)
	h.pass(w, r, s, msg)
	return nil
}

// Sessions is how many sessions there are.
func (h *Hub) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.by)
}

// Drain ends the streams on which a client only listens. Calls go on.
func (h *Hub) Drain() { h.silence() }

// Close ends every session, and returns when their last calls are destroyed and
// recorded.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end() // and with it each session
	h.closing.Wait()
}
