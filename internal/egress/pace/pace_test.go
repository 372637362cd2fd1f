package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/internal/egress/pace"
)

// TestPace: what is free passes at once, and what comes after it in its time.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := pace.New(3, time.Second), time.Now()
		for i, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second} {
			if err := p.Wait(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("the %dth passed after %v (%v), want %v", i+1, time.Since(began), err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Wait(ctx); !errors.Is(err, context.Canceled) || time.Since(began) != 2*time.Second {
			t.Errorf("nobody waits any more: %v after %v", err, time.Since(began))
		}
	})
}
