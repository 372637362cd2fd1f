package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// VerifyOptions are the settings of Verify.
type VerifyOptions struct {
	// Against are receipts that were kept outside the store. The chain must
	// hold the events they name.
	Against []envelope.Receipt
	// Checkpoints are what an anchor has kept. The chain must hold the heads
	// that they name.
	Checkpoints []Checkpoint
	// Key, where it is known from outside the store, is what signatures are
	// checked with: those of Against that have one, and of Checkpoints. With it
	// the checkpoints in the chain vouch for what is before them, too.
	Key *PublicKey
	// Progress is told, after every page, how many events were walked of how
	// many. nil: nobody is told.
	Progress func(done, of int64)
	// Problems is how many problems are listed; the others are counted.
	// 0: 100; at most 10,000.
	Problems int
}

// VerifyReport is what Verify found.
type VerifyReport struct {
	Chain  string `json:"chain"`
	Events int64  `json:"events"`
	Calls  int64  `json:"calls"` // that have an ending or a valid lease
	Open   int64  `json:"open"`  // of these, without an ending yet
	// Head is the last event there is, nil where there is none.
	Head *envelope.Receipt `json:"head,omitempty"`
	// Erased is how many events have lost their bodies, each by an event that
	// says so.
	Erased int64 `json:"erased,omitempty"`
	// Checkpoints are those in the chain; Foreign of them name another key than
	// the one that was given.
	Checkpoints int64 `json:"checkpoints,omitempty"`
	Foreign     int64 `json:"foreign,omitempty"`
	// ProvenTo is the last event that a receipt or checkpoint vouches for: up to
	// it nothing is missing or rewritten but what Problems names. 0: there is
	// none.
	ProvenTo int64 `json:"provenTo"`
	// Tail says what no walk can prove: "tail unproven after N".
	Tail     string    `json:"tail"`
	Problems []Problem `json:"problems,omitempty"` // in the order of the walk
	More     int64     `json:"more,omitempty"`     // problems that are not listed
}

// Intact reports whether no problem was found. It says nothing of the tail.
func (r *VerifyReport) Intact() bool { return len(r.Problems) == 0 }

// The words of Problem.What.
const (
	ProblemMalformed  = "malformed"  // the stored bytes are no event
	ProblemEdited     = "edited"     // the event does not have its hash
	ProblemUnlinked   = "unlinked"   // its link is not the hash of the event before
	ProblemGap        = "gap"        // events from Seq on are missing
	ProblemOrder      = "order"      // its sequence number comes again, or too late
	ProblemCut        = "cut"        // a receipt names an event beyond the end
	ProblemRewritten  = "rewritten"  // a receipt names an event with another hash
	ProblemUnpaired   = "unpaired"   // an ending without its intent before it
	ProblemDoubled    = "doubled"    // a second intent or ending of a call
	ProblemUnfinished = "unfinished" // an intent without ending, its lease gone: see Recover
	ProblemIndex      = "index"      // the call's entry is not what its events say
	ProblemErased     = "erased"     // its body is gone, and no event says so
	ProblemCheckpoint = "checkpoint" // a checkpoint that says what the chain does not, or is not signed
)

// Problem is one thing that is wrong with a chain, and where.
type Problem struct {
	What   string `json:"what"` // a word from the list above
	Seq    int64  `json:"seq"`
	CallID string `json:"call,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// verifyPage is how many events are held at once.
const verifyPage = 128

// Verify walks the chain from its beginning and reports what is wrong with it.
// It holds a bounded part of it in memory and no transaction open; events that
// are added meanwhile are included. An error means that it could not be walked
// to its end: it wraps ErrReceipt, ErrCorrupt or the context's.
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	v := &verifier{log: l, most: o.Problems, key: o.Key, report: VerifyReport{Chain: l.chain}, prunes: map[int64]*PruneRecord{}}
	if v.most <= 0 {
		v.most = 100
	}
	v.most = min(v.most, 10_000)
	if err := errors.Join(v.receipts(o.Against), v.checkpoints(o.Checkpoints)); err != nil {
		return VerifyReport{}, err
	}
	slices.SortFunc(v.against, func(a, b against) int { return cmp.Compare(a.seq, b.seq) })
	progress, err := l.progress(ctx, o.Progress)
	if err != nil {
		return VerifyReport{}, err
	}
	for after := int64(math.MinInt64); ; {
		page, err := l.store.Events(ctx, l.chain, after, verifyPage)
		if err != nil {
			return VerifyReport{}, fmt.Errorf("verify after %d: %w", v.head.Seq, err)
		}
		if len(page) == 0 {
			return v.finish(), nil
		}
		if err := v.page(ctx, page); err != nil {
			return VerifyReport{}, fmt.Errorf("verify after %d: %w", v.head.Seq, err)
		}
		after = page[len(page)-1].Seq
		progress(v.report.Events)
	}
}

// progress returns what tells the walk's progress.
func (l *Log) progress(ctx context.Context, tell func(done, of int64)) (func(int64), error) {
	if tell == nil {
		return func(int64) {}, nil
	}
	p, err := l.store.Progress(ctx, l.chain)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return func(done int64) { tell(done, max(done, p.Head.Seq)) }, nil
}

type verifier struct {
	log     *Log
	most    int
	report  VerifyReport
	key     *PublicKey
	against []against
	head    Head                   // of the walk
	before  Head                   // what it was before the present event
	prunes  map[int64]*PruneRecord // those looked up last; nil: no such event
}

// against is a receipt that is still to be met.
type against struct {
	seq  int64
	hash Hash
}

func (v *verifier) receipts(list []envelope.Receipt) error {
	for _, r := range list {
		if r.Chain != v.log.chain || r.Seq < 1 {
			return fmt.Errorf("%w: event %d of chain %.40q, not of %q", ErrReceipt, r.Seq, r.Chain, v.log.chain)
		}
		hash, err := parseHash(r.Head)
		if err != nil {
			return err
		}
		if v.key != nil && r.Signature != "" {
			if err := CheckReceipt(r, *v.key); err != nil {
				return err
			}
		}
		v.against = append(v.against, against{r.Seq, hash})
	}
	return nil
}

// checkpoints takes those that were kept outside. Those that say nothing of
// the chain are an error: nothing would be compared.
func (v *verifier) checkpoints(list []Checkpoint) error {
	for i := range list {
		if v.key != nil {
			if err := list[i].Check(*v.key); err != nil {
				return err
			}
		}
		ours := 0
		for _, h := range list[i].Heads {
			if h.Chain != v.log.chain {
				continue
			}
			hash, err := parseHash(h.Head)
			if err != nil {
				return err
			}
			v.against = append(v.against, against{h.Seq, hash})
			ours++
		}
		if ours == 0 {
			return fmt.Errorf("%w: a checkpoint without chain %q", ErrReceipt, v.log.chain)
		}
	}
	return nil
}

func (v *verifier) problem(what string, seq int64, id, detail string) {
	if len(v.report.Problems) >= v.most {
		v.report.More++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{What: what, Seq: seq, CallID: id, Detail: detail})
}

// page checks one page: each event and its link, then the calls.
func (v *verifier) page(ctx context.Context, page []Stored) error {
	var events []Event
	for _, s := range page {
		v.report.Events++
		e, err := DecodeEvent(s)
		if err != nil {
			v.problem(ProblemMalformed, s.Seq, "", err.Error())
			v.step(s.Seq, storedHash(s))
			continue
		}
		if !v.link(&e) {
			continue
		}
		if err := v.erased(ctx, &e); err != nil {
			return err
		}
		switch {
		case e.Kind.OfCall():
			events = append(events, e)
		case e.Kind == KindCheckpoint:
			v.checkpoint(&e)
		}
	}
	return v.calls(ctx, events)
}

// link checks an event and its link, moves on to it, and reports whether it is
// what was written.
func (v *verifier) link(e *Event) bool {
	written := e.Intact()
	if !written {
		v.problem(ProblemEdited, e.Seq, e.CallID, "its hash is not that of its contents")
	}
	v.before = v.head
	if v.step(e.Seq, e.Hash) != e.Prev {
		v.problem(ProblemUnlinked, e.Seq, e.CallID, "it does not link to the event before it")
	}
	v.meet(e.Seq, e.Hash)
	return written
}

// step moves the head, notes a step that is not one, and returns the hash
// that the event's link must have.
func (v *verifier) step(seq int64, hash Hash) Hash {
	before := v.head
	switch {
	case seq <= before.Seq:
		v.problem(ProblemOrder, seq, "", fmt.Sprintf("it comes after event %d", before.Seq))
	case seq > before.Seq+1:
		v.problem(ProblemGap, before.Seq+1, "", fmt.Sprintf("events %d to %d are missing", before.Seq+1, seq-1))
	}
	v.head = Head{Seq: max(seq, before.Seq), Hash: hash}
	return before.Hash
}

func storedHash(s Stored) (h Hash) {
	copy(h[:], s.Hash)
	return h
}

// meet compares an event with the receipts that name it.
func (v *verifier) meet(seq int64, hash Hash) {
	for len(v.against) > 0 && v.against[0].seq <= seq {
		r := v.against[0]
		v.against = v.against[1:]
		switch {
		case r.seq < seq: // the gap has been told
		case r.hash != hash:
			v.problem(ProblemRewritten, seq, "", "a receipt has another hash for it")
		default:
			v.report.ProvenTo = max(v.report.ProvenTo, seq)
		}
	}
}

func (v *verifier) finish() VerifyReport {
	if len(v.against) > 0 {
		last := v.against[len(v.against)-1].seq
		v.problem(ProblemCut, v.head.Seq+1, "", fmt.Sprintf("a receipt names event %d, the chain ends with %d", last, v.head.Seq))
	}
	if v.report.Events > 0 {
		v.report.Head = &envelope.Receipt{Chain: v.log.chain, Seq: v.head.Seq, Head: v.head.Hash.String()}
	}
	v.report.Tail = fmt.Sprintf("tail unproven after %d", v.report.ProvenTo)
	return v.report
}
