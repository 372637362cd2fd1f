package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

func testEmpty(t *testing.T, s audit.Store) {
	update(t, s, func(tx audit.Tx) error {
		head, err := tx.Head(Chain)
		_, ok, err2 := tx.Entry(ID(1))
		_, leased, err3 := tx.Lease("writer")
		if head != (audit.Head{}) || ok || leased {
			t.Errorf("an empty store has a head %v, an entry %v or a lease %v", head, ok, leased)
		}
		return errors.Join(err, err2, err3, tx.DropLease("writer"))
	})
	if got := must(s.Events(t.Context(), Chain, 0, 10))(t); len(got) != 0 {
		t.Errorf("events: %v", got)
	}
	if got := must(s.Calls(t.Context(), audit.Query{Limit: 10}))(t); len(got) != 0 {
		t.Errorf("calls: %v", got)
	}
	if got := must(s.Traces(t.Context(), []string{ID(1)}))(t); len(got) != 0 {
		t.Errorf("traces: %v", got)
	}
	if got := must(s.Orphans(t.Context(), Chain, Time(0), Time(1000), 10))(t); len(got) != 0 {
		t.Errorf("orphans: %v", got)
	}
}

func testAppend(t *testing.T, s audit.Store) {
	want := fill(t, s, 2)
	update(t, s, func(tx audit.Tx) error {
		head, err := tx.Head(Chain)
		if last := want[len(want)-1]; head.Seq != last.Seq || head.Hash != last.Hash {
			t.Errorf("head %d, want %d", head.Seq, last.Seq)
		}
		got, ok, err2 := tx.Entry(ID(1))
		e := entry(1)
		e.First, e.Last, e.Reason = 2, 3, envelope.ReasonSetup
		if !ok || got != e {
			t.Errorf("entry %+v, want %+v", got, e)
		}
		return errors.Join(err, err2)
	})
	for i, s := range must(s.Events(t.Context(), Chain, 0, 10))(t) {
		got, err := audit.DecodeEvent(s)
		if err != nil || !reflect.DeepEqual(got, want[i]) {
			t.Errorf("event %d: %+v (%v), want %+v", i, got, err, want[i])
		}
	}
}

func testFailedUpdate(t *testing.T, s audit.Store) {
	fill(t, s, 1)
	fault := errors.New("fault")
	err := s.Update(t.Context(), func(tx audit.Tx) error {
		if _, err := put(tx, audit.KindIntent, entry(7), Time(7), "{}"); err != nil {
			return err
		}
		return errors.Join(tx.SetLease("writer", Time(9)), fault)
	})
	if !errors.Is(err, fault) {
		t.Fatalf("%v, want the error of fn", err)
	}
	update(t, s, func(tx audit.Tx) error {
		head, err := tx.Head(Chain)
		_, ok, err2 := tx.Entry(ID(7))
		_, leased, err3 := tx.Lease("writer")
		if head.Seq != 1 || ok || leased {
			t.Errorf("left: head %d, entry %v, lease %v", head.Seq, ok, leased)
		}
		return errors.Join(err, err2, err3)
	})
}

func testNotTheNext(t *testing.T, s audit.Store) {
	events := fill(t, s, 2)
	last := events[len(events)-1]
	for name, e := range map[string]audit.Event{
		"again":          {Seq: last.Seq, Prev: last.Prev},
		"a gap":          {Seq: last.Seq + 2, Prev: last.Hash},
		"a fork":         {Seq: last.Seq + 1, Prev: last.Prev},
		"another's head": {Seq: last.Seq + 1},
	} {
		e.Chain, e.Kind, e.CallID, e.Instance, e.Body, e.At = Chain, audit.KindIntent, ID(9), "writer", []byte("{}"), Time(9)
		e.Hash = e.Sum()
		in := entry(9)
		in.First = e.Seq
		err := s.Update(t.Context(), func(tx audit.Tx) error { return tx.Append(&e, &in) })
		if !errors.Is(err, audit.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
}

func testOnce(t *testing.T, s audit.Store) {
	fill(t, s, 3)
	update(t, s, func(tx audit.Tx) error {
		alone := entry(3)
		alone.Reason = envelope.ReasonPolicy
		_, err := put(tx, audit.KindRefusal, alone, Time(3), "{}")
		return err
	})
	for name, c := range map[string]struct {
		kind audit.Kind
		n    int
	}{
		"second intent of an open call":    {audit.KindIntent, 0},
		"second intent of an ended call":   {audit.KindIntent, 2},
		"second ending, the same":          {audit.KindOutcome, 2},
		"second ending, another":           {audit.KindLost, 2},
		"outcome of what had been refused": {audit.KindOutcome, 1},
		"intent of what had been refused":  {audit.KindIntent, 3},
	} {
		e := entry(c.n)
		e.First = 1
		err := s.Update(t.Context(), func(tx audit.Tx) error {
			_, err := put(tx, c.kind, e, Time(9), "{}")
			return err
		})
		if !errors.Is(err, audit.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
}

func testEndedContext(t *testing.T, s audit.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		err := s.Update(ctx, func(audit.Tx) error {
			t.Error("fn ran")
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want context.Canceled", err)
		}
	}
	if _, err := s.Events(ctx, Chain, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Events: %v, want context.Canceled", err)
	}
}

// testTogether has many updates at once, some of which fail.
func testTogether(t *testing.T, s audit.Store) {
	const n = 60
	fault := errors.New("fault")
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			errs[i] = s.Update(t.Context(), func(tx audit.Tx) error {
				if _, err := put(tx, audit.KindIntent, entry(i), Time(i), "{}"); err != nil {
					return err
				}
				if i%7 == 3 {
					return fault
				}
				return nil
			})
		})
	}
	wg.Wait()
	want := 0
	for i, err := range errs {
		if i%7 == 3 && !errors.Is(err, fault) || i%7 != 3 && err != nil {
			t.Errorf("update %d: %v", i, err)
		}
		if err == nil {
			want++
		}
	}
	if got := walk(t, s); got != want {
		t.Fatalf("%d events, want %d", got, want)
	}
}

// walk returns the number of events, which must follow each other.
func walk(t *testing.T, s audit.Store) int {
	t.Helper()
	var head audit.Head
	events := must(s.Events(t.Context(), Chain, 0, 1000))(t)
	for _, st := range events {
		e, err := audit.DecodeEvent(st)
		if err != nil || e.Seq != head.Seq+1 || e.Prev != head.Hash || e.Sum() != e.Hash {
			t.Fatalf("event %d does not follow %d: %v", e.Seq, head.Seq, err)
		}
		head = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	return len(events)
}

func testOddTexts(t *testing.T, s audit.Store) {
	body := `{"t":"\u0000\n\u2028'\"--;` + "\u202e\U0001F600" + `"}`
	e := entry(1)
	e.Task, e.Tool, e.Caller = "a'b\"; DROP TABLE events --", "\u202etool\n", "%_?\U0001F600"
	update(t, s, func(tx audit.Tx) error {
		_, err := put(tx, audit.KindIntent, e, Time(1), body)
		return err
	})
	calls := must(s.Calls(t.Context(), audit.Query{Task: e.Task, Tool: e.Tool, Caller: e.Caller, Limit: 2}))(t)
	if len(calls) != 1 || len(calls[0].Events) != 1 || string(calls[0].Events[0].Body) != body {
		t.Fatalf("%+v, want the call with its body", calls)
	}
	e.First = 1
	if calls[0].Entry != e {
		t.Errorf("entry %+v, want %+v", calls[0].Entry, e)
	}
}
