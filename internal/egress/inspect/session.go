package inspect

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
	"github.com/callcell/callcell/internal/render"
)

// session is one connection while it is served.
type session struct {
	o      Options
	client *touched     // the program's connection, below TLS
	strict *strict.Conn // above TLS; nil where HTTP/2 is spoken

	work  context.Context // of everything towards the origin
	abort context.CancelFunc
	slots chan struct{} // one for each connection to the origin

	start                    time.Time
	last                     atomic.Int64 // when the last byte passed, nanoseconds since start
	heads                    atomic.Int64 // of HTTP/1, that net/http read
	requests, sent, received atomic.Int64
	bare                     atomic.Int64 // of requests

	running sync.WaitGroup // handlers and dials

	mu      sync.Mutex // guards what follows
	sealed  bool       // no request and no connection begins any more
	ended   bool
	open    int // requests under way
	owed    int // of those, whose answer has not all come
	cut     *refusal
	refused int64
	why     string // of the first refusal that did not cut
	failure string
	origins map[*counted]struct{}
	idle    *time.Timer
	timers  []*time.Timer // the others
}

func newSession(ctx context.Context, conn net.Conn, o Options) *session {
	s := &session{o: o.withDefaults(), start: time.Now(), slots: make(chan struct{}, maxConns), origins: map[*counted]struct{}{}}
	s.client = &touched{Conn: conn, s: s}
	s.work, s.abort = context.WithCancel(context.WithoutCancel(ctx)) // callEnded looks first what is under way
	return s
}

// watch starts the deadlines.
func (s *session) watch() {
	s.after(s.o.Total, func() {
		s.stop(&refusal{504, failed, fmt.Sprintf("the connection lasted %v, which is as long as it may", s.o.Total)})
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = time.AfterFunc(s.o.Idle, s.quiet)
}

// after runs f later, unless the session has ended.
func (s *session) after(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.timers = append(s.timers, time.AfterFunc(d, f))
	}
}

func (s *session) touch() { s.last.Store(int64(time.Since(s.start))) }

// quiet ends a connection on which nothing moves. Between requests that is
// how a connection ends; with one under way it is a cut.
func (s *session) quiet() {
	s.mu.Lock()
	left := s.o.Idle - (time.Since(s.start) - time.Duration(s.last.Load()))
	again, open := left > 0 && !s.ended, s.open
	if again {
		s.idle.Reset(left)
	}
	s.mu.Unlock()
	if again {
		return
	}
	if open == 0 {
		_ = s.client.Close()
		return
	}
	s.stop(&refusal{504, failed, fmt.Sprintf("no byte passed for %v", s.o.Idle)})
}

// stop cuts the connection: what is under way is broken off, and answered with
// the reason where it has no answer yet. The first reason counts.
func (s *session) stop(r *refusal) {
	s.mu.Lock()
	first := s.cut == nil
	if first {
		s.cut = r
	}
	s.mu.Unlock()
	if first {
		s.abort()
		s.after(parting, func() { _ = s.client.Close() })
	}
}

// stopped returns why the connection is cut, nil where it is not.
func (s *session) stopped() *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// fail notes that the origin, or TLS, failed.
func (s *session) fail(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == "" {
		s.failure = why
	}
}

// refuse notes that a request was refused.
func (s *session) refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	if s.why == "" {
		s.why = why
	}
}

// underway is a request that is.
type underway struct {
	s     *session
	whole bool // all of its answer has come; guarded by s.mu
}

// enter begins a request; nil where the session has ended.
func (s *session) enter() *underway {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil
	}
	s.open++
	s.owed++
	s.running.Add(1)
	s.touch()
	return &underway{s: s}
}

// answered notes that all of the answer has come. A program that has heard it may
// have ended, and its call with it, before the request is left.
func (u *underway) answered() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if !u.whole {
		u.whole = true
		u.s.owed--
	}
}

func (u *underway) leave() {
	u.answered() // or it will not come
	u.s.mu.Lock()
	u.s.open--
	u.s.mu.Unlock()
	u.s.touch()
	u.s.running.Done()
}

// count tells of bytes, and cuts where a cap is reached.
func (s *session) count(sent, received int64) error {
	if s.o.Count == nil {
		return nil
	}
	if err := s.o.Count(sent, received); err != nil {
		s.stop(deny(403, "%s", render.Line(err.Error(), maxWhy)))
		return err
	}
	return nil
}

// dial makes a connection to the origin. ctx is the transport's own.
func (s *session) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	if s.sealed {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.work, cancel)()
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := s.o.Dial(ctx)
	if err != nil {
		<-s.slots
		return nil, err
	}
	return s.adopt(conn)
}

func (s *session) adopt(conn net.Conn) (net.Conn, error) {
	c := &counted{Conn: conn, s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		<-s.slots
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	s.origins[c] = struct{}{}
	s.touch()
	return c, nil
}

func (s *session) forget(c *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.origins, c)
	<-s.slots
}

// wait lets nothing begin any more, and waits for what runs.
func (s *session) wait() {
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	s.running.Wait()
}

// end closes everything, waits for what runs, and sums up.
func (s *session) end() Outcome {
	s.abort()
	_ = s.client.Close()
	s.mu.Lock()
	s.ended, s.sealed = true, true
	for _, t := range append(s.timers, s.idle) {
		t.Stop()
	}
	var origins []*counted
	for c := range s.origins {
		origins = append(origins, c)
	}
	s.mu.Unlock()
	for _, c := range origins {
		_ = c.Close()
	}
	s.running.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	out := Outcome{Requests: s.requests.Load(), Bare: s.bare.Load(), Refused: s.refused, Sent: s.sent.Load(), Received: s.received.Load(), Why: s.why, Failed: s.failure}
	if s.cut != nil {
		out.Cut, out.Late, out.Why = true, s.cut.word == failed && s.refused == 0, s.cut.why
	}
	return out
}
