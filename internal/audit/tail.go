package audit

import (
	"context"
	"fmt"
	"slices"
)

// Head returns the last event of the chain.
func (l *Log) Head(ctx context.Context) (Head, error) {
	p, err := l.store.Progress(ctx, l.chain)
	if err != nil {
		return Head{}, fmt.Errorf("head: %w", err)
	}
	return p.Head, nil
}

// Events returns events of the chain after a sequence number, as they are
// stored, in ascending order: at most limit, and at least one unless there is
// none. Nothing about them has been checked but their form: one that is not
// well formed has its sequence number alone, and its fault in the map.
func (l *Log) Events(ctx context.Context, after int64, limit int) (list []Event, faults map[int64]error, err error) {
	page, err := l.store.Events(ctx, l.chain, after, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("events after %d: %w", after, err)
	}
	for _, s := range page {
		e, err := DecodeEvent(s)
		if err != nil {
			if faults == nil {
				faults = map[int64]error{}
			}
			e.Seq, faults[s.Seq] = s.Seq, err
		}
		list = append(list, e)
	}
	return list, faults, nil
}

// Endings returns the ids of calls that ended after an event, in that order,
// and the event to go on from: the same one where nothing has come.
func (l *Log) Endings(ctx context.Context, after int64) (ids []string, next int64, err error) {
	list, faults, err := l.Events(ctx, after, verifyPage)
	next = after
	for _, e := range list {
		if next = e.Seq; faults[e.Seq] == nil && e.Kind.Ends() {
			ids = append(ids, e.CallID)
		}
	}
	return ids, next, err
}

// Match reports whether a row is one that f selects. Limit and order do not
// matter to it.
func (f *Filter) Match(r *Row) bool {
	q, err := f.query()
	return err == nil && r.ID >= q.From && (q.Before == "" || r.ID < q.Before) &&
		(f.Task == "" || r.Task == f.Task) && (f.Caller == "" || r.Caller == f.Caller) &&
		(f.Team == "" || r.Team == f.Team) && (f.Tool == "" || r.Tool == f.Tool) &&
		(f.Level == 0 || r.Level == f.Level) && (f.Outcome == 0 || r.Outcome == f.Outcome) &&
		(f.Reason == 0 || r.Reason == f.Reason) && (!f.Open || r.Open()) &&
		(f.Host == "" || slices.Contains(r.hosts(), f.Host))
}
