package gateway_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// TestATurnLastsUntilItIsLeft: a call that is settled has its turn until nothing
// of it is held, and no other has it meanwhile: of the key, the team or the host.
func TestATurnLastsUntilItIsLeft(t *testing.T) {
	for name, narrow := range map[string]func(*gateway.Tier, *gateway.Limits){
		"key":  func(tier *gateway.Tier, _ *gateway.Limits) { tier.KeyAtOnce = 1 },
		"team": func(tier *gateway.Tier, _ *gateway.Limits) { tier.AtOnce = 1 },
		"host": func(_ *gateway.Tier, l *gateway.Limits) { l.AtOnce = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) {
					narrow(tier, l)
					l.Wait = envelope.Duration(time.Hour)
				})
				key := s.key("blue")
				first := s.admit(s.ask(key, "", 1, 1))
				in := make(chan *gateway.Ticket)
				go func() { // it waits from before the first has ended
					ticket, err := s.Admit(context.Background(), s.ask(key, "", 1, 1))
					if err != nil {
						t.Error(err)
					}
					in <- ticket
				}()
				synctest.Wait()
				if err := first.Settle(t.Context())(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if l := s.Load(); l.Running != 1 || l.Waiting != 1 {
					t.Errorf("%+v", l)
				}
				first.Leave()
				first.Leave() // of another call it is not the end
				second := <-in
				if l := s.Load(); l.Running != 1 || l.Waiting != 0 {
					t.Errorf("%+v", l)
				}
				s.settle(second, 1)
				if l := s.Load(); l.Running != 0 || l.Waiting != 0 {
					t.Errorf("%+v", l)
				}
			})
		})
	}
}

// TestNeverMoreThanItsTurns: what a key holds is never more than it may have at
// once, however calls and the taking of their answers come together; and all of
// them come through.
func TestNeverMoreThanItsTurns(t *testing.T) {
	const most = 3
	s := newStand(t, func(tier *gateway.Tier, l *gateway.Limits) {
		tier.KeyAtOnce, tier.Rate, tier.Waiting, l.Wait = most, 10_000, 1000, envelope.Duration(time.Hour)
	})
	key := s.key("blue")
	var held atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				ticket := s.admit(s.ask(key, "", 1, 1))
				if n := held.Add(1); n > most {
					t.Errorf("%d at once", n)
				}
				if err := ticket.Settle(t.Context())(); err != nil {
					t.Error(err)
				}
				left := make(chan struct{})
				go func() { // who takes the answer is another goroutine
					defer close(left)
					held.Add(-1)
					ticket.Leave()
				}()
				<-left
			}
		})
	}
	all.Wait()
	if l := s.Load(); l.Running != 0 || l.Waiting != 0 {
		t.Errorf("%+v", l)
	}
}
