package audit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultChain is the chain that all processes of one store share.
const DefaultChain = "local"

// DefaultTTL is how long a lease is valid without being renewed.
const DefaultTTL = 10 * time.Second

// minTTL keeps a lease well above the time that a busy disk takes to renew it.
const minTTL = time.Second

// Options are the settings of a Log. The zero value is ready to use.
type Options struct {
	Chain string        // "": DefaultChain
	TTL   time.Duration // of the lease; 0: DefaultTTL; at least a second
	// Arguments is what is kept of a call's arguments; 0: ArgumentsKept.
	Arguments ArgumentMode
	// Keep caps what ArgumentsKept keeps of argv or of a script, in bytes:
	// 0 is DefaultKeep, the most is MaxKeep. An element of argv counts 8
	// bytes more than it has.
	Keep int
	// Redact takes known secrets out of a text: of kept arguments, messages,
	// reasons, names of files. It must be safe for concurrent use. nil: texts
	// are kept as they are. Digests are of what was given, not of what is kept.
	Redact func(string) string
	Clock  Clock // nil: SystemClock
	// Failed is told what the background work of a Log could not do (renewing
	// its lease, writing an ending again, completing lost calls), which it
	// tries again. It is called from one goroutine. nil: nobody is told.
	Failed func(error)
}

// Log writes and reads the events of one chain. Its methods may be called
// concurrently. Several Logs, in several processes, may share a store and a
// chain.
type Log struct {
	store  Store
	chain  string
	ttl    time.Duration
	mode   ArgumentMode
	keep   int
	redact func(string) string
	clock  Clock
	failed func(error)

	// mu guards what follows. It is not held while the store is called.
	mu       sync.Mutex
	instance string              // of the present lease, or of the next
	granted  bool                // whether a lease was written for it
	open     map[string]struct{} // calls that this process has intended and not ended
	waiting  map[string]waiting  // endings that could not be written
	size     int                 // bytes of waiting
	stop     context.CancelFunc  // of keepAlive, nil: it was never started
	done     chan struct{}       // closed when keepAlive has returned
	closed   bool
}

// New returns a Log over store. It writes nothing: the lease is granted with
// the first intent. An error wraps ErrInvalid.
func New(store Store, o Options) (*Log, error) {
	l := &Log{
		store: store, chain: o.Chain, ttl: o.TTL, mode: o.Arguments, keep: o.Keep,
		redact: o.Redact, clock: o.Clock, failed: o.Failed,
		open: map[string]struct{}{}, waiting: map[string]waiting{},
	}
	l.defaults()
	switch {
	case !isWord(l.chain):
		return nil, fmt.Errorf("%w: chain %.40q: want 1 to %d bytes of UTF-8", ErrInvalid, l.chain, maxWord)
	case l.ttl < minTTL:
		return nil, fmt.Errorf("%w: lease of %v: want at least %v", ErrInvalid, l.ttl, minTTL)
	case l.mode > ArgumentsDropped:
		return nil, fmt.Errorf("%w: argument mode %d", ErrInvalid, l.mode)
	case l.keep < 0 || l.keep > MaxKeep:
		return nil, fmt.Errorf("%w: keep %d bytes of arguments: want 0 to %d", ErrInvalid, l.keep, MaxKeep)
	}
	l.instance = NewID(l.now())
	return l, nil
}

func (l *Log) defaults() {
	if l.chain == "" {
		l.chain = DefaultChain
	}
	if l.ttl == 0 {
		l.ttl = DefaultTTL
	}
	if l.mode == 0 {
		l.mode = ArgumentsKept
	}
	if l.keep == 0 {
		l.keep = DefaultKeep
	}
	if l.clock == nil {
		l.clock = SystemClock()
	}
	if l.redact == nil {
		l.redact = func(s string) string { return s }
	}
	if l.failed == nil {
		l.failed = func(error) {}
	}
}

// NewID returns a new id for a call.
func (l *Log) NewID() string { return NewID(l.now()) }

// now is the clock's time as it is stored: UTC, without a monotonic reading.
func (l *Log) now() time.Time { return l.clock.Now().UTC().Round(0) }

// Close stops the background work and writes the endings that wait, once
// more. Calls that are still open stay so until their lease ends and somebody
// completes them as lost. Close does not close the store. It may be called
// more than once; later calls do nothing.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	was, stop := l.closed, l.stop
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	if stop != nil {
		stop()
		<-l.done
	}
	return l.flush(ctx)
}
