package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callcell/callcell/internal/systime"
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
	Clock  Clock // nil: this host's
	// Signer signs receipts and checkpoints. nil: nothing is signed, and there
	// are no checkpoints.
	Signer Signer
	// CheckpointEvents and CheckpointEvery say when a checkpoint is due: after
	// so many events, or so long after the last one. 0: DefaultCheckpointEvents
	// and DefaultCheckpointEvery.
	CheckpointEvents int64
	CheckpointEvery  time.Duration
	// Publish is handed every checkpoint that this Log has written, for an
	// anchor off the host. It must not block. nil: it is nobody's.
	Publish func(Checkpoint)
	// Window is how long what Count is told is gathered for one event; 0:
	// DefaultWindow.
	Window time.Duration
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

	signer  Signer
	events  int64 // between checkpoints
	every   time.Duration
	publish func(Checkpoint)
	window  time.Duration
	nudge   chan struct{} // a checkpoint is due before its time; holds one
	added   atomic.Int64  // events that this Log has appended

	// mu guards what follows. It is not held while the store is called.
	mu       sync.Mutex
	instance string             // of the present lease, or of the next
	granted  bool               // whether a lease was written for it
	open     map[string]int64   // calls that this process has intended and not ended, and their intents
	waiting  map[string]waiting // endings that could not be written
	size     int                // bytes of waiting
	counts   map[countKey]int64 // since counted
	counted  time.Time
	stop     context.CancelFunc // of keepAlive, nil: it was never started
	done     chan struct{}      // closed when keepAlive has returned
	closed   bool
}

// New returns a Log over store. It writes nothing: the lease is granted with
// the first intent. An error wraps ErrInvalid.
func New(store Store, o Options) (*Log, error) {
	l := &Log{
		store: store, chain: o.Chain, ttl: o.TTL, mode: o.Arguments, keep: o.Keep,
		redact: o.Redact, clock: o.Clock, failed: o.Failed,
		signer: o.Signer, events: o.CheckpointEvents, every: o.CheckpointEvery, publish: o.Publish, window: o.Window,
		nudge: make(chan struct{}, 1),
		open:  map[string]int64{}, waiting: map[string]waiting{}, counts: map[countKey]int64{},
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
	case l.events < 0 || l.every < 0 || l.window < 0:
		return nil, fmt.Errorf("%w: a checkpoint every %d events or %v, counters every %v", ErrInvalid, l.events, l.every, l.window)
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
		l.clock = systime.Clock{}
	}
	if l.redact == nil {
		l.redact = func(s string) string { return s }
	}
	if l.failed == nil {
		l.failed = func(error) {}
	}
	if l.publish == nil {
		l.publish = func(Checkpoint) {}
	}
	l.events = cmp.Or(l.events, DefaultCheckpointEvents)
	l.every = cmp.Or(l.every, DefaultCheckpointEvery)
	l.window = cmp.Or(l.window, DefaultWindow)
}

// NewID returns a new id for a call.
func (l *Log) NewID() string { return NewID(l.now()) }

// now is the clock's time as it is stored: UTC, without a monotonic reading.
func (l *Log) now() time.Time { return l.clock.Now().UTC().Round(0) }

// Close stops the background work and writes the endings that wait, once
// more, and what was counted. It writes no checkpoint: see [Log.Checkpoint].
// Calls that are still open stay so until their lease ends and somebody
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
	return errors.Join(l.flush(ctx), l.flushCounts(ctx, true))
}
