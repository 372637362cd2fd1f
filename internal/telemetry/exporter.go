package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/outward"
	"github.com/callcell/callcell/internal/trace"
)

// The bounds of the worker.
const (
	batchSpans = 512             // of one request
	batchWait  = 2 * time.Second // for more to come
	sendTime   = 10 * time.Second
	tries      = 6
	firstPause = time.Second // after a failure; doubled each time
	longPause  = 10 * time.Second
)

// ErrUndelivered means that an Exporter was closed with traces that the
// collector has not taken.
var ErrUndelivered = errors.New("telemetry: undelivered")

// Sender sends one request; *outward.Client is one. It is called by one
// goroutine.
type Sender interface {
	Name() string
	Post(ctx context.Context, header http.Header, body []byte) error
}

// Options say what an Exporter is made of. Sender must be there.
type Options struct {
	Sender   Sender
	Resource Resource
	// Header returns what is sent along, each time: a secret may be another one
	// by then. nil: nothing.
	Header  func(ctx context.Context) (http.Header, error)
	Sample  int  // of a hundred calls
	Parents bool // a caller's traceparent decides for his call
	Queue   int  // traces that wait
	// Say is told that the collector fails, and that it works again. nil:
	// nobody is.
	Say func(string)
}

// Exporter sends traces. Its methods may be called concurrently.
type Exporter struct {
	o     Options
	queue chan trace.Trace
	quit  chan struct{}

	mu      sync.Mutex // guards what follows
	stats   Stats
	failing bool
	closed  bool
	done    chan struct{} // closed when run has returned; nil: it was never started
	cancel  context.CancelFunc
}

// Stats is how an exporter does.
type Stats struct {
	Sent    int64 // spans that the collector has taken
	Dropped int64 // traces for which there was no room, or that it did not take
	Failed  int64 // requests
	Waiting int   // traces in the queue
	Fault   string
}

// New returns an Exporter. Its goroutine starts with the first trace.
func New(o Options) *Exporter {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Header == nil {
		o.Header = func(context.Context) (http.Header, error) { return nil, nil }
	}
	return &Exporter{o: o, queue: make(chan trace.Trace, max(o.Queue, 1)), quit: make(chan struct{})}
}

// Put implements trace.Sink.
func (e *Exporter) Put(t trace.Trace) {
	if !e.sampled(&t) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.stats.Dropped++
		return
	}
	e.startLocked()
	select {
	case e.queue <- t:
	default:
		e.stats.Dropped++
	}
}

func (e *Exporter) startLocked() {
	if e.done != nil {
		return
	}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	e.done = make(chan struct{})
	go e.run(ctx)
}

// sampled decides about a trace by its id, of which the last 56 bits are random
// (W3C Trace Context, level 2): every process that sees it decides alike.
func (e *Exporter) sampled(t *trace.Trace) bool {
	id := idOf(t)
	switch {
	case id == (trace.ID{}):
		return false
	case t.Parent.Trace != (trace.ID{}) && e.o.Parents:
		return t.Parent.Sampled
	}
	const all = 1 << 56
	return e.o.Sample >= 100 || binary.BigEndian.Uint64(id[8:])%all < all/100*uint64(max(e.o.Sample, 0))
}

// Stats returns how it does.
func (e *Exporter) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting = len(e.queue)
	return s
}

// run sends what comes, until Close.
func (e *Exporter) run(ctx context.Context) {
	defer close(e.done)
	for {
		batch := e.gather()
		if len(batch) == 0 {
			return
		}
		e.deliver(ctx, batch)
	}
}

// gather returns a batch: what comes within a time of the first, or all that is
// there when it is over. None means that it is over.
func (e *Exporter) gather() (batch []trace.Trace) {
	select {
	case t := <-e.queue:
		batch = append(batch, t)
	case <-e.quit:
		return e.rest(nil)
	}
	wait := time.NewTimer(batchWait)
	defer wait.Stop()
	for spans := len(batch[0].Spans); spans < batchSpans; {
		select {
		case t := <-e.queue:
			batch = append(batch, t)
			spans += len(t.Spans)
		case <-wait.C:
			return batch
		case <-e.quit:
			return e.rest(batch)
		}
	}
	return batch
}

// rest takes along what is there.
func (e *Exporter) rest(batch []trace.Trace) []trace.Trace {
	for spans := 0; spans < batchSpans; {
		select {
		case t := <-e.queue:
			batch = append(batch, t)
			spans += len(t.Spans)
		default:
			return batch
		}
	}
	return batch
}

// deliver sends a batch, with pauses after failures. When it is over there is
// one try more and no pause.
func (e *Exporter) deliver(ctx context.Context, batch []trace.Trace) {
	body := Encode(e.o.Resource, batch)
	pause := firstPause
	for try := 1; ; try++ {
		err := e.send(ctx, body)
		e.note(batch, err)
		if err == nil {
			return
		}
		var status *outward.StatusError
		refused := errors.As(err, &status)
		if try >= tries || refused && !status.Retry() || ctx.Err() != nil || !e.rests(spread(pause), status) {
			e.drop(len(batch))
			return
		}
		pause = min(2*pause, longPause)
	}
}

// spread is a pause of half to one and a half times d: many hosts that lost one
// collector do not come back at once.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// rests waits, as long as the collector asks for where it does, and reports
// whether there is to be another try.
func (e *Exporter) rests(d time.Duration, status *outward.StatusError) bool {
	if status != nil {
		d = max(d, min(status.After, time.Minute))
	}
	again := time.NewTimer(d)
	defer again.Stop()
	select {
	case <-again.C:
		return true
	case <-e.quit:
		return false
	}
}

func (e *Exporter) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	header, err := e.o.Header(ctx)
	if err != nil {
		return fmt.Errorf("its headers: %w", err)
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/x-protobuf")
	return e.o.Sender.Post(ctx, header, body)
}

// note counts a request, and says what is to be said of it.
func (e *Exporter) note(batch []trace.Trace, err error) {
	if text := e.counted(batch, err); text != "" {
		e.o.Say(text)
	}
}

func (e *Exporter) counted(batch []trace.Trace, err error) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.failing
	if err != nil {
		e.stats.Failed++
		e.stats.Fault, e.failing = err.Error(), true
		if was {
			return ""
		}
		return fmt.Sprintf("the collector %s does not take traces: %v", e.o.Sender.Name(), err)
	}
	for i := range batch {
		e.stats.Sent += int64(len(batch[i].Spans))
	}
	e.stats.Fault, e.failing = "", false
	if !was {
		return ""
	}
	return fmt.Sprintf("the collector %s takes traces again; %d were dropped meanwhile and before", e.o.Sender.Name(), e.stats.Dropped)
}

func (e *Exporter) drop(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Dropped += int64(n)
}

// Close sends what waits, until ctx ends, and stops. An error wraps
// ErrUndelivered.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	was, done, cancel, before := e.closed, e.done, e.cancel, e.stats.Dropped
	e.closed = true
	e.mu.Unlock()
	if was || done == nil {
		return nil
	}
	close(e.quit)
	defer context.AfterFunc(ctx, cancel)() // of a try that is under way
	<-done
	cancel()
	if left := e.Stats().Dropped - before; left > 0 {
		return fmt.Errorf("%w: %s: %d traces", ErrUndelivered, e.o.Sender.Name(), left)
	}
	return nil
}
