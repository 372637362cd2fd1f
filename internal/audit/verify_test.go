package audit_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// chain writes n events: calls that ran, were refused, and were lost.
func chain(t testing.TB, n int) (*storetest.Memory, *audit.Log, []envelope.Receipt) {
	t.Helper()
	c, m := newClock(), new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: c})
	var receipts []envelope.Receipt
	for i := 0; len(events(m)) < n; i++ {
		c.move(time.Millisecond)
		id := l.NewID()
		if i%5 == 4 {
			r, err := l.Refuse(t.Context(), refused(id, envelope.ReasonPolicy))
			if err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, r)
			continue
		}
		intend(t, l, id)
		receipts = append(receipts, complete(t, l, id))
	}
	return m, l, receipts
}

// events returns a deep copy of what is stored.
func events(m *storetest.Memory) (list []audit.Stored) {
	m.Tamper(func(s *storetest.State) { list = copyEvents(s.Events) })
	return list
}

func copyEvents(list []audit.Stored) []audit.Stored {
	out := slices.Clone(list)
	for i := range out {
		out[i].Body, out[i].Prev, out[i].Hash = bytes.Clone(out[i].Body), bytes.Clone(out[i].Prev), bytes.Clone(out[i].Hash)
	}
	return out
}

// rehash gives a stored event the right hash for what it says now.
func rehash(s *audit.Stored) {
	if e, err := audit.DecodeEvent(*s); err == nil {
		h := e.Sum()
		s.Hash = h[:]
	}
}

func has(rep audit.VerifyReport, what string, seq int64) bool {
	return slices.ContainsFunc(rep.Problems, func(p audit.Problem) bool { return (what == "" || p.What == what) && p.Seq == seq })
}

func TestVerifyIntact(t *testing.T) {
	_, l, receipts := chain(t, 400) // several pages
	rep := verify(t, l, receipts...)
	last := receipts[len(receipts)-1]
	if !rep.Intact() || rep.Events < 400 || rep.ProvenTo != last.Seq || rep.Head.Seq != last.Seq || rep.Head.Head != last.Head || rep.Open != 0 {
		t.Errorf("%+v", rep)
	}
	rep = verify(t, l)
	if !rep.Intact() || rep.ProvenTo != 0 || rep.Tail != "tail unproven after 0" {
		t.Errorf("without receipts: %+v", rep)
	}
	empty := newLog(t, new(storetest.Memory), audit.Options{})
	if rep := verify(t, empty); !rep.Intact() || rep.Events != 0 || rep.Head != nil {
		t.Errorf("an empty chain: %+v", rep)
	}
}

// edit changes one byte of one field of a stored event.
func edit(rt *rapid.T, s *audit.Stored) {
	flip := func(b []byte, label string) {
		i := rapid.IntRange(0, len(b)-1).Draw(rt, label)
		b[i] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
	}
	flipText := func(text *string, label string) {
		b := []byte(*text)
		flip(b, label)
		*text = string(b)
	}
	flipNumber := func(n *int64) { *n ^= 1 << rapid.IntRange(0, 63).Draw(rt, "bit") }
	switch rapid.SampledFrom([]string{"chain", "seq", "kind", "call", "instance", "at", "body", "prev", "hash"}).Draw(rt, "field") {
	case "chain":
		flipText(&s.Chain, "byte")
	case "seq":
		flipNumber(&s.Seq)
	case "kind":
		flipNumber(&s.Kind)
	case "call":
		flipText(&s.CallID, "byte")
	case "instance":
		flipText(&s.Instance, "byte")
	case "at":
		flipNumber(&s.At)
	case "body":
		flip(s.Body, "byte")
	case "prev":
		flip(s.Prev, "byte")
	case "hash":
		flip(s.Hash, "byte")
	}
}

// TestVerifyFindsEveryEdit changes any one byte of any one event, and wants to
// be told which.
func TestVerifyFindsEveryEdit(t *testing.T) {
	m, l, _ := chain(t, 40)
	clean := events(m)
	rapid.Check(t, func(rt *rapid.T) {
		changed := copyEvents(clean)
		i := rapid.IntRange(0, len(changed)-1).Draw(rt, "event")
		edit(rt, &changed[i])
		m.Tamper(func(s *storetest.State) { s.Events = changed })
		rep := verify(t, l)
		seq := int64(i + 1)
		last := i == len(changed)-1
		if changed[i].Chain != "local" && last {
			return // it is cut off the end: see TestVerifyFindsCuts
		}
		if rep.Intact() || !has(rep, "", seq) && !has(rep, "", changed[i].Seq) {
			rt.Fatalf("event %d was changed, and the report is %+v", seq, rep)
		}
	})
}

// TestVerifyFindsEveryRewrite changes an event and gives it its right hash.
func TestVerifyFindsEveryRewrite(t *testing.T) {
	m, l, receipts := chain(t, 40)
	clean := events(m)
	rapid.Check(t, func(rt *rapid.T) {
		changed := copyEvents(clean)
		i := rapid.IntRange(0, len(changed)-1).Draw(rt, "event")
		changed[i].At += int64(rapid.IntRange(1, 1e9).Draw(rt, "later"))
		rehash(&changed[i])
		m.Tamper(func(s *storetest.State) { s.Events = changed })
		seq := int64(i + 1)
		if rep := verify(t, l); !has(rep, audit.ProblemUnlinked, seq+1) && seq < int64(len(changed)) {
			rt.Fatalf("event %d was rewritten, and the report is %+v", seq, rep)
		}
		// From there on everything is linked anew: only a receipt tells.
		for j := i + 1; j < len(changed); j++ {
			changed[j].Prev = changed[j-1].Hash
			rehash(&changed[j])
		}
		if rep := verify(t, l); !rep.Intact() {
			rt.Fatalf("a whole new tail is a chain, and the report is %+v", rep)
		}
		rep := verify(t, l, receipts...)
		first := slices.IndexFunc(receipts, func(r envelope.Receipt) bool { return r.Seq >= seq })
		if !has(rep, audit.ProblemRewritten, receipts[first].Seq) || rep.ProvenTo >= seq {
			rt.Fatalf("the tail from %d on was rewritten, and the report is %+v", seq, rep)
		}
	})
}

func TestVerifyFindsDeletionSwapInsertion(t *testing.T) {
	m, l, _ := chain(t, 40)
	clean := events(m)
	rapid.Check(t, func(rt *rapid.T) {
		changed := copyEvents(clean)
		i := rapid.IntRange(0, len(changed)-2).Draw(rt, "i")
		j := rapid.IntRange(i+1, len(changed)-1).Draw(rt, "j")
		var want int64
		switch what := rapid.SampledFrom([]string{"delete", "delete many", "swap", "renumber", "insert", "insert again"}).Draw(rt, "what"); what {
		case "delete":
			changed, want = slices.Delete(changed, i, i+1), int64(i+1)
		case "delete many":
			changed, want = slices.Delete(changed, i, j), int64(i+1)
		case "swap":
			changed[i], changed[j] = changed[j], changed[i]
			changed[i].Seq, changed[j].Seq, want = int64(i+1), int64(j+1), int64(i+1)
		case "renumber":
			changed[i].Seq, changed[j].Seq, want = changed[j].Seq, changed[i].Seq, int64(i+1)
		case "insert": // a new one, rightly hashed and linked, in place of another's number
			e := changed[i]
			e.At++
			rehash(&e)
			changed, want = slices.Insert(changed, i+1, e), int64(i+1)
		case "insert again":
			changed, want = slices.Insert(changed, j, changed[i]), int64(i+1)
		}
		m.Tamper(func(s *storetest.State) { s.Events = changed })
		if rep := verify(t, l); rep.Intact() || !has(rep, "", want) {
			rt.Fatalf("want event %d, the report is %+v", want, rep)
		}
	})
}

// TestVerifyFindsCuts takes the tail off: with a receipt it is found, without
// one it is told that it would not be.
func TestVerifyFindsCuts(t *testing.T) {
	m, l, receipts := chain(t, 40)
	clean := events(m)
	anchor := receipts[len(receipts)-1]
	for n := len(clean) - 1; n >= 0; n-- {
		m.Tamper(func(s *storetest.State) { // together with everything that depends on it
			s.Events = s.Events[:n]
			maps.DeleteFunc(s.Entries, func(_ string, e audit.Entry) bool { return e.First > int64(n) })
		})
		rep := verify(t, l, receipts[0], anchor)
		if !has(rep, audit.ProblemCut, int64(n+1)) {
			t.Fatalf("cut after %d: %+v", n, rep)
		}
		if rep := verify(t, l); has(rep, audit.ProblemCut, int64(n+1)) || rep.Tail != "tail unproven after 0" {
			t.Fatalf("cut after %d, without a receipt: %+v", n, rep)
		}
	}
}

func TestVerifyFindsUnfinished(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: c})
	id := l.NewID()
	intend(t, l, id)
	if rep := verify(t, l); !rep.Intact() || rep.Open != 1 || rep.Calls != 1 {
		t.Errorf("a call that runs: %+v", rep)
	}
	c.move(time.Hour)
	if rep := verify(t, l); !has(rep, audit.ProblemUnfinished, 1) || rep.Open != 0 {
		t.Errorf("a call of a dead process: %+v", rep)
	}
	if _, err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Calls != 1 {
		t.Errorf("recovered: %+v", rep)
	}
}

// forge appends a rightly linked event to the stored ones.
func forge(s *storetest.State, kind audit.Kind, id, body string) {
	e := audit.Event{Chain: "local", Seq: int64(len(s.Events) + 1), Kind: kind, CallID: id, Instance: "x",
		At: storetest.Time(1), Body: []byte(body)}
	if n := len(s.Events); n > 0 {
		e.Prev = audit.Hash(s.Events[n-1].Hash)
	}
	e.Hash = e.Sum()
	s.Events = append(s.Events, e.Stored())
}

// TestVerifyFindsForgedCalls has the chain in order and the calls not.
func TestVerifyFindsForgedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		what string
		seq  int64
		do   func(s *storetest.State, id string)
	}{
		"second outcome": {audit.ProblemDoubled, 3, func(s *storetest.State, id string) {
			forge(s, audit.KindOutcome, id, `{"outcome":"completed"}`)
		}},
		"second intent": {audit.ProblemDoubled, 3, func(s *storetest.State, id string) { forge(s, audit.KindIntent, id, `{}`) }},
		"lost after outcome": {audit.ProblemDoubled, 3, func(s *storetest.State, id string) {
			forge(s, audit.KindLost, id, `{"instance":"x"}`)
		}},
		"outcome without intent": {audit.ProblemUnpaired, 3, func(s *storetest.State, _ string) {
			forge(s, audit.KindOutcome, callA, `{"outcome":"completed"}`)
		}},
		"no entry": {audit.ProblemIndex, 1, func(s *storetest.State, id string) { delete(s.Entries, id) }},
		"other task": {audit.ProblemIndex, 1, func(s *storetest.State, id string) {
			e := s.Entries[id]
			e.Task = "other"
			s.Entries[id] = e
		}},
		"other outcome": {audit.ProblemIndex, 2, func(s *storetest.State, id string) {
			e := s.Entries[id]
			e.Outcome = envelope.OutcomeMemory
			s.Entries[id] = e
		}},
		"open again": {audit.ProblemIndex, 2, func(s *storetest.State, id string) {
			e := s.Entries[id]
			e.Last, e.Outcome = 0, 0
			s.Entries[id] = e
		}},
		"body that is none": {audit.ProblemIndex, 3, func(s *storetest.State, _ string) {
			forge(s, audit.KindRefusal, callA, `{"refusal":{"reason":"whim"}}`)
			s.Entries[callA] = audit.Entry{ID: callA, Chain: "local", First: 3, Last: 3, Instance: "x"}
		}},
	} {
		m := new(storetest.Memory)
		l := newLog(t, m, audit.Options{Clock: newClock()})
		id := l.NewID()
		intend(t, l, id)
		complete(t, l, id)
		m.Tamper(func(s *storetest.State) { c.do(s, id) })
		if rep := verify(t, l); !has(rep, c.what, c.seq) {
			t.Errorf("%s: want %s at %d: %+v", name, c.what, c.seq, rep)
		}
	}
}

func TestVerifyListsAFewProblems(t *testing.T) {
	m, l, _ := chain(t, 40)
	m.Tamper(func(s *storetest.State) {
		s.Events = copyEvents(s.Events)
		for i := range s.Events {
			s.Events[i].Hash = s.Events[i].Hash[:31]
		}
	})
	rep, err := l.Verify(t.Context(), audit.VerifyOptions{Problems: 3})
	if err != nil || len(rep.Problems) != 3 || rep.More != rep.Events-3 || rep.Intact() {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	_, l, receipts := chain(t, 4)
	for name, change := range map[string]func(*envelope.Receipt){
		"other chain": func(r *envelope.Receipt) { r.Chain = "other" },
		"seq 0":       func(r *envelope.Receipt) { r.Seq = 0 },
		"no hash":     func(r *envelope.Receipt) { r.Head = "" },
		"half a hash": func(r *envelope.Receipt) { r.Head = r.Head[:32] },
		"capitals":    func(r *envelope.Receipt) { r.Head = "A" + r.Head[1:] },
		"no digits":   func(r *envelope.Receipt) { r.Head = "g" + r.Head[1:] },
	} {
		r := receipts[0]
		change(&r)
		if _, err := l.Verify(t.Context(), audit.VerifyOptions{Against: []envelope.Receipt{r}}); !errors.Is(err, audit.ErrReceipt) {
			t.Errorf("%s: %v, want ErrReceipt", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Verify(ctx, audit.VerifyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}
