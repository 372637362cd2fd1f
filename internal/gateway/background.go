package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	foldEvery  = 20 // polls between two folds: 5 seconds
	keepStamps = span + 1*time.Second
	lostAtOnce = 256 // reservations that one transaction settles
)

// background does what is not to wait for a call: it sees what others have
// changed, writes what could not be written, and folds.
func (g *Gateway) background(ctx context.Context) {
	defer close(g.done)
	tick, stop := g.clock.Ticker(poll)
	defer stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		err := errors.Join(g.look(ctx), g.write(ctx, n%foldEvery == 0))
		if err != nil && ctx.Err() == nil {
			g.failed(err)
		}
	}
}

// look reloads where another process has changed a team or a key.
func (g *Gateway) look(ctx context.Context) error {
	g.mu.Lock()
	g.endWatchesLocked() // of secrets whose time is over
	g.mu.Unlock()
	generation, err := g.store.Generation(ctx)
	if err != nil {
		return fmt.Errorf("look for changed keys: %w", err)
	}
	g.mu.Lock()
	same := generation == g.generation
	g.mu.Unlock()
	if same {
		return nil
	}
	return g.reload(ctx)
}

// write writes the settlements that wait, and, with fold,
// folds. Where there is nothing to write, it writes nothing.
func (g *Gateway) write(ctx context.Context, fold bool) error {
	g.mu.Lock()
	list := slices.Collect(maps.Values(g.pending))
	now := g.now()
	clean := len(list) == 0 && (!fold || g.folded.After(g.settled.Add(keepStamps)))
	if clean && fold {
		g.dropTasksLocked(now)
	}
	g.mu.Unlock()
	if clean {
		return nil
	}
	err := g.store.Update(ctx, func(tx Tx) error { return put(tx, list, now, fold) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	for _, s := range list {
		delete(g.pending, s.ID)
	}
	if fold {
		g.folded = now
		g.dropTasksLocked(now)
	}
	return nil
}

func put(tx Tx, list []Settlement, now time.Time, fold bool) error {
	for _, s := range list {
		if err := tx.Settle(s); err != nil {
			return err
		}
	}
	if !fold {
		return nil
	}
	return tx.Fold(now.Add(-keepStamps), now.Add(-idleTask.Std()))
}

// recover settles what a daemon that died had reserved, and loads the rest.
func (g *Gateway) recover(ctx context.Context) error {
	now := g.now()
	stamps, err := g.store.Recent(ctx, now.Add(-span))
	if err != nil {
		return err
	}
	for more := true; more; {
		var held []Admission
		err := g.store.Update(ctx, func(tx Tx) (err error) {
			if held, err = tx.Held(lostAtOnce); err != nil {
				return err
			}
			return settleLost(tx, held)
		})
		if err != nil {
			return err
		}
		more = len(held) == lostAtOnce
		g.lost += len(held)
	}
	if err := g.write(ctx, true); err != nil {
		return err
	}
	if err := g.reload(ctx); err != nil {
		return err
	}
	g.stamp(stamps)
	return nil
}

// settleLost settles reservations to their arguments and their CPU time: the
// answers were never sent, and nobody measured what ran.
func settleLost(tx Tx, held []Admission) error {
	for _, a := range held {
		err := tx.Settle(Settlement{ID: a.ID, Key: a.Key, Team: a.Team, Task: a.Task, Month: a.Month, At: a.At,
			Calls: 1, Arguments: a.Arguments, CPU: a.CPU})
		if err != nil {
			return err
		}
	}
	return nil
}

// stamp counts the calls of the last minute against the rates of their keys.
func (g *Gateway) stamp(stamps []Stamp) {
	slices.SortFunc(stamps, func(a, b Stamp) int { return a.At.Compare(b.At) })
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range stamps {
		if k := g.keys[s.Key]; k != nil {
			at := min(g.reading(s.At), 0) // one from the future is from now
			k.rate.take(at)
		}
	}
}
