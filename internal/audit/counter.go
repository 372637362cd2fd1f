package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// DefaultWindow is how long counts are gathered for one event.
const DefaultWindow = time.Minute

// The bounds of what is counted in one window.
const (
	maxCounts = 512 // pairs of kind and key
	maxKinds  = 64  // beyond these, by kind alone
	maxKey    = 128 // bytes of a kind or key
)

// otherKind is what kinds are counted as that there is no room for.
const otherKind = "other"

type countKey struct{ kind, key string }

// Count counts something that whoever calls can multiply (a bad key, an answer
// that said to wait, a name that is refused), so that a flood of it costs one
// event for each window, of a bounded size. kind is a word of the caller's; key
// is whom or what it is about, "" for nobody. It takes no time and cannot fail;
// a process that is killed loses what it counted since the last event.
func (l *Log) Count(kind, key string) {
	k := countKey{clean(kind, maxKey), clean(key, maxKey)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if len(l.counts) == 0 {
		l.counted = l.now()
	}
	l.addLocked(k, 1)
	l.startLocked(context.Background())
}

// addLocked adds to a count, by kind alone or as another kind where there is
// no room. l.mu is held.
func (l *Log) addLocked(k countKey, n int64) {
	for _, as := range []countKey{k, {kind: k.kind}} {
		room := maxCounts
		if as.key == "" {
			room += maxKinds
		}
		if _, ok := l.counts[as]; ok || len(l.counts) < room {
			l.counts[as] += n
			return
		}
	}
	l.counts[countKey{kind: otherKind}] += n
}

// flushCounts writes what was counted as one event, when its window is over or
// where it is the last. What cannot be written is counted on.
func (l *Log) flushCounts(ctx context.Context, last bool) error {
	l.mu.Lock()
	counts, from, now := l.counts, l.counted, l.now()
	elapsed := now.Sub(from)
	if len(counts) == 0 || !last && elapsed >= 0 && elapsed < l.window {
		l.mu.Unlock()
		return nil
	}
	l.counts = map[countKey]int64{}
	l.mu.Unlock()
	rec := CounterRecord{From: from, To: now}
	for k, n := range counts {
		rec.Counts = append(rec.Counts, Count{k.kind, k.key, n})
	}
	slices.SortFunc(rec.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	err := l.store.Update(ctx, func(tx Tx) error {
		_, err := l.appendAbout(tx, KindCounter, &rec)
		return err
	})
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range counts {
		l.addLocked(k, n)
	}
	l.counted = from
	return fmt.Errorf("counters: %w", err)
}
