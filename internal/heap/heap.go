// Package heap bounds how much garbage a process has at most.
//
// Go's collector lets the heap double before it collects. In a daemon that keeps
// a few hundred MiB of answers as text that is as much again for nothing, and
// collecting sooner costs little: text has no pointers to follow. So the heap may
// double while it is small, and grow by a fixed size when it is not.
package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The collector's setting, in percent of what is alive.
const (
	double = 100 // Go's own: the heap may double
	fewest = 10  // with less it would do nothing else
)

// Bound lets the heap of this process grow by most bytes beyond what was alive at
// the last collection, before the next one; by as much as was alive where that is
// less, and by a tenth of it in any case. It is looked at after each collection,
// until stop. Who sets GOGC has said otherwise: then nothing is done.
func Bound(most int64, gogc string) (stop func()) {
	if gogc != "" {
		return func() {}
	}
	b := &bound{most: most, percent: double}
	b.was = debug.SetGCPercent(double)
	b.wait()
	return b.stop
}

// A bound is what Bound has begun.
type bound struct {
	most int64
	was  int // the setting before it

	mu      sync.Mutex // guards what follows
	percent int        // the setting
	over    bool
}

// A mark is found dead by each collection. It has a pointer, so that it is not
// put together with others.
type mark struct{ _ *mark }

// wait has the next collection looked at.
func (b *bound) wait() { runtime.AddCleanup(new(mark), (*bound).look, b) }

// look sets how far the heap may grow until the next collection.
func (b *bound) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	if p := percent(alive(), b.most); p != b.percent {
		b.percent = p
		debug.SetGCPercent(p)
	}
	b.wait()
}

func (b *bound) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		debug.SetGCPercent(b.was)
	}
}

// percent is the setting with which a heap grows by at most most bytes.
func percent(alive uint64, most int64) int {
	if alive <= uint64(most) {
		return double
	}
	return max(int(math.Round(float64(most)/float64(alive)*100)), fewest)
}

// alive is how many bytes the last collection has found alive.
func alive() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0 // no number of this Go: cannot be
	}
	return s[0].Value.Uint64()
}
