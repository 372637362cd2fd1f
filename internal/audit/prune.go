package audit

import (
	"context"
	"fmt"
	"time"
)

// pruneBatch is how many calls one prune takes the bodies of.
const pruneBatch = 256

// Retention says how long rows are kept.
type Retention struct {
	// Age returns for how long the rows of a team are kept; "" is the calls of
	// no team. 0: for ever.
	Age func(team string) time.Duration
	By  string // who asks, for the record
}

// PruneReport is what Prune did.
type PruneReport struct {
	Calls  int64 `json:"calls"`  // that are not there any more
	Events int64 `json:"events"` // of which the commitment is left
	Prunes int64 `json:"prunes"` // events that say so
}

// Prune takes the bodies, and what they are found by, of calls that have ended
// and are older than their team's rows are kept. Of each event its salted
// commitment stays, so that the chain verifies and nothing of a body can be
// guessed; an event says which, why and for whom. Calls whose bodies are part
// of their hashes (version 1) are left as they are.
func (l *Log) Prune(ctx context.Context, r Retention) (PruneReport, error) {
	var report PruneReport
	teams, err := l.store.Teams(ctx)
	if err != nil {
		return report, fmt.Errorf("prune: %w", err)
	}
	for _, team := range teams {
		age := r.Age(team)
		if age <= 0 {
			continue
		}
		before := l.now().Add(-age)
		rec := PruneRecord{Why: PruneRetention, By: clean(r.By, maxName), Team: team, Before: before}
		for more := true; more && before.UnixMilli() > 0; {
			if more, err = l.pruneSome(ctx, rec, &report); err != nil {
				return report, fmt.Errorf("prune: %w", err)
			}
		}
	}
	if report.Calls > 0 {
		err = l.store.Scrub(ctx)
	}
	return report, err
}

// pruneSome prunes one batch, and reports whether there may be more.
func (l *Log) pruneSome(ctx context.Context, rec PruneRecord, report *PruneReport) (more bool, err error) {
	var seqs []int64
	err = l.store.Update(ctx, func(tx Tx) error {
		calls, err := tx.Expired(l.chain, rec.Team, firstID(rec.Before), pruneBatch)
		if err != nil || len(calls) == 0 {
			return err
		}
		more, rec.Calls = len(calls) == pruneBatch, int64(len(calls))
		seqs, err = l.eraseAll(tx, calls, rec, false)
		return err
	})
	if err == nil && len(seqs) > 0 {
		report.Calls, report.Events, report.Prunes = report.Calls+rec.Calls, report.Events+int64(len(seqs)), report.Prunes+1
	}
	return more && err == nil, err
}

// eraseAll erases the bodies of calls and adds the event that says so.
func (l *Log) eraseAll(tx Tx, calls []Entry, rec PruneRecord, keep bool) (seqs []int64, err error) {
	head, err := tx.Head(l.chain)
	if err != nil {
		return nil, err
	}
	for i := range calls {
		c := &calls[i]
		if seqs = append(seqs, c.First); c.Last != c.First {
			seqs = append(seqs, c.Last)
		}
		if err := tx.Erase(c, head.Seq+1, keep); err != nil {
			return nil, err
		}
	}
	rec.Events = rangesOf(seqs)
	_, err = l.appendAbout(tx, KindPrune, &rec)
	return seqs, err
}

// Erase takes the bodies of one call away, for good: what it was given, what
// it did, and what it is found by but its id, level and ending. Everything else
// of the chain stays valid; an event says which call and who asked. Erasing
// what was erased does nothing. Errors wrap ErrNotFound, ErrAmbiguous,
// ErrInvalid, ErrOpen, ErrOldFormat or the store's.
func (l *Log) Erase(ctx context.Context, prefix, by string) (id string, err error) {
	call, err := l.find(ctx, prefix)
	if err != nil {
		return "", err
	}
	id = call.Entry.ID
	err = l.store.Update(ctx, func(tx Tx) error {
		entry, ok, err := tx.Entry(id)
		switch {
		case err != nil:
			return err
		case !ok:
			return ErrNotFound
		case entry.Open():
			return ErrOpen
		case len(call.Events) > 0 && call.Events[0].Pruned != 0:
			return nil
		}
		rec := PruneRecord{Why: PruneErasure, By: clean(by, maxName), CallID: id, Calls: 1}
		_, err = l.eraseAll(tx, []Entry{entry}, rec, true)
		return err
	})
	if err == nil {
		err = l.store.Scrub(ctx)
	}
	if err != nil {
		return id, fmt.Errorf("erase %s: %w", id, err)
	}
	return id, nil
}
