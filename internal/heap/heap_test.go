package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// TestPercent: a small heap may double, a large one grows by what it may, and one
// that is larger than that is not collected without end.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		alive uint64
		most  int64
		want  int
	}{{0, 64, 100}, {10, 64, 100}, {64, 64, 100}, {128, 64, 50}, {256, 64, 25}, {512, 64, 13}, {6400, 64, 10}, {1 << 62, 64, 10}} {
		if got := percent(c.alive, c.most); got != c.want {
			t.Errorf("%d alive: %d, want %d", c.alive, got, c.want)
		}
	}
}

// goal is how large the heap may be before it is collected.
func goal() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// until collects until what the cleanups of a collection do is done. One collection
// is not enough: a mark that is made while one is under way outlives it, and the next
// comes when the heap has grown, which may be never.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	runtime.GC()
	for end := time.After(time.Minute); !ok(); runtime.GC() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: %d MiB alive, %d at most", what, alive()>>20, goal()>>20)
		}
	}
}

// TestAHeapThatIsLargeDoesNotDouble: with 200 MiB alive there are at most 30 more,
// and with few alive the setting is Go's own again; at the end it is what it was.
func TestAHeapThatIsLargeDoesNotDouble(t *testing.T) {
	leak.Check(t)
	was := debug.SetGCPercent(70)
	defer debug.SetGCPercent(was)
	if Bound(1<<20, "50")(); debug.SetGCPercent(70) != 70 {
		t.Error("what GOGC says was changed")
	}
	const text, most = 200 << 20, 20 << 20
	stop := Bound(most, "")
	kept := make([]byte, text)
	until(t, "large", func() bool { return alive() >= text && goal() < text+most+most/2 })
	runtime.KeepAlive(kept)
	kept = nil
	until(t, "small", func() bool { return alive() < most && current() == double })
	stop()
	stop()
	if got := debug.SetGCPercent(was); got != 70 {
		t.Errorf("%d at the end", got)
	}
	runtime.GC() // of the last mark nobody hears
	if got := current(); got != was {
		t.Errorf("%d after the end", got)
	}
}

// current is the collector's setting.
func current() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}
