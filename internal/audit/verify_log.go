package audit

import (
	"context"
	"fmt"
)

// maxPrunes is how many prunes a walk remembers. Events that lie together were
// mostly erased together.
const maxPrunes = 16

// erased checks that an event whose body is gone is named by an event that
// says so.
func (v *verifier) erased(ctx context.Context, e *Event) error {
	if !e.Erased() {
		return nil
	}
	rec, err := v.prune(ctx, e.Pruned)
	switch {
	case err != nil:
		return err
	case rec == nil || !rec.has(e.Seq) || !e.Kind.OfCall():
		v.problem(ProblemErased, e.Seq, e.CallID, fmt.Sprintf("its body is gone, and event %d does not say so", e.Pruned))
	default:
		v.report.Erased++
	}
	return nil
}

// prune looks up a prune; nil where the event is none, or is not what was
// written. Its own place in the chain is checked when the walk comes there.
func (v *verifier) prune(ctx context.Context, seq int64) (*PruneRecord, error) {
	if rec, ok := v.prunes[seq]; ok {
		return rec, nil
	}
	page, err := v.log.store.Events(ctx, v.log.chain, seq-1, 1)
	if err != nil {
		return nil, err
	}
	var rec *PruneRecord
	if len(page) == 1 && page[0].Seq == seq {
		e, err := DecodeEvent(page[0])
		if err == nil && e.Kind == KindPrune && !e.Erased() && e.Intact() {
			rec, _ = decodeBody[PruneRecord](&e) // nil where it is no record
		}
	}
	if len(v.prunes) >= maxPrunes {
		clear(v.prunes)
	}
	v.prunes[seq] = rec
	return rec, nil
}

// checkpoint checks a checkpoint of the chain: it names the event before it,
// and is signed with the key, where that is known and the one it names.
func (v *verifier) checkpoint(e *Event) {
	v.report.Checkpoints++
	bad := func(detail string) { v.problem(ProblemCheckpoint, e.Seq, "", detail) }
	if e.Erased() {
		return // told by erased
	}
	c, err := ParseCheckpoint(e.Body)
	if err != nil {
		bad(err.Error())
		return
	}
	for _, h := range c.Heads {
		if h.Chain == v.log.chain && (h.Seq != v.before.Seq || h.Head != v.before.Hash.String()) {
			bad(fmt.Sprintf("it vouches for an event %d that is not the one before it", h.Seq))
			return
		}
	}
	switch {
	case v.key == nil:
	case c.Key != v.key.ID():
		v.report.Foreign++
	default:
		if err := c.Check(*v.key); err != nil {
			bad(err.Error())
			return
		}
		v.report.ProvenTo = max(v.report.ProvenTo, v.before.Seq)
	}
}
