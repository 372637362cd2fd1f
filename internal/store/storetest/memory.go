// Package storetest holds the suite that every implementation of audit.Store
// passes, and the one that keeps everything in memory, which tests of other
// packages use.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// Memory is a store in memory, for tests. It is durable for as long as it
// lives. The zero value is empty and ready.
type Memory struct {
	mu    sync.Mutex
	state State
	fault func() error
}

// State is all that a Memory holds.
type State struct {
	Events  []audit.Stored
	Entries map[string]audit.Entry
	Leases  map[string]time.Time
}

var _ audit.Store = (*Memory)(nil)

// Tamper lets f change what is stored, behind the back of every check.
func (m *Memory) Tamper(f func(*State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
}

// Fault makes every later Update ask f: an error is what its commit returns,
// and what it wrote is undone. nil ends it.
func (m *Memory) Fault(f func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func (s *State) clone() State {
	c := State{Events: slices.Clip(s.Events), Entries: map[string]audit.Entry{}, Leases: map[string]time.Time{}}
	for id, e := range s.Entries {
		c.Entries[id] = e
	}
	for id, t := range s.Leases {
		c.Leases[id] = t
	}
	return c
}

// Update implements audit.Store.
func (m *Memory) Update(ctx context.Context, fn func(audit.Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	next := m.state.clone()
	if err := fn(memoryTx{&next}); err != nil {
		return err
	}
	if m.fault != nil {
		if err := m.fault(); err != nil {
			return err
		}
	}
	m.state = next
	return nil
}

// Orphans implements audit.Store.
func (m *Memory) Orphans(ctx context.Context, chain string, now time.Time, limit int) ([]audit.Orphan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return memoryTx{&m.state}.Orphans(chain, now, limit)
}

// Calls implements audit.Store.
func (m *Memory) Calls(ctx context.Context, q audit.Query) ([]audit.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var calls []audit.Call
	for id, e := range m.state.Entries {
		if match(id, &e, &q) {
			calls = append(calls, audit.Call{Entry: e, Events: m.eventsOf(id)})
		}
	}
	slices.SortFunc(calls, func(a, b audit.Call) int { return cmp.Compare(b.Entry.ID, a.Entry.ID) })
	return calls[:min(q.Limit, len(calls))], ctx.Err()
}

func match(id string, e *audit.Entry, q *audit.Query) bool {
	return strings.HasPrefix(id, q.Prefix) && id >= q.From && (q.Before == "" || id < q.Before) &&
		(q.Task == "" || e.Task == q.Task) && (q.Caller == "" || e.Caller == q.Caller) &&
		(q.Tool == "" || e.Tool == q.Tool) && (q.Level == 0 || e.Level == q.Level) &&
		(q.Outcome == 0 || e.Outcome == q.Outcome) && (q.Reason == 0 || e.Reason == q.Reason) &&
		(!q.Open || e.Open())
}

func (m *Memory) eventsOf(id string) []audit.Stored {
	var events []audit.Stored
	for _, s := range m.state.Events {
		if s.CallID == id {
			events = append(events, s)
		}
	}
	slices.SortStableFunc(events, func(a, b audit.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return events
}

// Traces implements audit.Store.
func (m *Memory) Traces(ctx context.Context, ids []string) ([]audit.Trace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var traces []audit.Trace
	for _, id := range ids {
		t := audit.Trace{ID: id}
		if e, ok := m.state.Entries[id]; ok {
			t.Entry, t.Lease = &e, m.state.Leases[e.Instance]
		}
		for _, s := range m.eventsOf(id) {
			if len(t.Marks) < 4 {
				t.Marks = append(t.Marks, audit.Mark{Chain: s.Chain, Seq: s.Seq, Kind: s.Kind})
			}
		}
		if t.Entry != nil || t.Marks != nil {
			traces = append(traces, t)
		}
	}
	return traces, ctx.Err()
}

// Events implements audit.Store. Events that were put out of order by Tamper
// stay so.
func (m *Memory) Events(ctx context.Context, chain string, after int64, limit int) ([]audit.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var events []audit.Stored
	for _, s := range m.state.Events {
		if s.Chain == chain && s.Seq > after && len(events) < limit {
			events = append(events, s)
		}
	}
	slices.SortStableFunc(events, func(a, b audit.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return events, ctx.Err()
}

type memoryTx struct{ *State }

func (tx memoryTx) Head(chain string) (head audit.Head, err error) {
	for _, s := range tx.Events {
		if s.Chain == chain && s.Seq > head.Seq {
			head = audit.Head{Seq: s.Seq, Hash: audit.Hash(s.Hash)}
		}
	}
	return head, nil
}

func (tx memoryTx) Entry(id string) (audit.Entry, bool, error) {
	e, ok := tx.Entries[id]
	return e, ok, nil
}

func (tx memoryTx) Append(e *audit.Event, entry *audit.Entry) error {
	head, _ := tx.Head(e.Chain)
	if e.Seq != head.Seq+1 || e.Prev != head.Hash {
		return fmt.Errorf("%w: event %d does not follow %d", audit.ErrConflict, e.Seq, head.Seq)
	}
	if was, ok := tx.Entries[e.CallID]; ok && !was.Open() {
		return fmt.Errorf("%w: call %s has ended", audit.ErrConflict, e.CallID)
	}
	for _, s := range tx.Events {
		if s.CallID == e.CallID && audit.Kind(s.Kind).Ends() == e.Kind.Ends() {
			return fmt.Errorf("%w: call %s has such an event", audit.ErrConflict, e.CallID)
		}
	}
	s := e.Stored()
	s.Body = slices.Clone(s.Body)
	tx.State.Events = append(tx.State.Events, s)
	tx.Entries[e.CallID] = *entry
	return nil
}

func (tx memoryTx) Orphans(chain string, now time.Time, limit int) ([]audit.Orphan, error) {
	var orphans []audit.Orphan
	for _, e := range tx.Entries {
		until := tx.Leases[e.Instance]
		if e.Chain == chain && e.Open() && !now.Before(until) && len(orphans) < limit {
			orphans = append(orphans, audit.Orphan{Entry: e, Lease: until})
		}
	}
	return orphans, nil
}

func (tx memoryTx) Lease(instance string) (time.Time, bool, error) {
	until, ok := tx.Leases[instance]
	return until, ok, nil
}

func (tx memoryTx) SetLease(instance string, until time.Time) error {
	tx.Leases[instance] = until
	return nil
}

func (tx memoryTx) DropLease(instance string) error {
	delete(tx.Leases, instance)
	return nil
}

func (tx memoryTx) Sweep(now time.Time) error {
	busy := map[string]bool{}
	for _, e := range tx.Entries {
		busy[e.Instance] = busy[e.Instance] || e.Open()
	}
	for id, until := range tx.Leases {
		if !now.Before(until) && !busy[id] {
			delete(tx.Leases, id)
		}
	}
	return nil
}
