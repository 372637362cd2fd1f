package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// Chain is the chain that the suite writes.
const Chain = "suite"

// Run holds a store to what audit.Store says. open returns an empty store,
// which the test closes by itself.
func Run(t *testing.T, open func(*testing.T) audit.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, audit.Store)
	}{
		{"Empty", testEmpty},
		{"AppendIsSeen", testAppend},
		{"FailedUpdateLeavesNothing", testFailedUpdate},
		{"NotTheNext", testNotTheNext},
		{"OneIntentOneEnding", testOnce},
		{"EndedContextNeverRuns", testEndedContext},
		{"TogetherNoneIsLost", testTogether},
		{"EventsInPages", testEvents},
		{"CallsByFilter", testCalls},
		{"Traces", testTraces},
		{"LeasesAndOrphans", testOrphans},
		{"SweepKeepsBusy", testSweep},
		{"OddTexts", testOddTexts},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Time returns a time that is n seconds after a fixed one.
func Time(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 123_456_789).UTC() }

// ID returns the n-th of a list of call ids that sort in order.
func ID(n int) string { return fmt.Sprintf("01990000-%04x-7000-8000-00000000%04x", n, n) }

// put appends an event that follows the chain.
func put(tx audit.Tx, kind audit.Kind, entry audit.Entry, at time.Time, body string) (*audit.Event, error) {
	head, err := tx.Head(Chain)
	if err != nil {
		return nil, err
	}
	e := &audit.Event{
		Chain: Chain, Seq: head.Seq + 1, Kind: kind, CallID: entry.ID, Instance: "writer",
		At: at, Body: []byte(body), Prev: head.Hash,
	}
	e.Hash = e.Sum()
	if entry.First == 0 {
		entry.First = e.Seq
	}
	if kind.Ends() {
		entry.Last = e.Seq
	}
	return e, tx.Append(e, &entry)
}

func entry(n int) audit.Entry {
	return audit.Entry{
		ID: ID(n), Chain: Chain, Instance: "writer", Task: fmt.Sprintf("task-%d", n%3),
		Caller: "key", Tool: "sh", Level: envelope.LevelContainer,
	}
}

// fill writes n calls, all ended but those whose number divides by 5.
func fill(t *testing.T, s audit.Store, n int) []audit.Event {
	t.Helper()
	var events []audit.Event
	update(t, s, func(tx audit.Tx) error {
		for i := range n {
			e, err := put(tx, audit.KindIntent, entry(i), Time(i), `{"n":1}`)
			if err != nil {
				return err
			}
			events = append(events, *e)
			if i%5 == 0 {
				continue
			}
			kind, ending, _ := audit.KindOutcome, entry(i), 0
			ending.First, ending.Outcome = e.Seq, envelope.OutcomeCompleted
			if i%5 == 1 {
				kind, ending.Outcome, ending.Reason = audit.KindRefusal, 0, envelope.ReasonSetup
			}
			e, err = put(tx, kind, ending, Time(i), `{"n":2}`)
			if err != nil {
				return err
			}
			events = append(events, *e)
		}
		return nil
	})
	return events
}

func update(t *testing.T, s audit.Store, fn func(audit.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

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
	if got := must(s.Orphans(t.Context(), Chain, Time(0), 10))(t); len(got) != 0 {
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
	events := must(s.Events(t.Context(), Chain, 0, 1000))(t)
	if len(events) != want {
		t.Fatalf("%d events, want %d", len(events), want)
	}
	var head audit.Head
	for _, st := range events {
		e, err := audit.DecodeEvent(st)
		if err != nil || e.Seq != head.Seq+1 || e.Prev != head.Hash || e.Sum() != e.Hash {
			t.Fatalf("event %d does not follow %d: %v", e.Seq, head.Seq, err)
		}
		head = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
}

func testEvents(t *testing.T, s audit.Store) {
	want := fill(t, s, 20)
	var got []int64
	for after := int64(0); ; {
		page := must(s.Events(t.Context(), Chain, after, 7))(t)
		if len(page) == 0 {
			break
		}
		if len(page) > 7 {
			t.Fatalf("a page of %d, want at most 7", len(page))
		}
		for _, e := range page {
			got = append(got, e.Seq)
		}
		after = page[len(page)-1].Seq
	}
	if len(got) != len(want) || !slices.IsSorted(got) {
		t.Errorf("events %v, want 1 to %d", got, len(want))
	}
	if other := must(s.Events(t.Context(), "other", 0, 7))(t); len(other) != 0 {
		t.Errorf("another chain has %d events", len(other))
	}
}

func testCalls(t *testing.T, s audit.Store) {
	fill(t, s, 20)
	for name, c := range map[string]struct {
		q    audit.Query
		want []int
	}{
		"limit":      {audit.Query{Limit: 3}, []int{19, 18, 17}},
		"before":     {audit.Query{Before: ID(3), Limit: 9}, []int{2, 1, 0}},
		"from":       {audit.Query{From: ID(18), Limit: 9}, []int{19, 18}},
		"id":         {audit.Query{Prefix: ID(4), Limit: 9}, []int{4}},
		"prefix":     {audit.Query{Prefix: "01990000-000", Limit: 2}, []int{15, 14}},
		"no prefix":  {audit.Query{Prefix: "02", Limit: 2}, nil},
		"task":       {audit.Query{Task: "task-2", Limit: 3}, []int{17, 14, 11}},
		"open":       {audit.Query{Open: true, Limit: 3}, []int{15, 10, 5}},
		"refused":    {audit.Query{Reason: envelope.ReasonSetup, Limit: 2}, []int{16, 11}},
		"outcome":    {audit.Query{Outcome: envelope.OutcomeCompleted, Before: ID(5), Limit: 9}, []int{4, 3, 2}},
		"none lost":  {audit.Query{Outcome: envelope.OutcomeLost, Limit: 9}, nil},
		"level":      {audit.Query{Level: envelope.LevelMicroVM, Limit: 9}, nil},
		"caller":     {audit.Query{Caller: "key", Limit: 1}, []int{19}},
		"no caller":  {audit.Query{Caller: "ke", Limit: 1}, nil},
		"tool":       {audit.Query{Tool: "sh", Limit: 1}, []int{19}},
		"everything": {audit.Query{Task: "task-1", Tool: "sh", Open: true, Limit: 9}, []int{10}},
	} {
		var got []int
		for _, call := range must(s.Calls(t.Context(), c.q))(t) {
			n := 0
			for ID(n) != call.Entry.ID {
				n++
			}
			got = append(got, n)
			if want := 2 - b2i(n%5 == 0); len(call.Events) != want {
				t.Errorf("%s: call %d has %d events, want %d", name, n, len(call.Events), want)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func testTraces(t *testing.T, s audit.Store) {
	fill(t, s, 3)
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(5)) })
	traces := must(s.Traces(t.Context(), []string{ID(2), ID(0), ID(9)}))(t)
	if len(traces) != 2 {
		t.Fatalf("%d traces, want 2", len(traces))
	}
	for _, tr := range traces {
		want := []audit.Mark{{Chain: Chain, Seq: 1, Kind: int64(audit.KindIntent)}}
		if tr.ID == ID(2) {
			want = []audit.Mark{{Chain: Chain, Seq: 4, Kind: int64(audit.KindIntent)}, {Chain: Chain, Seq: 5, Kind: int64(audit.KindOutcome)}}
		}
		if tr.Entry == nil || tr.Entry.ID != tr.ID || !slices.Equal(tr.Marks, want) || !tr.Lease.Equal(Time(5)) {
			t.Errorf("trace %+v, want marks %v and a lease until %v", tr, want, Time(5))
		}
	}
}

func testOrphans(t *testing.T, s audit.Store) {
	fill(t, s, 11) // 0, 5 and 10 are open
	orphans := must(s.Orphans(t.Context(), Chain, Time(0), 10))(t)
	if len(orphans) != 3 || !orphans[0].Lease.IsZero() {
		t.Fatalf("%v, want 3 without a lease", orphans)
	}
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(10)) })
	for _, c := range []struct {
		chain          string
		now, max, want int
	}{
		{Chain, 9, 10, 0}, {Chain, 10, 10, 3}, {Chain, 11, 2, 2}, {"other", 11, 10, 0},
	} {
		orphans := must(s.Orphans(t.Context(), c.chain, Time(c.now), c.max))(t)
		if len(orphans) != c.want {
			t.Errorf("%+v: %d orphans", c, len(orphans))
		}
		for _, o := range orphans {
			if !o.Lease.Equal(Time(10)) || !o.Entry.Open() {
				t.Errorf("orphan %+v", o)
			}
		}
	}
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(20)) })
	update(t, s, func(tx audit.Tx) error {
		until, ok, err := tx.Lease("writer")
		if !ok || !until.Equal(Time(20)) {
			t.Errorf("lease until %v, want it renewed", until)
		}
		return errors.Join(err, tx.DropLease("writer"))
	})
	if got := must(s.Orphans(t.Context(), Chain, Time(0), 10))(t); len(got) != 3 {
		t.Errorf("%d orphans after the lease was dropped, want 3", len(got))
	}
}

func testSweep(t *testing.T, s audit.Store) {
	fill(t, s, 1) // "writer" has an open call
	update(t, s, func(tx audit.Tx) error {
		return errors.Join(tx.SetLease("writer", Time(1)), tx.SetLease("old", Time(1)), tx.SetLease("alive", Time(3)))
	})
	update(t, s, func(tx audit.Tx) error {
		err := tx.Sweep(Time(2))
		for id, want := range map[string]bool{"writer": true, "old": false, "alive": true} {
			_, ok, err2 := tx.Lease(id)
			if ok != want {
				t.Errorf("lease of %s: %v, want %v", id, ok, want)
			}
			err = errors.Join(err, err2)
		}
		return err
	})
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
