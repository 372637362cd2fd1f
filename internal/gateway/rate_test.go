package gateway

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWindowIsExact holds a window against a model that remembers everything:
// a take is let through exactly where fewer than limit were in the last 60
// seconds, and what is said to wait for is the first time at which it is.
func TestWindowIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := window{limit: rapid.IntRange(0, 20).Draw(t, "limit")}
		var model []int64
		recent := func(now int64) (n int) {
			for _, at := range model {
				if now-at < int64(span) {
					n++
				}
			}
			return n
		}
		now := rapid.Int64Range(-int64(time.Hour), 0).Draw(t, "begin")
		for range rapid.IntRange(1, 200).Draw(t, "takes") {
			now += rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "step")
			used, _ := w.used(now)
			if used != recent(now) {
				t.Fatalf("used %d, want %d", used, recent(now))
			}
			after, ok := w.take(now)
			if want := recent(now) < w.limit; ok != want {
				t.Fatalf("let through: %v, want %v", ok, want)
			}
			if ok {
				model = append(model, now)
			} else if w.limit > 0 && (recent(now+int64(after)) >= w.limit || recent(now+int64(after)-1) < w.limit) {
				t.Fatalf("after %s: %d in the window, and %d just before", after, recent(now+int64(after)), recent(now+int64(after)-1))
			}
			if rapid.IntRange(0, 20).Draw(t, "resize") == 0 {
				limit := rapid.IntRange(0, 20).Draw(t, "limit")
				if over := len(model) - limit; over > 0 && limit < w.limit {
					model = model[over:] // the log of a smaller window is shorter
				}
				w.resize(limit)
			}
			if len(w.ring) > w.limit {
				t.Fatalf("%d times are remembered, of %d", len(w.ring), w.limit)
			}
		}
	})
}

// TestThrottleIsBounded: a flood of strangers is not remembered one by one, and
// no one of them gets more than his share.
func TestThrottleIsBounded(t *testing.T) {
	c := &manual{now: time.Unix(1_800_000_000, 0)}
	th := NewThrottle(3, 10, c)
	name := func(i int) string { return string(rune('A' + i)) }
	let := 0
	for i := range 100 {
		if _, ok := th.Take(name(i % 40)); ok {
			let++
		}
	}
	if len(th.by) != 10 || let != 10*3-2+3 && let > 10*3+3 {
		t.Errorf("%d remembered, %d let through", len(th.by), let)
	}
	for range 5 {
		th.Take("A")
	}
	if th.Blocked("A") == 0 || th.Blocked("new") == 0 {
		t.Error("not blocked")
	}
	c.advance(span)
	if after, ok := th.Take("new"); !ok {
		t.Errorf("a minute later: wait %s", after)
	}
	if len(th.by) != 1 {
		t.Errorf("%d remembered", len(th.by))
	}
}
