package storetest

import (
	"slices"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

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
