package anchor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// The bounds of an anchor's worker.
const (
	sendTime   = 10 * time.Second // of one try
	firstPause = time.Second      // after a failure; doubled each time
	longPause  = 5 * time.Minute
)

// Set hands checkpoints to anchors. Its methods may be called concurrently.
type Set struct {
	warn    func(string)
	workers []*worker
}

// Stat is how one anchor does.
type Stat struct {
	Name    string `json:"name"`
	Sent    int64  `json:"sent"`
	Failed  int64  `json:"failed"`            // tries
	Pending bool   `json:"pending,omitempty"` // a checkpoint waits for it
	// Since is when it began to wait, or the one before it whose place it took.
	Since time.Time `json:"since,omitzero"`
	Fault string    `json:"fault,omitempty"` // of the last try
}

// NewSet returns a Set. warn is told when an anchor fails, and when it works
// again, from the anchor's goroutine; nil: nobody is told.
func NewSet(anchors []Anchor, warn func(string)) *Set {
	if warn == nil {
		warn = func(string) {}
	}
	s := &Set{warn: warn}
	for _, a := range anchors {
		s.workers = append(s.workers, &worker{anchor: a, warn: warn, wake: make(chan struct{}, 1), quit: make(chan struct{})})
	}
	return s
}

// Publish hands a checkpoint on. It does not block; it takes the place of one
// that an anchor has not taken yet.
func (s *Set) Publish(c audit.Checkpoint) {
	line, err := json.Marshal(&c)
	if err != nil {
		s.warn("a checkpoint cannot be written: " + err.Error()) // cannot be: it came from one
		return
	}
	for _, w := range s.workers {
		w.put(line)
	}
}

// Stats returns how each anchor does.
func (s *Set) Stats() (list []Stat) {
	for _, w := range s.workers {
		w.mu.Lock()
		stat := w.stat
		stat.Name, stat.Pending = w.anchor.Name(), w.pending != nil
		w.mu.Unlock()
		list = append(list, stat)
	}
	return list
}

// Close tries once more what waits, until ctx ends, and stops. An error wraps
// ErrUndelivered for each anchor that has not taken the newest checkpoint; the
// next process's newest covers it.
func (s *Set) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.workers))
	for i, w := range s.workers {
		wg.Go(func() { errs[i] = w.close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// worker serves one anchor.
type worker struct {
	anchor Anchor
	warn   func(string)
	wake   chan struct{} // pending is set; holds one
	quit   chan struct{} // closed by close
	done   chan struct{} // closed when run has returned; nil: it was never started

	// mu guards what follows. It is not held while the anchor is called.
	mu      sync.Mutex
	pending []byte
	stat    Stat
	failing bool
	closed  bool
	cancel  context.CancelFunc // of run
}

func (w *worker) put(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.pending == nil {
		w.stat.Since = time.Now()
	}
	w.pending = line
	if w.done == nil {
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		w.done = make(chan struct{})
		go w.run(ctx)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sends what is pending, with pauses after failures, until close.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	pause := firstPause
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
		}
		for w.send(ctx) != nil {
			again := time.NewTimer(pause)
			select {
			case <-w.quit:
				again.Stop()
				return
			case <-again.C:
			}
			pause = min(2*pause, longPause)
		}
		pause = firstPause
	}
}

// send tries to send what is pending, if anything is.
func (w *worker) send(ctx context.Context) error {
	w.mu.Lock()
	line := w.pending
	w.mu.Unlock()
	if line == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := w.anchor.Send(ctx, line)
	if text := w.note(line, err); text != "" {
		w.warn(text)
	}
	return err
}

// note counts a try, and returns what is to be said of it.
func (w *worker) note(line []byte, err error) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.stat.Failed++
		w.stat.Fault = err.Error()
		if w.failing {
			return ""
		}
		w.failing = true
		return fmt.Sprintf("anchor %s does not take checkpoints, and is tried again: %v", w.anchor.Name(), err)
	}
	w.stat.Sent++
	w.stat.Fault = ""
	if &w.pending[0] == &line[0] { // no newer one has come
		w.pending, w.stat.Since = nil, time.Time{}
	} else {
		w.stat.Since = time.Now()
	}
	if !w.failing {
		return ""
	}
	w.failing = false
	return fmt.Sprintf("anchor %s takes checkpoints again, after %d tries that failed", w.anchor.Name(), w.stat.Failed)
}

// close stops the worker and tries once more what waits.
func (w *worker) close(ctx context.Context) error {
	w.mu.Lock()
	was := w.closed
	w.closed = true
	done, cancel := w.done, w.cancel
	w.mu.Unlock()
	if was || done == nil {
		return nil
	}
	close(w.quit)
	stop := context.AfterFunc(ctx, cancel) // of a try that is under way
	<-done
	err := w.send(ctx)
	stop()
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUndelivered, w.anchor.Name(), err)
	}
	return nil
}
