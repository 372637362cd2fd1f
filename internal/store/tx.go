package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// tx is the transaction under way, as the fn of one request sees it.
type tx struct {
	ctx   context.Context // of the writer; a tx does not outlive its batch
	w     *writer
	heads map[string]audit.Head // of the chains this transaction has looked at
	// leases are those that this transaction has looked at; the zero time: there
	// is none.
	leases map[string]time.Time
}

// forget drops what the transaction knows of what it has read and written.
func (t *tx) forget() {
	clear(t.heads)
	clear(t.leases)
}

var _ audit.Tx = (*tx)(nil)

// nanos returns t as it is stored: 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// fromNanos is the inverse of nanos.
func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// row runs a query for one row, and reports whether there was one.
func (t *tx) row(text string, args, into []any) (bool, error) {
	s, err := t.w.stmt(t.ctx, text)
	if err != nil {
		return false, err
	}
	err = s.QueryRowContext(t.ctx, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, mapped(err)
}

// Head implements audit.Tx.
func (t *tx) Head(chain string) (audit.Head, error) {
	if head, ok := t.heads[chain]; ok {
		return head, nil
	}
	var head audit.Head
	var hash []byte
	ok, err := t.row("SELECT seq, hash FROM events WHERE chain = ? ORDER BY seq DESC LIMIT 1", []any{chain}, []any{&head.Seq, &hash})
	if err != nil {
		return audit.Head{}, err
	}
	if ok && len(hash) != len(head.Hash) {
		return audit.Head{}, audit.ErrCorrupt
	}
	copy(head.Hash[:], hash)
	t.heads[chain] = head
	return head, nil
}

// entryColumns are the columns of an Entry, in the order of entryFields.
const entryColumns = "c.call_id, c.chain, c.first, c.last, c.instance, c.task, c.caller, c.team, c.tool, c.level, c.outcome, c.reason"

func entryFields(e *audit.Entry) []any {
	return []any{&e.ID, &e.Chain, &e.First, &e.Last, &e.Instance, &e.Task, &e.Caller, &e.Team, &e.Tool, &e.Level, &e.Outcome, &e.Reason}
}

// Entry implements audit.Tx.
func (t *tx) Entry(id string) (audit.Entry, bool, error) {
	var e audit.Entry
	ok, err := t.row("SELECT "+entryColumns+" FROM calls c WHERE c.call_id = ?", []any{id}, entryFields(&e))
	if !ok {
		return audit.Entry{}, false, err
	}
	return e, true, nil
}

// Append implements audit.Tx. That a call has one intent and one ending is the
// schema's to say.
func (t *tx) Append(e *audit.Event, entry *audit.Entry) error {
	head, err := t.Head(e.Chain)
	if err != nil {
		return err
	}
	if (entry != nil) != e.Kind.OfCall() {
		return fmt.Errorf("%w: an entry and %s do not belong together", audit.ErrInvalid, e.Kind)
	}
	if e.Seq != head.Seq+1 || e.Prev != head.Hash {
		return fmt.Errorf("%w: event %d does not follow event %d", audit.ErrConflict, e.Seq, head.Seq)
	}
	s := e.Stored()
	if err := t.w.exec(t.ctx,
		`INSERT INTO events (chain, seq, kind, call_id, instance, at, body, prev, hash, salt, commitment, pruned)
		VALUES (?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.Chain, s.Seq, s.Kind, s.CallID, s.Instance, s.At, string(s.Body), s.Prev, s.Hash, s.Salt, s.Commitment, s.Pruned); err != nil {
		return err
	}
	if entry != nil {
		err = t.putEntry(entry)
	}
	if err == nil {
		t.heads[e.Chain] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	return err
}

// putEntry adds the entry of a call's first event, or closes the one there is.
func (t *tx) putEntry(entry *audit.Entry) error {
	if entry.Open() || entry.First == entry.Last {
		return t.w.exec(t.ctx,
			`INSERT INTO calls (call_id, chain, first, last, instance, task, caller, team, tool, level, outcome, reason)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			entry.ID, entry.Chain, entry.First, entry.Last, entry.Instance, entry.Task, entry.Caller, entry.Team, entry.Tool,
			int64(entry.Level), int64(entry.Outcome), int64(entry.Reason))
	}
	n, err := t.w.change(t.ctx, "UPDATE calls SET last = ?, outcome = ?, reason = ? WHERE call_id = ?",
		entry.Last, int64(entry.Outcome), int64(entry.Reason), entry.ID)
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: %s has an ending and no entry", audit.ErrConflict, entry.ID)
	}
	return err
}

// orphansText walks the open calls, of which there are few.
const orphansText = "SELECT " + entryColumns + `, coalesce(l.until, 0)
	FROM calls c LEFT JOIN leases l ON l.instance = c.instance
	WHERE c.last = 0 AND c.chain = ? AND (coalesce(l.until, 0) <= ? OR l.until > ?) LIMIT ?`

// Orphans implements audit.Tx.
func (t *tx) Orphans(chain string, now, far time.Time, limit int) (list []audit.Orphan, err error) {
	s, err := t.w.stmt(t.ctx, orphansText)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(t.ctx, chain, nanos(now), nanos(far), limit)
	if err != nil {
		return nil, mapped(err)
	}
	defer rows.Close()
	for rows.Next() {
		var o audit.Orphan
		var until int64
		if err := rows.Scan(append(entryFields(&o.Entry), &until)...); err != nil {
			return nil, scanned(err)
		}
		o.Lease = fromNanos(until)
		list = append(list, o)
	}
	return list, mapped(rows.Err())
}

// Lease implements audit.Tx.
func (t *tx) Lease(instance string) (time.Time, bool, error) {
	if until, ok := t.leases[instance]; ok {
		return until, !until.IsZero(), nil
	}
	var until int64
	ok, err := t.row("SELECT until FROM leases WHERE instance = ?", []any{instance}, []any{&until})
	if err != nil {
		return time.Time{}, false, err
	}
	t.leases[instance] = fromNanos(until)
	return fromNanos(until), ok && until != 0, nil
}

// SetLease implements audit.Tx.
func (t *tx) SetLease(instance string, until time.Time) error {
	delete(t.leases, instance)
	return t.w.exec(t.ctx, "INSERT INTO leases (instance, until) VALUES (?, ?) ON CONFLICT (instance) DO UPDATE SET until = excluded.until",
		instance, nanos(until))
}

// DropLease implements audit.Tx.
func (t *tx) DropLease(instance string) error {
	delete(t.leases, instance)
	return t.w.exec(t.ctx, "DELETE FROM leases WHERE instance = ?", instance)
}

// Sweep implements audit.Tx.
func (t *tx) Sweep(now time.Time) error {
	clear(t.leases)
	return t.w.exec(t.ctx,
		"DELETE FROM leases WHERE until <= ? AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.instance = leases.instance AND c.last = 0)",
		nanos(now))
}
