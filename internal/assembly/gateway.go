package assembly

import (
	"context"
	"errors"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/gateway/tokens"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/store"
)

// HeldError means that another daemon serves the same state.
type HeldError struct {
	State string
	Err   error
}

// Error says so.
func (e *HeldError) Error() string {
	return "another daemon serves " + e.State + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *HeldError) Unwrap() error { return e.Err }

// OpenDaemon builds the house of a daemon: Open with a gateway, over a store
// that no other daemon serves. failed hears what the gateway's background work
// could not do; it may be nil. On an error the runtimes are closed.
func OpenDaemon(ctx context.Context, runtimes *Runtimes, o Options, failed func(error)) (*House, error) {
	h := &House{runtimes: runtimes}
	if err := h.openDaemon(ctx, o, failed); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

func (h *House) openDaemon(ctx context.Context, o Options, failed func(error)) (err error) {
	if err := h.openLog(ctx, o.Config, o.Watch); err != nil {
		return err
	}
	if err := h.db.Hold(); err != nil {
		if errors.Is(err, store.ErrHeld) {
			return &HeldError{o.Config.State, err}
		}
		return &LogError{State: o.Config.State, Err: err}
	}
	if _, err := h.Log.Recover(ctx); err != nil {
		return &LogError{State: o.Config.State, Err: err}
	}
	if err := h.Log.Start(ctx); err != nil { // for those whose leases have not run out yet
		return &LogError{State: o.Config.State, Err: err}
	}
	counter := new(tokens.Counter)
	go counter.Load() // while the rest is opened
	h.Gateway, err = gateway.Open(ctx, h.db.Gateway(), gateway.Options{
		Tiers: o.Config.Gateway.Tiers, Limits: o.Config.Gateway.Limits(), Counter: counter, Failed: failed, Count: h.Log.Count,
	})
	if err != nil {
		return err
	}
	if err := h.observe(o); err != nil {
		return err
	}
	return h.assemble(h.Log, o)
}

// OpenAdmin opens the teams and keys of a host. A daemon that serves them sees
// what is changed.
func OpenAdmin(ctx context.Context, c *config.Config) (*House, *gateway.Admin, error) {
	h, err := OpenLog(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return h, gateway.NewAdmin(h.db.Gateway(), c.Gateway.Tiers, nil), nil
}

// Kept is what a daemon keeps of calls for who comes back for them.
func (h *House) Kept() kept.Store { return h.db.Kept() }

// Jobs returns the store of images that are made for a daemon.
func (h *House) Jobs() kept.Jobs { return h.db.Jobs() }

// Levels reports every level of this house, weakest first.
func (h *House) Levels() []LevelReport { return h.runtimes.Levels() }

// A turnstile is a gateway as the broker sees it.
type turnstile struct{ gateway *gateway.Gateway }

// Enter implements broker.Gateway.
func (t turnstile) Enter(who broker.Caller) error { return t.gateway.Enter(who.Key) }

// Admit implements broker.Gateway.
func (t turnstile) Admit(ctx context.Context, a broker.Admission) (broker.Ticket, error) {
	ticket, err := t.gateway.Admit(ctx, gateway.Ask{ID: a.ID, Key: a.Who.Key, Call: a.Call, Envelope: a.Envelope, Cancel: a.Cancel})
	if err != nil {
		return nil, err
	}
	return ticket, nil
}

var _ broker.Ticket = (*gateway.Ticket)(nil)

// Turnstile is a gateway as the broker sees it.
func Turnstile(g *gateway.Gateway) broker.Gateway { return turnstile{g} }

// Prune takes the rows of a daemon that are older than the tier of their team
// keeps them, and those of no team as audit.retention says.
func (h *House) Prune(ctx context.Context, c *config.Config) (audit.PruneReport, error) {
	age := func(team string) time.Duration {
		if team == "" {
			return c.Audit.Retention.Std()
		}
		return h.Gateway.Retention(team)
	}
	return h.Log.Prune(ctx, audit.Retention{Age: age, By: "daemon"})
}
