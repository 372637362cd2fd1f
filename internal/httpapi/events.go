package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// An eventWriter is where the events of an answer go, or the bytes of a file:
// each write has a bounded time, and after the end of ctx there are none. It has
// a header of its own up to the status, so that a handler may set it while we
// begin the answer.
type eventWriter struct {
	http.ResponseWriter
	a      *API
	ctx    context.Context
	secret string
	room   func(text ...[]byte) (leave func(), err error) // for each write; nil: who writes has it
	header http.Header                                    // the handler's

	mu    sync.Mutex // one write at a time; guards what follows
	sent  bool       // a status was
	begun bool       // something of a stream of events was written
	full  error      // there was no room for what was to be written
	wraps bool       // what is written is no event, and is made one

	end  sync.Mutex // guards over
	over bool       // the answer is another's to write
}

// events returns the writer of a request's events. They end with the client, and
// at once with the key or the secret that the request came with: ctx does too,
// and a write that waits for a client who does not read is given up. The function
// must be called, and ends what the writer does.
func (a *API) events(req *request) (w *eventWriter, ctx context.Context, stop func()) {
	secret, _ := bearer(req.r)
	ctx, cancel := a.Gateway.While(req.ctx(), req.key.ID, secret)
	w = &eventWriter{ResponseWriter: req.w, a: a, ctx: ctx, secret: secret, header: req.w.Header().Clone()}
	done := context.AfterFunc(ctx, func() {
		w.end.Lock()
		defer w.end.Unlock()
		if !w.over {
			_ = http.NewResponseController(req.w).SetWriteDeadline(time.Now()) // a recorder in tests has none
		}
	})
	return w, ctx, func() {
		w.end.Lock()
		w.over = true
		w.end.Unlock()
		done()
		cancel()
	}
}

// Unwrap is for http.ResponseController.
func (e *eventWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Header implements http.ResponseWriter.
func (e *eventWriter) Header() http.Header { return e.header }

// WriteHeader begins the answer, where there is to be one. What is no stream of
// events, and comes when one was begun for it, becomes an event of that.
func (e *eventWriter) WriteHeader(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sent {
		e.wraps = e.begun && status != http.StatusOK
		return
	}
	e.startLocked(status, e.header)
}

// startLocked sends the status and the header, unless ctx has ended. With what a
// key is good for ends all of it at once: where Identify has seen it, so has ctx.
func (e *eventWriter) startLocked(status int, header http.Header) {
	if _, good := e.a.Gateway.Identify(e.secret); !good || context.Cause(e.ctx) != nil {
		return
	}
	e.sent = true
	maps.Copy(e.ResponseWriter.Header(), header)
	e.a.writeBy(e.ResponseWriter)
	e.ResponseWriter.WriteHeader(status)
}

// started reports whether an answer was begun.
func (e *eventWriter) started() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent
}

// overfull returns why something was not written, if there was no room for it. An
// answer that was begun is broken off.
func (e *eventWriter) overfull() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.full != nil && e.sent {
		panic(http.ErrAbortHandler)
	}
	return e.full
}

// cutOff reports whether the key ended before anything of an answer was sent.
func (e *eventWriter) cutOff() bool {
	return !e.started() && errors.Is(context.Cause(e.ctx), gateway.ErrRevoked)
}

// Write writes the whole of an event, or what is no event.
func (e *eventWriter) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.room != nil {
		leave, err := e.room(p)
		if err != nil {
			e.full = err
			return 0, err
		}
		defer leave()
	}
	if !e.sent {
		e.startLocked(http.StatusOK, e.header)
	}
	e.begun = e.begun || e.header.Get("Content-Type") == eventStream
	if !e.wraps {
		return e.writeLocked(p)
	}
	if _, err := e.writeLocked(fmt.Appendf(nil, "event: message\ndata: %s\n\n", bytes.TrimSpace(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError is for http.ResponseController.
func (e *eventWriter) FlushError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.sent {
		e.startLocked(http.StatusOK, e.header)
	}
	if err := context.Cause(e.ctx); err != nil {
		return err
	}
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
// who has gone is noticed, and no proxy takes the stream for dead. Where the
// answer will be a stream, the first beat begins it.
func (e *eventWriter) beat(stream bool) {
	beat := time.NewTicker(e.a.beat)
	defer beat.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-beat.C:
			e.beatOnce(stream)
		}
	}
}

func (e *eventWriter) beatOnce(stream bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stream && !e.sent {
		e.begun = true
		e.startLocked(http.StatusOK, http.Header{"Content-Type": {eventStream}, "X-Accel-Buffering": {"no"}})
	}
	if e.begun {
		_, _ = e.writeLocked([]byte(": \n\n")) // the server notices
		_ = http.NewResponseController(e.ResponseWriter).Flush()
	}
}

const eventStream = "text/event-stream"
