package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/callcell/callcell/internal/outward"
)

// The bounds of a delivery.
const (
	sendTime   = 10 * time.Second // of one try
	tries      = 12
	firstPause = time.Second // after a failure; doubled each time
	longPause  = 5 * time.Minute
)

// Sender sends one request; *outward.Client is one. It is called by one
// goroutine.
type Sender interface {
	Name() string
	Post(ctx context.Context, header http.Header, body []byte) error
}

// Hook is one receiver. Sender and Secret must be there.
type Hook struct {
	Sender    Sender
	Events    []string // kinds that it is told of
	PerMinute int      // requests in any 60 seconds, tries included
	// Secret hands the secret to use, which keeps nothing of it. It is called
	// for every try: the secret may be another one by then.
	Secret func(ctx context.Context, use func(secret []byte)) error
}

// Options say what a Set is made of.
type Options struct {
	Hooks []Hook
	Host  string       // that tells
	Say   func(string) // is told that a receiver fails, and that it works again; nil: nobody is
	// Jitter returns a number in [0,1); nil: a random one.
	Jitter func() float64
}

// Stats is how one receiver does.
type Stats struct {
	Name    string
	Sent    int64 // requests that were taken
	Failed  int64 // that were not
	Merged  int64 // events that joined others
	Dropped int64 // events that the receiver never took
	Waiting int64 // events
	Fault   string
}

// Set hands events to receivers. Its methods may be called concurrently, and on
// nil, where they do nothing.
type Set struct{ workers []*worker }

// New returns a Set. The goroutine of a receiver starts with its first event.
func New(o Options) *Set {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	s := &Set{}
	for _, h := range o.Hooks {
		s.workers = append(s.workers, &worker{Hook: h, host: o.Host, say: o.Say, jitter: o.Jitter,
			rate: rate{n: max(h.PerMinute, 1)}, wake: make(chan struct{}, 1), quit: make(chan struct{})})
	}
	return s
}

// Put hands an event to those who want it. It does not block.
func (s *Set) Put(e Event) {
	if s == nil {
		return
	}
	for _, w := range s.workers {
		if slices.Contains(w.Events, e.Kind) {
			w.put(e)
		}
	}
}

// Wants reports whether some receiver is told of a kind.
func (s *Set) Wants(kind string) bool {
	return s != nil && slices.ContainsFunc(s.workers, func(w *worker) bool { return slices.Contains(w.Events, kind) })
}

// Stats returns how each receiver does.
func (s *Set) Stats() (list []Stats) {
	if s == nil {
		return nil
	}
	for _, w := range s.workers {
		w.mu.Lock()
		st := w.stats
		st.Name, st.Waiting = w.Sender.Name(), w.groups.count()
		w.mu.Unlock()
		list = append(list, st)
	}
	return list
}

// Close tries once more what waits, until ctx ends, and stops. An error wraps
// ErrUndelivered.
func (s *Set) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	var all sync.WaitGroup
	errs := make([]error, len(s.workers))
	for i, w := range s.workers {
		all.Go(func() { errs[i] = w.close(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// worker serves one receiver.
type worker struct {
	Hook
	host   string
	say    func(string)
	jitter func() float64
	rate   rate          // the worker's own
	wake   chan struct{} // something waits; holds one
	quit   chan struct{} // closed by close

	mu      sync.Mutex // guards what follows
	groups  groups
	stats   Stats
	failing bool
	closed  bool
	done    chan struct{} // closed when run has returned; nil: it was never started
	cancel  context.CancelFunc
}

func (w *worker) put(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.stats.Dropped++
		return
	}
	if w.groups.add(e) {
		w.stats.Merged++
	}
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

func (w *worker) take() *Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.groups.take()
}

// run delivers what waits, a group after the other, until close.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	for {
		select {
		case <-w.quit:
			w.flush(ctx)
			return
		case <-w.wake:
		}
		for w.waits() && w.room() {
			if d := w.take(); d != nil {
				w.deliver(ctx, d)
			}
		}
	}
}

func (w *worker) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.groups.list) > 0
}

// room waits until another request may be sent: what comes meanwhile joins what
// waits. It reports false when it is over.
func (w *worker) room() bool {
	for {
		wait := w.rate.take(time.Now())
		if wait <= 0 {
			return !w.over()
		}
		if !w.rests(wait) {
			return false
		}
	}
}

func (w *worker) over() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

func (w *worker) rests(d time.Duration) bool {
	again := time.NewTimer(d)
	defer again.Stop()
	select {
	case <-again.C:
		return true
	case <-w.quit:
		return false
	}
}

// flush tries once what waits.
func (w *worker) flush(ctx context.Context) {
	for d := w.take(); d != nil; d = w.take() {
		w.deliver(ctx, d)
	}
}

// deliver sends a group, with pauses after failures; there is room for its
// first try.
func (w *worker) deliver(ctx context.Context, d *Delivery) {
	d.ID, d.Host = newID(), w.host
	body, err := d.body()
	pause := firstPause
	for try := 1; err == nil; try++ {
		err = w.send(ctx, d, body)
		w.note(err)
		if err == nil {
			return
		}
		var status *outward.StatusError
		refused := errors.As(err, &status)
		if try >= tries || refused && !status.Retry() || !w.rests(w.spread(pause, status)) || !w.room() {
			break
		}
		pause, err = min(2*pause, longPause), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Dropped += d.Count
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // the kernel has no random bytes: there is none without it
		return uuid.Nil.String()
	}
	return id.String()
}

// spread is a pause of half to one and a half times d, and not less than the
// receiver asks for.
func (w *worker) spread(d time.Duration, status *outward.StatusError) time.Duration {
	d = d/2 + time.Duration(w.jitter()*float64(d))
	if status != nil {
		d = max(d, min(status.After, longPause))
	}
	return d
}

// send signs and sends one try.
func (w *worker) send(ctx context.Context, d *Delivery, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	signature := ""
	at := time.Now()
	if err := w.Secret(ctx, func(secret []byte) { signature = Sign(secret, at, body) }); err != nil {
		return fmt.Errorf("%w: %w", ErrSecret, err)
	}
	if signature == "" {
		return ErrSecret
	}
	return w.Sender.Post(ctx, http.Header{
		"Content-Type": {"application/json"}, "Callcell-Event": {d.Event}, "Callcell-Delivery": {d.ID}, "Callcell-Signature": {signature},
	}, body)
}

// Sign returns the signature of a body that is sent at a time.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t + "."))
	h.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(h.Sum(nil))
}

// note counts a try, and says what is to be said of it.
func (w *worker) note(err error) {
	if text := w.counted(err); text != "" {
		w.say(text)
	}
}

func (w *worker) counted(err error) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.failing
	if err != nil {
		w.stats.Failed++
		w.stats.Fault, w.failing = err.Error(), true
		if was {
			return ""
		}
		return fmt.Sprintf("the webhook %s does not take events: %v", w.Sender.Name(), err)
	}
	w.stats.Sent++
	w.stats.Fault, w.failing = "", false
	if !was {
		return ""
	}
	return fmt.Sprintf("the webhook %s takes events again; %d were dropped", w.Sender.Name(), w.stats.Dropped)
}

func (w *worker) close(ctx context.Context) error {
	w.mu.Lock()
	was, done, cancel, before := w.closed, w.done, w.cancel, w.stats.Dropped
	w.closed = true
	w.mu.Unlock()
	if was || done == nil {
		return nil
	}
	close(w.quit)
	defer context.AfterFunc(ctx, cancel)() // of a try that is under way
	<-done
	cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.stats.Dropped - before; left > 0 {
		return fmt.Errorf("%w: %s: %d events", ErrUndelivered, w.Sender.Name(), left)
	}
	return nil
}
