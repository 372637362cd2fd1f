package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// teamCall writes a call of a team that tried to reach a host, and returns its
// id.
func teamCall(t testing.TB, l *audit.Log, team string) string {
	t.Helper()
	in := intent(l.NewID())
	in.Team = team
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	e := completed(in.ID)
	e.Egress = &envelope.Egress{Attempts: []envelope.Attempt{{Host: "b.example", Verdict: envelope.VerdictAllowed},
		{Host: "a.example", Verdict: envelope.VerdictDenied}, {Host: "b.example", Verdict: envelope.VerdictAllowed}}}
	if _, err := l.Complete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return in.ID
}

func ids(t testing.TB, l *audit.Log, f audit.Filter) (list []string) {
	t.Helper()
	for _, r := range must(l.List(t.Context(), f))(t) {
		list = append(list, r.ID)
	}
	return list
}

// TestPruneByTeam: each team's rows go at their age; the chain stays whole.
func TestPruneByTeam(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	l := newLog(t, m, audit.Options{Clock: c, Signer: testKey(1), CheckpointEvents: 1 << 30})
	var all []string
	for i := range 300 { // of one team more than a batch
		c.move(time.Minute)
		all = append(all, teamCall(t, l, map[bool]string{true: "pro", false: "free"}[i%30 == 0]))
	}
	if err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	age := audit.Retention{By: "local", Age: func(team string) time.Duration { return map[string]time.Duration{"free": time.Hour}[team] }}
	c.move(30 * time.Minute)
	intend(t, l, l.NewID()) // open
	rep := must(l.Prune(t.Context(), age))(t)
	if rep.Calls != 260 || rep.Events != 520 || rep.Prunes != 2 {
		t.Errorf("%+v", rep)
	}
	if again := must(l.Prune(t.Context(), age))(t); again != (audit.PruneReport{}) {
		t.Errorf("again: %+v", again)
	}
	if got := ids(t, l, audit.Filter{Team: "free", Oldest: true}); len(got) != 30 || got[0] != all[269] {
		t.Errorf("%d of free are left", len(got))
	}
	if got := ids(t, l, audit.Filter{Team: "pro", Limit: 1000}); len(got) != 10 {
		t.Errorf("%d of pro are left", len(got))
	}
	if got := ids(t, l, audit.Filter{Host: "a.example", Limit: 1000}); len(got) != 40 {
		t.Errorf("%d are found by their host", len(got))
	}
	if _, err := l.Row(t.Context(), all[1]); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("a pruned call: %v", err)
	}
	report := must(l.Verify(t.Context(), audit.VerifyOptions{Key: public(1)}))(t)
	if !report.Intact() || report.Erased != 520 || report.Calls != 301 || report.ProvenTo != 600 {
		t.Errorf("%+v", report)
	}
	for _, s := range events(m) {
		if s.Pruned != 0 && (len(s.Body)+len(s.Salt) != 0 || len(s.Commitment) != 32) {
			t.Errorf("left of event %d: %+v", s.Seq, s)
		}
	}
}

// TestErase takes one call's bodies: nothing of them is left but what the
// chain needs.
func TestErase(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	l := newLog(t, m, audit.Options{Clock: c})
	before := teamCall(t, l, "red")
	c.move(time.Millisecond)
	id := teamCall(t, l, "red")
	c.move(time.Millisecond)
	after := teamCall(t, l, "red")
	receipt := *row(t, l, id).Receipt
	open := l.NewID()
	intend(t, l, open)
	if _, err := l.Erase(t.Context(), open, "local"); !errors.Is(err, audit.ErrOpen) {
		t.Errorf("an open call: %v", err)
	}
	if _, err := l.Erase(t.Context(), strings.Repeat("0", 8), "local"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("no call: %v", err)
	}
	for range 2 { // the second does nothing
		if got, err := l.Erase(t.Context(), id, "key:admin"); err != nil || got != id {
			t.Fatal(got, err)
		}
	}
	r := row(t, l, id)
	if r.Erased != 8 || r.Intent != nil || r.Ending != nil || r.Task+r.Caller+r.Tool+r.Team != "" ||
		r.Outcome != envelope.OutcomeCompleted || r.Level != envelope.LevelContainer || r.Receipt.Head != receipt.Head || r.Started.IsZero() {
		t.Errorf("%+v", r)
	}
	if got := ids(t, l, audit.Filter{Team: "red", Oldest: true}); !slices.Equal(got, []string{before, after}) {
		t.Errorf("found by its team: %q", got)
	}
	if got := ids(t, l, audit.Filter{Host: "b.example"}); len(got) != 2 {
		t.Errorf("found by its host: %q", got)
	}
	list := events(m)
	var rec audit.PruneRecord
	if err := json.Unmarshal(list[7].Body, &rec); err != nil || len(list) != 8 {
		t.Fatal(err, len(list))
	}
	if rec.Why != audit.PruneErasure || rec.By != "key:admin" || rec.CallID != id || !slices.Equal(rec.Events, []audit.Range{{3, 4}}) {
		t.Errorf("%+v", rec)
	}
	if rep := verify(t, l, receipt); !rep.Intact() || rep.Erased != 2 || rep.ProvenTo != 4 || rep.Calls != 4 {
		t.Errorf("%+v", rep)
	}
}

// TestTakenBodiesAreFound has somebody take a body away without saying so, or
// say what is not so.
func TestTakenBodiesAreFound(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	teamCall(t, l, "")
	id := teamCall(t, l, "")
	if _, err := l.Erase(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	clean := events(m)
	take := func(i int, by int64) func([]audit.Stored) {
		return func(e []audit.Stored) { e[i].Body, e[i].Salt, e[i].Pruned = nil, nil, by }
	}
	for name, c := range map[string]struct {
		change func([]audit.Stored)
		what   string
		seq    int64
	}{
		"by an erasure of another":    {take(0, 5), audit.ProblemErased, 1},
		"by an ending":                {take(0, 2), audit.ProblemErased, 1},
		"by what is not there":        {take(1, 99), audit.ProblemErased, 2},
		"by nothing":                  {take(1, 0), audit.ProblemMalformed, 2},
		"the event that says so":      {take(4, 6), audit.ProblemErased, 5},
		"its commitment, too":         {func(e []audit.Stored) { e[2].Commitment = make([]byte, 32) }, audit.ProblemEdited, 3},
		"a body put back":             {func(e []audit.Stored) { e[2].Body, e[2].Salt, e[2].Pruned = []byte("{}"), make([]byte, 16), 0 }, audit.ProblemEdited, 3},
		"the event that says so, cut": {func(e []audit.Stored) { e[4].Chain = "other" }, audit.ProblemErased, 3},
	} {
		changed := copyEvents(clean)
		c.change(changed)
		m.Tamper(func(s *storetest.State) { s.Events = changed })
		if rep := verify(t, l); !has(rep, c.what, c.seq) {
			t.Errorf("%s: %+v", name, rep)
		}
	}
}

// TestOldBodiesStay: version 1 hashes the body itself, so that erasing it would
// break the chain.
func TestOldBodiesStay(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	l := newLog(t, m, audit.Options{Clock: c})
	id := teamCall(t, l, "")
	m.Tamper(func(s *storetest.State) { // as the version before has written them
		for i := range s.Events {
			s.Events[i].Salt, s.Events[i].Commitment = nil, nil
			if i > 0 {
				s.Events[i].Prev = s.Events[i-1].Hash
			}
			rehash(&s.Events[i])
		}
	})
	c.move(time.Hour)
	teamCall(t, l, "")
	c.move(time.Hour)
	if _, err := l.Erase(t.Context(), id, ""); !errors.Is(err, audit.ErrOldFormat) {
		t.Errorf("erasing: %v", err)
	}
	rep := must(l.Prune(t.Context(), audit.Retention{Age: func(string) time.Duration { return time.Minute }}))(t)
	if rep.Calls != 1 {
		t.Errorf("%+v", rep)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Erased != 2 || rep.Events != 5 {
		t.Errorf("%+v", rep)
	}
	if r := row(t, l, id); r.Tool != "sh" {
		t.Errorf("%+v", r)
	}
}

// TestPruneThatCannotBeWrittenTakesNothing.
func TestPruneThatCannotBeWrittenTakesNothing(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	l := newLog(t, m, audit.Options{Clock: c})
	id := teamCall(t, l, "")
	c.move(time.Hour)
	m.Fault(func() error { return audit.ErrUnwritable })
	if _, err := l.Prune(context.Background(), audit.Retention{Age: func(string) time.Duration { return time.Minute }}); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("prune: %v", err)
	}
	if _, err := l.Erase(t.Context(), id, ""); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("erase: %v", err)
	}
	m.Fault(nil)
	if r := row(t, l, id); r.Erased != 0 || r.Ending == nil {
		t.Errorf("%+v", r)
	}
}
