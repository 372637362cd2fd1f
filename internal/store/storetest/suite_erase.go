package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// about appends an event that is about no call.
func about(tx audit.Tx, kind audit.Kind, n int) (*audit.Event, error) {
	head, err := tx.Head(Chain)
	if err != nil {
		return nil, err
	}
	e := &audit.Event{Chain: Chain, Kind: kind, Instance: "writer", At: Time(n), Body: []byte("{}")}
	e.Link(head)
	return e, tx.Append(e, nil)
}

func testAbout(t *testing.T, s audit.Store) {
	if p := must(s.Progress(t.Context(), Chain))(t); p != (audit.Progress{}) {
		t.Errorf("progress of nothing: %+v", p)
	}
	fill(t, s, 1)
	update(t, s, func(tx audit.Tx) error {
		_, err := about(tx, audit.KindCheckpoint, 5)
		_, err2 := about(tx, audit.KindCounter, 6)
		last, err3 := about(tx, audit.KindCounter, 7)
		chains, err4 := tx.Chains()
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return err
		}
		if !slices.Equal(chains, []string{Chain}) {
			t.Errorf("chains %q", chains)
		}
		if head, _ := tx.Head(Chain); head.Seq != last.Seq || head.Hash != last.Hash {
			t.Errorf("head %d, want %d", head.Seq, last.Seq)
		}
		return nil
	})
	p := must(s.Progress(t.Context(), Chain))(t)
	if p.Head.Seq != 4 || p.Kind != int64(audit.KindCounter) || p.Checkpoint != 2 || !p.At.Equal(Time(5)) || !p.First.Equal(Time(0)) {
		t.Errorf("progress %+v", p)
	}
	if walk(t, s) != 4 {
		t.Error("the chain is not whole")
	}
}

// testBelongs: an event about a call has an entry, and no other.
func testBelongs(t *testing.T, s audit.Store) {
	for kind, with := range map[audit.Kind]bool{audit.KindCounter: true, audit.KindIntent: false} {
		err := s.Update(t.Context(), func(tx audit.Tx) error {
			head, err := tx.Head(Chain)
			if err != nil {
				return err
			}
			e := &audit.Event{Chain: Chain, Kind: kind, Instance: "writer", At: Time(9), Body: []byte("{}")}
			e.Link(head)
			if with {
				in := entry(9)
				return tx.Append(e, &in)
			}
			return tx.Append(e, nil)
		})
		if !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%s with an entry %v: %v", kind, with, err)
		}
	}
}

func testHosts(t *testing.T, s audit.Store) {
	fill(t, s, 5)
	update(t, s, func(tx audit.Tx) error {
		return errors.Join(tx.AddHosts(ID(1), []string{"a.example", "b.example"}), tx.AddHosts(ID(3), []string{"b.example"}))
	})
	for _, c := range []struct {
		q    audit.Query
		want []string
	}{
		{audit.Query{Host: "b.example", Limit: 9}, []string{ID(3), ID(1)}},
		{audit.Query{Host: "b.example", Oldest: true, Limit: 9}, []string{ID(1), ID(3)}},
		{audit.Query{Host: "b.example", Before: ID(3), Limit: 9}, []string{ID(1)}},
		{audit.Query{Host: "b.example", From: ID(2), Limit: 1}, []string{ID(3)}},
		{audit.Query{Host: "a.example", Reason: envelope.ReasonSetup, Limit: 9}, []string{ID(1)}},
		{audit.Query{Host: "a.example", Task: "task-2", Limit: 9}, nil},
		{audit.Query{Host: "a.exampl", Limit: 9}, nil},
		{audit.Query{Oldest: true, From: ID(3) + "\x00", Limit: 9}, []string{ID(4)}},
	} {
		var got []string
		for _, call := range must(s.Calls(t.Context(), c.q))(t) {
			got = append(got, call.Entry.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	for _, tr := range must(s.Traces(t.Context(), []string{ID(1), ID(2), ID(3)}))(t) {
		want := map[string][]string{ID(1): {"a.example", "b.example"}, ID(3): {"b.example"}}[tr.ID]
		if !slices.Equal(tr.Hosts, want) {
			t.Errorf("hosts of %s: %q, want %q", tr.ID, tr.Hosts, want)
		}
	}
}

// fillTeams writes calls of two teams, one of them with a body that cannot be
// erased.
func fillTeams(t *testing.T, s audit.Store) {
	t.Helper()
	update(t, s, func(tx audit.Tx) error {
		for i := range 6 {
			e := entry(i)
			e.Team = []string{"", "red"}[i%2]
			intent, err := put(tx, audit.KindIntent, e, Time(i), `{"secret":"canary"}`)
			if err != nil {
				return err
			}
			if e.First = intent.Seq; i == 5 {
				continue // it stays open
			}
			e.Outcome = envelope.OutcomeCompleted
			if _, err := put(tx, audit.KindOutcome, e, Time(i), `{"n":2}`); err != nil {
				return err
			}
		}
		return errors.Join(old(tx, entry(7)), tx.AddHosts(ID(2), []string{"a.example"}))
	})
}

func testErase(t *testing.T, s audit.Store) {
	fillTeams(t, s)
	if teams := must(s.Teams(t.Context()))(t); !slices.Equal(teams, []string{"", "red"}) {
		t.Errorf("teams %q", teams)
	}
	update(t, s, func(tx audit.Tx) error {
		wantExpired(t, tx, "", ID(9), 9, ID(0), ID(2), ID(4)) // 7 is of the old format
		wantExpired(t, tx, "", ID(4), 1, ID(0))
		wantExpired(t, tx, "red", ID(9), 9, ID(1), ID(3)) // 5 is open
		wantExpired(t, tx, "blue", ID(9), 9)
		return nil
	})
	update(t, s, eraseTwo)
	update(t, s, func(tx audit.Tx) error {
		wantExpired(t, tx, "", ID(9), 9, ID(4))
		return nil
	})
	wantErased(t, s)
	err := s.Update(t.Context(), func(tx audit.Tx) error {
		e, _, err := tx.Entry(ID(7))
		return errors.Join(err, tx.Erase(&e, 99, false))
	})
	if !errors.Is(err, audit.ErrOldFormat) {
		t.Errorf("a body of the old format: %v", err)
	}
	must(0, s.Scrub(t.Context()))(t)
	if n := walk(t, s); n != 13 {
		t.Errorf("%d events", n)
	}
}

// eraseTwo prunes call 0, erases call 2, and says so.
func eraseTwo(tx audit.Tx) error {
	head, err := tx.Head(Chain)
	if err != nil {
		return err
	}
	for id, keep := range map[string]bool{ID(0): false, ID(2): true} {
		e, _, err := tx.Entry(id)
		if err == nil {
			err = tx.Erase(&e, head.Seq+1, keep)
		}
		if err != nil {
			return err
		}
	}
	_, err = about(tx, audit.KindPrune, 20)
	return err
}

// old appends a refusal of version 1.
func old(tx audit.Tx, e audit.Entry) error {
	head, err := tx.Head(Chain)
	if err != nil {
		return err
	}
	event := audit.Event{Chain: Chain, Seq: head.Seq + 1, Kind: audit.KindRefusal, CallID: e.ID, Instance: "writer",
		At: Time(7), Body: []byte(`{}`), Prev: head.Hash}
	event.Hash = event.Sum()
	e.First, e.Last, e.Reason = event.Seq, event.Seq, envelope.ReasonRate
	return tx.Append(&event, &e)
}

func wantExpired(t *testing.T, tx audit.Tx, team, before string, limit int, want ...string) {
	t.Helper()
	var got []string
	for _, e := range must(tx.Expired(Chain, team, before, limit))(t) {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("expired of %q before %s: %q, want %q", team, before, got, want)
	}
}

// wantErased looks at calls 0 (pruned), 2 (erased) and 4 (neither).
func wantErased(t *testing.T, s audit.Store) {
	t.Helper()
	calls := must(s.Calls(t.Context(), audit.Query{Before: ID(5), Limit: 9}))(t)
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.Entry.ID)
		for _, e := range c.Events {
			gone := len(e.Body) == 0 && len(e.Salt) == 0 && e.Pruned == 13
			if gone != (c.Entry.ID == ID(2)) || len(e.Commitment) != 32 {
				t.Errorf("event %d of %s: %+v", e.Seq, c.Entry.ID, e)
			}
		}
	}
	if !slices.Equal(ids, []string{ID(4), ID(3), ID(2), ID(1)}) {
		t.Errorf("calls %q", ids)
	}
	if e := calls[2].Entry; e.Task+e.Caller+e.Team+e.Tool != "" || e.Outcome != envelope.OutcomeCompleted || e.Last == 0 {
		t.Errorf("an erased call's entry: %+v", e)
	}
	if got := must(s.Calls(t.Context(), audit.Query{Host: "a.example", Limit: 9}))(t); len(got) != 0 {
		t.Errorf("found by its host: %+v", got)
	}
	for _, tr := range must(s.Traces(t.Context(), []string{ID(0)}))(t) {
		if tr.Entry != nil || len(tr.Marks) != 2 {
			t.Errorf("trace of a pruned call: %+v", tr)
		}
	}
}

func testFarLeases(t *testing.T, s audit.Store) {
	fill(t, s, 1)
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(5000)) })
	for far, want := range map[int]int{4999: 1, 5000: 0} {
		if got := must(s.Orphans(t.Context(), Chain, Time(10), Time(far), 9))(t); len(got) != want {
			t.Errorf("leases beyond %d: %v", far, got)
		}
	}
}

// testManyTeams has teams that sort in odd ways.
func testManyTeams(t *testing.T, s audit.Store) {
	want := []string{"A", "a", "a\x01", "ab", "\u00e9", "\U0001F600"}
	update(t, s, func(tx audit.Tx) error {
		for i := range 12 {
			e := entry(i)
			e.Team = want[(7*i)%len(want)]
			if _, err := put(tx, audit.KindIntent, e, Time(i), `{"n":1}`); err != nil {
				return err
			}
		}
		return nil
	})
	if teams := must(s.Teams(t.Context()))(t); !slices.Equal(teams, want) {
		t.Errorf("teams %q, want %q", teams, want)
	}
}
