package gateway_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestTurnsAreFair: a team with many calls waiting does not keep another from
// its turn.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) { l.AtOnce, l.Wait = 1, envelope.Duration(time.Hour) })
		blue, red := s.key("blue"), s.key("red")
		first := s.admit(s.ask(blue, "", 1, 1))
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		wait := func(name, key string) {
			all.Go(func() {
				ticket, err := s.Admit(context.Background(), s.ask(key, "", 1, 1))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				s.settle(ticket, 1)
			})
			synctest.Wait()
		}
		for range 10 {
			wait("blue", blue)
		}
		wait("red", red)
		if l := s.Load(); l.Running != 1 || l.Waiting != 11 {
			t.Errorf("%+v", l)
		}
		s.settle(first, 1)
		all.Wait()
		if len(order) != 11 || order[0] != "red" && order[1] != "red" {
			t.Errorf("the turns were %q", order)
		}
	})
}

// TestWaitingIsBounded: in time, with capacity after it, and in number.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) { tier.KeyAtOnce, tier.Waiting = 1, 2 })
		key := s.key("blue")
		first := s.admit(s.ask(key, "", 1, 1))
		var all sync.WaitGroup
		began := time.Now()
		for range 2 {
			all.Go(func() {
				_, err := s.Admit(t.Context(), s.ask(key, "", 1, 1))
				if r := denied(t, err, envelope.ReasonCapacity); !r.Retry || time.Since(began) != 10*time.Second {
					t.Errorf("after %s: %+v", time.Since(began), r)
				}
			})
		}
		synctest.Wait()
		_, err := s.Admit(t.Context(), s.ask(key, "", 1, 1))
		denied(t, err, envelope.ReasonCapacity)
		if time.Since(began) != 0 {
			t.Error("a call waits for a place to wait in")
		}
		all.Wait()
		s.settle(first, 1)
		s.settle(s.admit(s.ask(key, "", 1, 1)), 1)
	})
}

// TestReservedIsWaitedFor: a call that fits when others have settled waits for
// them; one that never fits does not.
func TestReservedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Tokens = 100 })
		key := s.key("blue")
		first := s.admit(s.ask(key, "", 10, 50))
		time.AfterFunc(3*time.Second, func() { s.settle(first, 1) })
		began := time.Now()
		s.settle(s.admit(s.ask(key, "", 10, 50)), 50)
		if time.Since(began) != 3*time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
		_, err := s.Admit(t.Context(), s.ask(key, "", 10, 50))
		denied(t, err, envelope.ReasonBudget)
		if time.Since(began) != 3*time.Second {
			t.Error("waited for what will not come")
		}
	})
}

// TestWhoGoesTakesNothing: a caller who goes while he waits, or just as he is
// let in, leaves no reservation.
func TestWhoGoesTakesNothing(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) { l.AtOnce = 2 })
	key := s.key("blue")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(1000))*time.Microsecond)
				ticket, err := s.Admit(ctx, s.ask(key, "t", 1, 10))
				if err == nil {
					s.settle(ticket, 0)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					denied(t, err, envelope.ReasonBudget) // 200 calls are a task's
				}
				cancel()
			}
		})
	}
	all.Wait()
	if l := s.Load(); l.Running != 0 || l.Waiting != 0 {
		t.Errorf("%+v", l)
	}
}

// TestRevocationIsLive: calls of a revoked key are cancelled, running and
// waiting ones, by whichever process revoked it; no other key's are.
func TestRevocationIsLive(t *testing.T) {
	for _, how := range []string{"here", "elsewhere"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, func(tier *gateway.Tier, _ *gateway.Limits) { tier.KeyAtOnce = 1 })
				mine, other := s.key("blue"), s.key("blue")
				var cancelled, untouched atomic.Int32
				a, b := s.ask(mine, "", 1, 1), s.ask(other, "", 1, 1)
				a.Cancel = func(err error) {
					if r := envelope.RefusalOf(err); r == nil || r.Reason != envelope.ReasonPermission {
						t.Errorf("cancelled for %v", err)
					}
					cancelled.Add(1)
				}
				b.Cancel = func(error) { untouched.Add(1) }
				running, others := s.admit(a), s.admit(b)
				waiting := make(chan error, 1)
				go func() {
					_, err := s.Admit(context.Background(), s.ask(mine, "", 1, 1))
					waiting <- err
				}()
				synctest.Wait()
				admin := s.Gateway.Admin
				if how == "here" {
					if _, err := s.RevokeKey(t.Context(), mine); err != nil {
						t.Fatal(err)
					}
				} else if _, err := admin.RevokeKey(t.Context(), mine); err != nil {
					t.Fatal(err)
				}
				denied(t, <-waiting, envelope.ReasonPermission)
				if cancelled.Load() != 1 || untouched.Load() != 0 {
					t.Errorf("%d cancelled, %d of another key", cancelled.Load(), untouched.Load())
				}
				denied(t, s.Enter(mine), envelope.ReasonPermission)
				if err := s.Enter(other); err != nil {
					t.Error(err)
				}
				s.settle(running, 0)
				s.settle(others, 0)
			})
		})
	}
}

// TestDenialsAreCounted: of a flood of denials a few are worth a row.
func TestDenialsAreCounted(t *testing.T) {
	s := newStand(t, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Rate = 1 })
	key := s.key("blue")
	loud, before := 0, len(s.counted)
	for range 1000 {
		var d *gateway.Denial
		if errors.As(s.Enter(key), &d) && !d.Quiet {
			loud++
		}
	}
	if loud != 10 || len(s.counted)-before != 999 || s.counted[before] != "rate "+key {
		t.Errorf("%d of 999 denials are worth a row; %d are counted", loud, len(s.counted)-before)
	}
	var d *gateway.Denial
	if err := s.Enter("k_nobody"); !errors.As(err, &d) || !d.Quiet || d.Why.Reason != envelope.ReasonPermission {
		t.Errorf("%v", err)
	}
}
