package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A full is a store that takes no writes while it is full.
type full struct {
	gateway.Store
	full atomic.Bool
}

func (f *full) Update(ctx context.Context, fn func(gateway.Tx) error) error {
	if f.full.Load() {
		return fmt.Errorf("%w: disk full", audit.ErrUnwritable)
	}
	return f.Store.Update(ctx, fn)
}

func (f *full) Begin(ctx context.Context, fn func(gateway.Tx) error) (wait func() error) {
	return func() error { return f.Update(ctx, fn) }
}

// TestFullDisk: while nothing can be written nothing can be held, so that
// nothing runs; what was running settles in memory at once, and on disk when
// that takes writes again, by itself and once.
func TestFullDisk(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "state", "callcell.db")
	db, err := store.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	disk := &full{Store: db.Gateway()}
	tier := gateway.DefaultTiers()["free"]
	tier.Tokens = 1000
	g, err := gateway.Open(ctx, disk, gateway.Options{Tiers: map[string]gateway.Tier{"free": tier}, Counter: letters{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{Gateway: g, t: t}
	key := s.key("blue")
	running := s.admit(s.ask(key, "task", 10, 400))
	if err := running.Hold(ctx)(); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	refused := s.admit(s.ask(key, "task", 10, 400))
	if err := refused.Hold(ctx)(); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("held on a full disk: %v", err)
	}
	refused.Meter(&envelope.Result{Refusal: &envelope.Refusal{Reason: envelope.ReasonSetup}})
	running.Meter(&envelope.Result{Outcome: envelope.OutcomeCompleted, Stdout: envelope.Stream{Head: make([]byte, 390), Total: 390}})
	for _, ticket := range []*gateway.Ticket{refused, running} {
		if err := ticket.Settle(ctx)(); !errors.Is(err, audit.ErrUnwritable) {
			t.Errorf("settled on a full disk: %v", err)
		}
	}
	_, err = g.Admit(ctx, s.ask(key, "task", 10, 600)) // 400 are used
	denied(t, err, envelope.ReasonBudget)
	disk.full.Store(false)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for u := s.used("blue"); u.Tokens() != 400; u = s.used("blue") {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%+v", u)
		}
	}
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
	if u := s.used("blue"); u.Tokens() != 400 || u.Calls != 1 {
		t.Errorf("%+v", u)
	}
}

// TestClockADayBack: a wall clock that is set back gives no key another minute's
// worth, and no team another budget; calls go on.
func TestClockADayBack(t *testing.T) {
	c := &byHand{now: time.Date(2026, 12, 1, 0, 0, 5, 0, time.UTC)}
	s := newStandAt(t, c, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Rate, tier.Tokens = 3, 100 })
	key := s.key("blue")
	for range 3 {
		if err := s.Enter(key); err != nil {
			t.Fatal(err)
		}
	}
	s.settle(s.admit(s.ask(key, "t", 50, 50)), 50) // all of December
	c.advance(-24 * time.Hour)
	denied(t, s.Enter(key), envelope.ReasonRate)
	s.settle(s.admit(s.ask(key, "t", 50, 50)), 50) // of November
	_, err := s.Admit(t.Context(), s.ask(key, "t", 1, 1))
	denied(t, err, envelope.ReasonBudget)
	c.advance(24 * time.Hour)
	_, err = s.Admit(t.Context(), s.ask(key, "t", 1, 1))
	denied(t, err, envelope.ReasonBudget)
	c.advance(time.Minute)
	if err := s.Enter(key); err != nil {
		t.Error(err)
	}
}

// TestKeysChangeBesideCalls: teams and keys are changed while calls of theirs go
// their way. The race detector looks on.
func TestKeysChangeBesideCalls(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	id, secret := s.secret("blue")
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(over)
		for i := range 30 {
			tokens := int64(1_000_000 + i)
			if _, err := s.SetTeam(t.Context(), "blue", gateway.TeamChange{Tokens: &tokens}); err != nil {
				t.Error(err)
			}
			if _, _, err := s.RotateKey(t.Context(), id, time.Hour); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		all.Go(func() {
			for busy := true; busy; {
				select {
				case <-over:
					busy = false // after one more
				default:
				}
				_, stop := s.While(t.Context(), id, secret)
				ticket := s.admit(s.ask(id, "", 1, 1))
				if err := ticket.Hold(t.Context())(); err != nil {
					t.Error(err)
				}
				s.settle(ticket, 1)
				stop()
			}
		})
	}
	all.Wait()
}
