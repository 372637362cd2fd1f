package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// maxName bounds the names that calls are found by, in bytes.
const maxName = 1024

// Intend records that a call is about to run. When it returns nil the record
// is durable; otherwise nothing of the call may run. Digesting the call's
// inputs takes its time here.
//
// Errors wrap ErrInvalid, ErrTooLarge, ErrExists, ErrUnwritable, ErrClosed or
// the context's.
func (l *Log) Intend(ctx context.Context, in Intent) error {
	if err := checkIntent(&in); err != nil {
		return err
	}
	body, err := l.intentBody(&in)
	if err != nil {
		return fmt.Errorf("intent of %s: %w", in.ID, err)
	}
	if err := l.begin(ctx, in.ID); err != nil {
		return fmt.Errorf("intent of %s: %w", in.ID, err)
	}
	entry := l.entryOf(&in)
	var seq int64
	err = l.store.Update(ctx, func(tx Tx) error {
		instance, err := l.grant(tx)
		if err != nil {
			return err
		}
		entry.Instance = instance
		e, err := l.append(tx, KindIntent, body, entry)
		if err == nil {
			seq = e.Seq
		}
		return err
	})
	if errors.Is(err, ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err != nil {
		l.end(in.ID)
		return fmt.Errorf("intent of %s: %w", in.ID, err)
	}
	l.intended(in.ID, seq)
	return nil
}

func (l *Log) intentBody(in *Intent) (json.RawMessage, error) {
	s := l.scribe(in.Redact)
	args, err := s.argumentsFor(in, true)
	if err != nil {
		return nil, err
	}
	rec, err := s.intentRecord(in, args)
	if err != nil {
		return nil, err
	}
	return encodeBody(rec)
}

func (l *Log) refusedBody(r *Refused) (_ json.RawMessage, err error) {
	s := l.scribe(r.Redact)
	after := l.intentOf(r.ID)
	var args *Arguments
	switch {
	case after != 0:
		args, err = s.said(r.ID, r.Said)
	case r.Call != nil:
		args, err = s.argumentsFor(&r.Intent, false)
	}
	if err != nil {
		return nil, err
	}
	rec, err := s.refusedRecord(r, after, args)
	if err != nil {
		return nil, err
	}
	return encodeBody(rec)
}

// argumentsFor is what the first event of a call has of its arguments.
func (l *scribe) argumentsFor(in *Intent, digest bool) (*Arguments, error) {
	if in.Hold {
		return l.held(in.Call), nil
	}
	return l.argumentsOf(in.ID, in.Call, digest)
}

func checkIntent(in *Intent) error {
	switch {
	case !isID(in.ID):
		return fmt.Errorf("%w: id %.40q: want a UUIDv7", ErrInvalid, in.ID)
	case in.Call == nil || in.Envelope == nil:
		return fmt.Errorf("%w: intent of %s without call or envelope", ErrInvalid, in.ID)
	case !in.Level.Valid() || in.Level == envelope.LevelAuto:
		return fmt.Errorf("%w: intent of %s at %v", ErrInvalid, in.ID, in.Level)
	}
	for _, name := range []string{in.Caller, in.Team, in.Call.Task, in.Call.Tool, in.Call.Profile, in.Envelope.Image} {
		if clean(name, maxName) != name {
			return fmt.Errorf("%w: %.40q...: want UTF-8 without NUL, at most %d bytes", ErrInvalid, name, maxName)
		}
	}
	return nil
}

// Complete records how a call has ended, and returns what the caller can hold
// against the log. It is to be called with a context that does not end with
// the request's.
//
// Where the store does not take the ending now (ErrUnwritable), the Log keeps
// it and writes it when the store does, as long as the process lives and the
// endings that wait are few; the error is returned all the same, for an answer
// without a row is not to be sent. Other errors wrap ErrFenced, ErrNoIntent,
// ErrEnded, ErrInvalid or the context's.
func (l *Log) Complete(ctx context.Context, e Ending) (envelope.Receipt, error) {
	if !isID(e.ID) || !e.Outcome.Valid() || e.Outcome == envelope.OutcomeLost {
		return envelope.Receipt{}, fmt.Errorf("%w: ending of %.40q as %v", ErrInvalid, e.ID, e.Outcome)
	}
	rec, err := l.scribe(e.Redact).endingRecord(&e)
	if err != nil {
		return envelope.Receipt{}, fmt.Errorf("outcome of %s: %w", e.ID, err)
	}
	body, err := encodeBody(rec)
	if err != nil {
		return envelope.Receipt{}, fmt.Errorf("outcome of %s: %w", e.ID, err)
	}
	return l.finish(ctx, waiting{id: e.ID, kind: KindOutcome, body: body, outcome: e.Outcome, hosts: hostsOf(rec.Egress)})
}

// Refuse records that a call was refused: before its intent, or after it where
// its cell could not be built. It returns what Complete returns. Contents of
// inputs are not digested.
func (l *Log) Refuse(ctx context.Context, r Refused) (envelope.Receipt, error) {
	if !isID(r.ID) || !r.Refusal.Reason.Valid() {
		return envelope.Receipt{}, fmt.Errorf("%w: refusal of %.40q as %v", ErrInvalid, r.ID, r.Refusal.Reason)
	}
	body, err := l.refusedBody(&r)
	if err != nil {
		return envelope.Receipt{}, fmt.Errorf("refusal of %s: %w", r.ID, err)
	}
	return l.finish(ctx, waiting{id: r.ID, kind: KindRefusal, body: body, reason: r.Refusal.Reason, alone: l.entryOf(&r.Intent)})
}

// finish writes an ending, or keeps it to be written later.
func (l *Log) finish(ctx context.Context, w waiting) (envelope.Receipt, error) {
	if l.isClosed() {
		return envelope.Receipt{}, ErrClosed
	}
	receipt, err := l.writeEnding(ctx, w)
	if errors.Is(err, ErrUnwritable) && l.wait(w) {
		return envelope.Receipt{}, fmt.Errorf("%v of %s, kept to be written later: %w", w.kind, w.id, err)
	}
	l.end(w.id)
	if err != nil {
		return envelope.Receipt{}, fmt.Errorf("%v of %s: %w", w.kind, w.id, err)
	}
	return receipt, nil
}

// writeEnding writes an ending in a transaction that has seen that this
// instance may.
func (l *Log) writeEnding(ctx context.Context, w waiting) (envelope.Receipt, error) {
	var receipt envelope.Receipt
	err := l.store.Update(ctx, func(tx Tx) error {
		entry, ok, err := tx.Entry(w.id)
		if err != nil {
			return err
		}
		if !ok && w.kind != KindRefusal {
			return ErrNoIntent
		}
		if !ok {
			entry = w.alone
			entry.Instance = l.instanceID()
		} else if err := l.mayEnd(tx, &entry); err != nil {
			return err
		}
		entry.Outcome, entry.Reason = w.outcome, w.reason
		e, err := l.append(tx, w.kind, w.body, entry)
		if err == nil && len(w.hosts) > 0 {
			err = tx.AddHosts(w.id, w.hosts)
		}
		if err == nil {
			receipt = l.receipt(e)
		}
		return err
	})
	return receipt, err
}

// mayEnd says whether this instance may end a call that it finds in the store.
func (l *Log) mayEnd(tx Tx, entry *Entry) error {
	switch {
	case entry.Outcome == envelope.OutcomeLost:
		return fmt.Errorf("%w: the call was completed as lost", ErrFenced)
	case !entry.Open():
		return ErrEnded
	case entry.Chain != l.chain || entry.Instance != l.instanceID():
		return fmt.Errorf("%w: the call is another instance's", ErrFenced)
	}
	until, ok, err := tx.Lease(entry.Instance)
	if err != nil {
		return err
	}
	if !ok || !l.now().Before(until) {
		return fmt.Errorf("%w: the lease has ended", ErrFenced)
	}
	return nil
}

// append adds an event about entry's call to the chain. An event that ends a
// call closes the entry.
func (l *Log) append(tx Tx, kind Kind, body json.RawMessage, entry Entry) (*Event, error) {
	head, err := tx.Head(l.chain)
	if err != nil {
		return nil, err
	}
	e := &Event{Chain: l.chain, Kind: kind, CallID: entry.ID, Instance: l.instanceID(), At: l.now(), Body: body}
	e.Link(head)
	if entry.First == 0 {
		entry.First = e.Seq
	}
	if kind.Ends() {
		entry.Last = e.Seq
	}
	if err := tx.Append(e, &entry); err != nil {
		return nil, err
	}
	l.count(1)
	return e, nil
}

// appendAbout adds an event that is about no call.
func (l *Log) appendAbout(tx Tx, kind Kind, record any) (*Event, error) {
	body, err := encodeBody(record)
	if err != nil {
		return nil, err
	}
	head, err := tx.Head(l.chain)
	if err != nil {
		return nil, err
	}
	e := &Event{Chain: l.chain, Kind: kind, Instance: l.instanceID(), At: l.now(), Body: body}
	e.Link(head)
	return e, tx.Append(e, nil)
}

// entryOf makes the entry of a call's first event.
func (l *Log) entryOf(in *Intent) Entry {
	e := Entry{ID: in.ID, Chain: l.chain, Caller: clean(in.Caller, maxName), Team: clean(in.Team, maxName), Level: in.Level}
	if c := in.Call; c != nil {
		e.Task, e.Tool = clean(c.Task, maxName), clean(c.Tool, maxName)
	}
	return e
}
