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
	Hosts   map[string][]string // by call
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
	c := State{Events: slices.Clone(s.Events), Entries: map[string]audit.Entry{}, Leases: map[string]time.Time{}, Hosts: map[string][]string{}}
	for id, hosts := range s.Hosts {
		c.Hosts[id] = hosts
	}
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
func (m *Memory) Orphans(ctx context.Context, chain string, now, far time.Time, limit int) ([]audit.Orphan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return memoryTx{&m.state}.Orphans(chain, now, far, limit)
}

// Progress implements audit.Store.
func (m *Memory) Progress(ctx context.Context, chain string) (p audit.Progress, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.state.Events {
		if s.Chain != chain {
			continue
		}
		if s.Seq == 1 {
			p.First = fromNanos(s.At)
		}
		if s.Seq > p.Head.Seq {
			p.Head, p.Kind = audit.Head{Seq: s.Seq, Hash: audit.Hash(s.Hash)}, s.Kind
		}
		if s.Kind == int64(audit.KindCheckpoint) && s.Seq > p.Checkpoint {
			p.Checkpoint, p.At = s.Seq, fromNanos(s.At)
		}
	}
	return p, ctx.Err()
}

func fromNanos(n int64) time.Time { return time.Unix(0, n).UTC() }

// Scrub implements audit.Store.
func (m *Memory) Scrub(ctx context.Context) error { return ctx.Err() }

// Teams implements audit.Store.
func (m *Memory) Teams(ctx context.Context) (teams []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.state.Entries {
		if !slices.Contains(teams, e.Team) {
			teams = append(teams, e.Team)
		}
	}
	slices.Sort(teams)
	return teams, ctx.Err()
}

// Calls implements audit.Store.
func (m *Memory) Calls(ctx context.Context, q audit.Query) ([]audit.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var calls []audit.Call
	for id, e := range m.state.Entries {
		if match(id, &e, &q) && (q.Host == "" || slices.Contains(m.state.Hosts[id], q.Host)) {
			calls = append(calls, audit.Call{Entry: e, Events: m.eventsOf(id)})
		}
	}
	slices.SortFunc(calls, func(a, b audit.Call) int { return cmp.Compare(b.Entry.ID, a.Entry.ID) })
	if q.Oldest {
		slices.Reverse(calls)
	}
	return calls[:min(q.Limit, len(calls))], ctx.Err()
}

func match(id string, e *audit.Entry, q *audit.Query) bool {
	return strings.HasPrefix(id, q.Prefix) && id >= q.From && (q.Before == "" || id < q.Before) &&
		(q.Task == "" || e.Task == q.Task) && (q.Caller == "" || e.Caller == q.Caller) &&
		(q.Tool == "" || e.Tool == q.Tool) && (q.Team == "" || e.Team == q.Team) && (q.Level == 0 || e.Level == q.Level) &&
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
		t.Hosts = m.state.Hosts[id]
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
	if (entry != nil) != e.Kind.OfCall() {
		return fmt.Errorf("%w: an entry and %s do not belong together", audit.ErrInvalid, e.Kind)
	}
	for _, s := range tx.Events {
		if entry != nil && s.CallID == e.CallID && audit.Kind(s.Kind).Ends() == e.Kind.Ends() {
			return fmt.Errorf("%w: call %s has such an event", audit.ErrConflict, e.CallID)
		}
	}
	s := e.Stored()
	s.Body = slices.Clone(s.Body)
	tx.State.Events = append(tx.State.Events, s)
	if entry != nil {
		tx.Entries[e.CallID] = *entry
	}
	return nil
}

func (tx memoryTx) Chains() (chains []string, err error) {
	for _, s := range tx.Events {
		if !slices.Contains(chains, s.Chain) {
			chains = append(chains, s.Chain)
		}
	}
	slices.Sort(chains)
	return chains, nil
}

func (tx memoryTx) AddHosts(id string, hosts []string) error {
	tx.Hosts[id] = slices.Clone(hosts)
	return nil
}

func (tx memoryTx) Expired(chain, team, before string, limit int) (list []audit.Entry, err error) {
	for id, e := range tx.Entries {
		if e.Chain == chain && e.Team == team && id < before && !e.Open() && tx.erasable(id) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b audit.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(limit, len(list))], nil
}

func (tx memoryTx) erasable(id string) bool {
	return !slices.ContainsFunc(tx.Events, func(s audit.Stored) bool {
		return s.CallID == id && (len(s.Commitment) == 0 || len(s.Body) == 0)
	})
}

func (tx memoryTx) Erase(entry *audit.Entry, by int64, keep bool) error {
	if !tx.erasable(entry.ID) {
		return audit.ErrOldFormat
	}
	for i := range tx.Events {
		if s := &tx.Events[i]; s.CallID == entry.ID {
			s.Body, s.Salt, s.Pruned = nil, nil, by
		}
	}
	delete(tx.Hosts, entry.ID)
	delete(tx.Entries, entry.ID)
	if keep {
		bare := *entry
		bare.Task, bare.Caller, bare.Team, bare.Tool = "", "", "", ""
		tx.Entries[entry.ID] = bare
	}
	return nil
}

func (tx memoryTx) Orphans(chain string, now, far time.Time, limit int) ([]audit.Orphan, error) {
	var orphans []audit.Orphan
	for _, e := range tx.Entries {
		until := tx.Leases[e.Instance]
		if e.Chain == chain && e.Open() && (!now.Before(until) || until.After(far)) && len(orphans) < limit {
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
