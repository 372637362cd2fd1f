package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
)

// TestWhatLingersHasATurn: whose caller still takes what a call has left has no
// other call meanwhile, of the key, the team or the host; then it has, at once.
func TestWhatLingersHasATurn(t *testing.T) {
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
				s.settle(s.admit(s.ask(key, "", 1, 1)), 1)
				end := s.Linger(key)
				in := make(chan *gateway.Ticket)
				go func() {
					ticket, err := s.Admit(context.Background(), s.ask(key, "", 1, 1))
					if err != nil {
						t.Error(err)
					}
					in <- ticket
				}()
				synctest.Wait()
				if l := s.Load(); l.Running != 1 || l.Waiting != 1 {
					t.Errorf("%+v", l)
				}
				end()
				end() // of another call it is not the end
				s.settle(<-in, 1)
				if l := s.Load(); l.Running != 0 || l.Waiting != 0 {
					t.Errorf("%+v", l)
				}
				s.Linger("nobody")()
			})
		})
	}
}
