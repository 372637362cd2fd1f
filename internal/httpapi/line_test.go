package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestALineIsInOrder: one of a key at a time, no more together than there is room
// for, one alone whatever it has; a large one is not overtaken for ever, and who
// goes away leaves his place.
func TestALineIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(100)
		var mu sync.Mutex
		leaves := map[string]func(){}
		ctx, away := context.WithCancel(t.Context())
		come := func(name, key string, size int64) {
			go func() {
				leave, err := l.enter(ctx, key, size)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					leaves[name] = leave
				}
			}()
			synctest.Wait()
		}
		in := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var got []string
			for name := range leaves {
				got = append(got, name)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%q are in, want %q", got, want)
			}
		}
		leave := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			leaves[name]()
			leaves[name]() // of another it is not the end
			delete(leaves, name)
		}
		come("blue 1", "blue", 40)
		come("blue 2", "blue", 40)
		come("red 1", "red", 40)
		come("green 1", "green", 200)
		come("white 1", "white", 1)
		in("blue 1", "red 1")
		leave("blue 1")
		in("blue 2", "red 1")
		leave("red 1")
		in("blue 2")
		leave("blue 2")
		in("green 1")
		come("red 2", "red", 1)
		leave("green 1")
		in("red 2", "white 1")
		come("red 3", "red", 1)
		away()
		in("red 2", "white 1")
		leave("red 2")
		leave("white 1")
		if l.used != 0 || len(l.busy) != 0 || len(l.waiting) != 0 {
			t.Errorf("%d bytes, %v, %d wait", l.used, l.busy, len(l.waiting))
		}
	})
}

// TestALineHolds: under many at once its bounds hold, and each comes through or
// hears that its time is over.
func TestALineHolds(t *testing.T) {
	const most = 100
	l := newLine(most)
	var used atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%7 == 0 {
					cancel()
				}
				size := int64(1 + (i*n)%60)
				leave, err := l.enter(ctx, fmt.Sprint(i%10), size)
				switch {
				case err == nil:
					if now := used.Add(size); now > most {
						t.Errorf("%d bytes", now)
					}
					used.Add(-size)
					leave()
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if l.used != 0 || len(l.busy) != 0 || len(l.waiting) != 0 {
		t.Errorf("%d bytes, %v, %d wait", l.used, l.busy, len(l.waiting))
	}
}
