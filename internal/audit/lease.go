package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// begin notes that a call is about to be intended, and starts the background
// work with the first. The context gives it its values, not its end.
func (l *Log) begin(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if _, ok := l.open[id]; ok {
		return ErrExists
	}
	l.open[id] = 0
	l.startLocked(ctx)
	return nil
}

// Start starts the background work now: for a process that lives on, and is to
// complete the calls of one that died though nobody asks it for anything. In
// others it starts with the first intent. Errors wrap ErrClosed.
func (l *Log) Start(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.startLocked(ctx)
	return nil
}

// startLocked starts the background work, unless it runs. l.mu is held.
func (l *Log) startLocked(ctx context.Context) {
	if l.stop != nil {
		return
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.done = make(chan struct{})
	go l.keepAlive(ctx)
}

// intended notes which event is a call's intent.
func (l *Log) intended(id string, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = seq
}

// intentOf returns the sequence number of the intent that this process has
// written for a call, 0 where it has written none.
func (l *Log) intentOf(id string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id]
}

// end notes that this process has nothing more to do with a call.
func (l *Log) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
	if w, ok := l.waiting[id]; ok {
		l.size -= len(w.body)
		delete(l.waiting, id)
	}
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *Log) instanceID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.instance
}

// grant returns an instance with a lease that is valid for long enough: the
// present one, renewed where it is not fresh, or a new one.
//
// A lease that has ended is never revived: its calls are orphans already.
func (l *Log) grant(tx Tx) (string, error) {
	l.mu.Lock()
	instance, granted := l.instance, l.granted
	l.mu.Unlock()
	now := l.now()
	if granted {
		until, ok, err := tx.Lease(instance)
		if err != nil {
			return "", err
		}
		if left := until.Sub(now); ok && left > l.ttl-l.ttl/3 && left <= l.ttl {
			return instance, nil
		}
		if ok && now.Before(until) {
			return instance, tx.SetLease(instance, now.Add(l.ttl))
		}
		instance = NewID(now)
	}
	l.mu.Lock() // updates come one after another: nobody else has changed it
	l.instance, l.granted = instance, true
	l.mu.Unlock()
	if instance[len(instance)-1] == '0' { // one lease in sixteen sweeps up after the others
		if err := tx.Sweep(now); err != nil {
			return "", err
		}
	}
	return instance, tx.SetLease(instance, now.Add(l.ttl))
}

// keepAlive does the background work every third of a lease.
func (l *Log) keepAlive(ctx context.Context) {
	defer close(l.done)
	tick, stop := l.clock.Ticker(l.ttl / 3)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			l.beat(ctx)
		case <-l.nudge:
			if err := l.CheckpointIfDue(ctx); err != nil && ctx.Err() == nil {
				l.failed(err)
			}
		}
	}
}

func (l *Log) beat(ctx context.Context) {
	renewed, flushed := l.renew(ctx), l.flush(ctx)
	_, recovered := l.Recover(ctx)
	counted, signed := l.flushCounts(ctx, false), l.CheckpointIfDue(ctx)
	if err := errors.Join(renewed, flushed, recovered, counted, signed); err != nil && ctx.Err() == nil {
		l.failed(err)
	}
}

// renew renews the lease while calls are open. An idle process lets it end.
func (l *Log) renew(ctx context.Context) error {
	l.mu.Lock()
	idle := !l.granted || len(l.open) == 0
	l.mu.Unlock()
	if idle {
		return nil
	}
	err := l.store.Update(ctx, func(tx Tx) error {
		instance, now := l.instanceID(), l.now()
		until, ok, err := tx.Lease(instance)
		if err != nil {
			return err
		}
		if !ok || !now.Before(until) {
			return fmt.Errorf("%w: the lease has ended", ErrFenced)
		}
		return tx.SetLease(instance, now.Add(l.ttl))
	})
	if err != nil {
		return fmt.Errorf("renew the lease: %w", err)
	}
	return nil
}

// waiting is an ending that is to be written.
type waiting struct {
	id      string
	kind    Kind
	body    []byte
	outcome envelope.Outcome
	reason  envelope.Reason
	hosts   []string // that the call is found by
	alone   Entry    // of a refusal that came before its intent
}

// The bounds of the endings that wait for the store to take writes again.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 16 << 20
)

// wait keeps an ending to be written later, and reports whether it does. A
// refusal without an intent is not kept: nothing is open because of it.
func (l *Log) wait(w waiting) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ours := l.open[w.id]
	_, twice := l.waiting[w.id]
	if !ours || twice || len(l.waiting) >= maxWaiting || l.size+len(w.body) > maxWaitingBytes {
		return twice
	}
	l.waiting[w.id] = w
	l.size += len(w.body)
	return true
}

// flush tries to write the endings that wait.
func (l *Log) flush(ctx context.Context) error {
	l.mu.Lock()
	var list []waiting
	for _, w := range l.waiting {
		list = append(list, w)
	}
	l.mu.Unlock()
	var failed []error
	for _, w := range list {
		_, err := l.writeEnding(ctx, w)
		if err != nil && !errors.Is(err, ErrEnded) { // ended: it was there all the same
			failed = append(failed, fmt.Errorf("%v of %s: %w", w.kind, w.id, err))
		}
		if errors.Is(err, ErrUnwritable) || errors.Is(err, ErrClosed) || ctx.Err() != nil {
			break
		}
		l.end(w.id)
	}
	return errors.Join(failed...)
}
