package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Row is one call as seen: the view over its events. Task to Reason are what
// the events say.
type Row struct {
	ID       string           `json:"id"`                 // UUIDv7 of the call
	Started  time.Time        `json:"started,omitzero"`   // of the first event
	Ended    time.Time        `json:"ended,omitzero"`     // of the ending; zero: it is open
	Task     string           `json:"task,omitempty"`     // that the call belongs to, as the caller names it
	Caller   string           `json:"caller,omitempty"`   // who asked: key:ID, or the local user
	Team     string           `json:"team,omitempty"`     // whose key it was
	Tool     string           `json:"tool,omitempty"`     // as the caller calls it
	Level    envelope.Level   `json:"level,omitzero"`     // at which it ran, or was to run
	Outcome  envelope.Outcome `json:"outcome,omitzero"`   // how it ended
	Reason   envelope.Reason  `json:"reason,omitzero"`    // why it was refused
	Instance string           `json:"instance,omitempty"` // that wrote the first event

	Intent  *IntentRecord  `json:"intent,omitempty"`  // what was known before anything ran
	Ending  *Ending        `json:"ending,omitempty"`  // how it ended, where it ran
	Refused *RefusedRecord `json:"refused,omitempty"` // where it was refused
	Lost    *LostRecord    `json:"lost,omitempty"`    // where its process died

	Receipt *envelope.Receipt `json:"receipt,omitempty"` // of the ending; nil: it is open
	// Erased is the event that says that the call's bodies are gone, and why; 0:
	// they are there. Then there are no records, and no names.
	Erased int64 `json:"erased,omitempty"`
	// Damaged says why the call's events cannot be shown as a row; then only
	// ID is set. Verify says more.
	Damaged string `json:"damaged,omitempty"`
}

// Open reports whether the call has no ending.
func (r *Row) Open() bool { return r.Receipt == nil && r.Damaged == "" }

// The bounds of List.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Filter selects rows. Every field that is set must match.
type Filter struct {
	Task    string
	Caller  string
	Team    string
	Tool    string
	Host    string // that it tried to reach, in lower case
	Level   envelope.Level
	Outcome envelope.Outcome
	Reason  envelope.Reason // of a refusal
	Open    bool            // only calls without an ending
	Since   time.Time       // calls whose id was made then or later
	Until   time.Time       // calls whose id was made before
	Before  string          // rows older than this id: the last of the list before
	After   string          // rows newer than this id, with Oldest
	Oldest  bool            // oldest first
	Limit   int             // 0: DefaultLimit; at most MaxLimit
}

// List returns rows, newest first, or oldest: f.Limit of them, or fewer where
// they are large. Only an empty list means that there are no more: the next
// begins with Before set to the last row's id, or, oldest first, with After.
func (l *Log) List(ctx context.Context, f Filter) ([]Row, error) {
	q, err := f.query()
	if err != nil {
		return nil, err
	}
	calls, err := l.store.Calls(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	rows := make([]Row, 0, len(calls))
	for i := range calls {
		rows = append(rows, rowOf(&calls[i]))
	}
	return rows, nil
}

// Check reports what is wrong with a filter. An error wraps ErrInvalid.
func (f *Filter) Check() error {
	_, err := f.query()
	return err
}

func (f *Filter) query() (Query, error) {
	q := Query{
		Task: f.Task, Caller: f.Caller, Team: f.Team, Tool: f.Tool, Host: f.Host, Level: f.Level, Oldest: f.Oldest,
		Outcome: f.Outcome, Reason: f.Reason, Open: f.Open, Before: f.Before, Limit: f.Limit,
	}
	switch {
	case f.Limit < 0 || f.Limit > MaxLimit:
		return Query{}, fmt.Errorf("%w: limit %d: want 1 to %d", ErrInvalid, f.Limit, MaxLimit)
	case f.Before != "" && !isID(f.Before):
		return Query{}, fmt.Errorf("%w: before %.40q: want a UUIDv7", ErrInvalid, f.Before)
	case f.After != "" && !isID(f.After):
		return Query{}, fmt.Errorf("%w: after %.40q: want a UUIDv7", ErrInvalid, f.After)
	case f.Limit == 0:
		q.Limit = DefaultLimit
	}
	if f.Since.UnixMilli() > 0 {
		q.From = firstID(f.Since)
	}
	if f.After != "" {
		q.From = max(q.From, f.After+"\x00") // the next text there is
	}
	if !f.Until.IsZero() {
		until := firstID(time.UnixMilli(max(f.Until.UnixMilli(), 0)))
		if f.Until.UnixMilli() > 0 {
			until = firstID(f.Until)
		}
		if q.Before == "" || until < q.Before {
			q.Before = until
		}
	}
	return q, nil
}

// Row returns the call whose id is, or begins with, the given text. Errors
// wrap ErrNotFound, ErrAmbiguous, ErrInvalid or ErrCorrupt.
func (l *Log) Row(ctx context.Context, prefix string) (Row, error) {
	call, err := l.find(ctx, prefix)
	if err != nil {
		return Row{}, err
	}
	row := rowOf(&call)
	if row.Damaged != "" {
		return Row{}, fmt.Errorf("%w: call %s: %s", ErrCorrupt, row.ID, row.Damaged)
	}
	return row, nil
}

// find returns the call whose id is, or begins with, the given text.
func (l *Log) find(ctx context.Context, prefix string) (Call, error) {
	if !isPrefix(prefix) {
		return Call{}, fmt.Errorf("%w: id %.40q: want the beginning of a UUID, in lower case", ErrInvalid, prefix)
	}
	calls, err := l.store.Calls(ctx, Query{Prefix: prefix, Limit: 2})
	switch {
	case err != nil:
		return Call{}, fmt.Errorf("row: %w", err)
	case len(calls) == 0:
		return Call{}, fmt.Errorf("%w: %s", ErrNotFound, prefix)
	case len(calls) > 1:
		return Call{}, fmt.Errorf("%w: %s (%s, %s, ...)", ErrAmbiguous, prefix, calls[0].Entry.ID, calls[1].Entry.ID)
	}
	return calls[0], nil
}

// rowOf makes the view over a call's events, each of which must be what was
// written: its hash is computed again.
func rowOf(c *Call) Row {
	row := Row{ID: c.Entry.ID}
	if len(c.Events) == 0 {
		return Row{ID: c.Entry.ID, Damaged: "it has no events"}
	}
	for _, s := range c.Events {
		if err := row.add(s); err != nil {
			return Row{ID: c.Entry.ID, Damaged: fmt.Sprintf("event %d: %v", s.Seq, err)}
		}
	}
	if row.Erased != 0 {
		row.Level, row.Outcome, row.Reason = c.Entry.Level, c.Entry.Outcome, c.Entry.Reason
	}
	return row
}

func (r *Row) add(s Stored) error {
	e, err := DecodeEvent(s)
	switch {
	case err != nil:
		return err
	case !e.Intact():
		return fmt.Errorf("%w: it is not what was written", ErrCorrupt)
	case e.CallID != r.ID:
		return fmt.Errorf("%w: it is another call's", ErrCorrupt)
	}
	first := r.Started.IsZero()
	if first {
		r.Started, r.Instance = e.At, e.Instance
	}
	if e.Kind.Ends() {
		receipt := e.receipt()
		r.Ended, r.Receipt = e.At, &receipt
	}
	return r.addBody(&e, first)
}

func (r *Row) addBody(e *Event, first bool) (err error) {
	if e.Erased() {
		r.Erased = e.Pruned
		return nil
	}
	switch e.Kind {
	case KindIntent:
		if r.Intent, err = decodeBody[IntentRecord](e); err == nil {
			r.name(r.Intent)
		}
	case KindOutcome:
		if r.Ending, err = decodeBody[Ending](e); err == nil {
			r.Ending.ID, r.Outcome = e.CallID, r.Ending.Outcome
			err = wantWord(r.Outcome.Valid() && r.Outcome != envelope.OutcomeLost)
		}
	case KindRefusal:
		if r.Refused, err = decodeBody[RefusedRecord](e); err == nil {
			r.Reason = r.Refused.Refusal.Reason
			err = wantWord(r.Reason.Valid())
			if first {
				r.name(&r.Refused.IntentRecord)
			}
		}
	case KindLost:
		if r.Lost, err = decodeBody[LostRecord](e); err == nil {
			r.Outcome = envelope.OutcomeLost
		}
	}
	return err
}

// wantWord is the error of an ending that does not say what it is.
func wantWord(ok bool) error {
	if !ok {
		return ErrMalformed
	}
	return nil
}

func (r *Row) name(in *IntentRecord) {
	r.Task, r.Caller, r.Team, r.Tool, r.Level = in.Task, in.Caller, in.Team, in.Tool, in.Level
}
