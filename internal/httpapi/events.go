package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// An eventWriter is where the events of an answer go: each write has a bounded
// time, and after the end of ctx there are none.
type eventWriter struct {
	http.ResponseWriter
	a   *API
	ctx context.Context

	mu    sync.Mutex // one write at a time
	begun bool       // something of a stream of events was written
}

// events returns the writer of a request's events. They end with the client, and
// at once with the key or the secret that the request came with: ctx does too,
// and a write that waits for a client who does not read is given up. The function
// must be called.
func (a *API) events(req *request) (w *eventWriter, ctx context.Context, stop func()) {
	secret, _ := bearer(req.r)
	ctx, cancel := a.Gateway.While(req.ctx(), req.key.ID, secret)
	w = &eventWriter{ResponseWriter: req.w, a: a, ctx: ctx}
	done := context.AfterFunc(ctx, func() {
		_ = http.NewResponseController(req.w).SetWriteDeadline(time.Now()) // a recorder in tests has none
	})
	return w, ctx, func() {
		done()
		cancel()
	}
}

// Unwrap is for http.ResponseController.
func (e *eventWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Write writes the whole of an event, or what is no event.
func (e *eventWriter) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = e.begun || e.Header().Get("Content-Type") == eventStream
	return e.writeLocked(p)
}

// FlushError is for http.ResponseController.
func (e *eventWriter) FlushError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

func (e *eventWriter) writeLocked(p []byte) (int, error) {
	e.a.writeBy(e.ResponseWriter)
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	return e.ResponseWriter.Write(p)
}

// beat writes something that is no event from time to time, so that a client
// who has gone is noticed, and no proxy takes the stream for dead.
func (e *eventWriter) beat() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-beat.C:
			e.mu.Lock()
			if e.begun {
				_, _ = e.writeLocked([]byte(": \n\n")) // the server notices
				_ = http.NewResponseController(e.ResponseWriter).Flush()
			}
			e.mu.Unlock()
		}
	}
}

const eventStream = "text/event-stream"
