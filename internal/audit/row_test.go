package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// TestList writes 30 calls, a second apart: every third is refused, every
// third ends for want of memory, every third is open.
func TestList(t *testing.T) {
	c := newClock()
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: c, TTL: time.Hour})
	start := c.Now()
	var ids []string
	for i := range 30 {
		in := intent(l.NewID())
		in.Caller, in.Call.Task = fmt.Sprintf("key-%d", i%2), fmt.Sprintf("task-%d", i/10)
		if i >= 20 {
			in.Level, in.Call.Tool = envelope.LevelMicroVM, "python"
		}
		if i%3 == 0 {
			ref := audit.Refused{Intent: in, Refusal: envelope.Refusal{Reason: envelope.ReasonBudget}}
			if _, err := l.Refuse(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		} else if err := l.Intend(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if i%3 == 1 {
			e := completed(in.ID)
			e.Outcome = envelope.OutcomeMemory
			if _, err := l.Complete(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, in.ID)
		c.move(time.Second)
	}
	for name, f := range map[string]struct {
		filter audit.Filter
		want   []int
	}{
		"limit":    {audit.Filter{Limit: 2}, []int{29, 28}},
		"before":   {audit.Filter{Before: ids[2]}, []int{1, 0}},
		"since":    {audit.Filter{Since: start.Add(28 * time.Second)}, []int{29, 28}},
		"until":    {audit.Filter{Until: start.Add(2 * time.Second)}, []int{1, 0}},
		"between":  {audit.Filter{Since: start.Add(5 * time.Second), Until: start.Add(7 * time.Second)}, []int{6, 5}},
		"earlier":  {audit.Filter{Until: start.Add(5 * time.Second), Before: ids[2]}, []int{1, 0}},
		"later":    {audit.Filter{Until: start.Add(time.Second), Before: ids[2]}, []int{0}},
		"1969":     {audit.Filter{Until: time.Unix(-1, 0)}, nil},
		"task":     {audit.Filter{Task: "task-1", Limit: 2}, []int{19, 18}},
		"caller":   {audit.Filter{Caller: "key-1", Limit: 2}, []int{29, 27}},
		"tool":     {audit.Filter{Tool: "python", Limit: 1}, []int{29}},
		"level":    {audit.Filter{Level: envelope.LevelContainer, Limit: 1}, []int{19}},
		"outcome":  {audit.Filter{Outcome: envelope.OutcomeMemory, Limit: 2}, []int{28, 25}},
		"reason":   {audit.Filter{Reason: envelope.ReasonBudget, Limit: 2}, []int{27, 24}},
		"open":     {audit.Filter{Open: true, Limit: 2}, []int{29, 26}},
		"together": {audit.Filter{Task: "task-0", Outcome: envelope.OutcomeMemory, Caller: "key-1"}, []int{7, 1}},
		"nothing":  {audit.Filter{Task: "task-9"}, nil},
	} {
		rows, err := l.List(t.Context(), f.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, r := range rows {
			got = append(got, slices.Index(ids, r.ID))
			if r.Damaged != "" {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if !slices.Equal(got, f.want) {
			t.Errorf("%s: %v, want %v", name, got, f.want)
		}
	}
	for name, f := range map[string]audit.Filter{
		"negative limit": {Limit: -1}, "large limit": {Limit: audit.MaxLimit + 1}, "bad before": {Before: "x"},
	} {
		if _, err := l.List(t.Context(), f); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestRowByPrefix(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock()})
	for _, id := range []string{"01990000-0000-7000-8000-000000000001", "01990000-0000-7000-8000-000000000012"} {
		intend(t, l, id)
	}
	if r := row(t, l, "01990000-0000-7000-8000-00000000001"); r.ID[35] != '2' {
		t.Errorf("row %s", r.ID)
	}
	for prefix, want := range map[string]error{
		"01990000":                              audit.ErrAmbiguous,
		"01990000-0000-7000-9":                  audit.ErrNotFound,
		"02":                                    audit.ErrNotFound,
		"":                                      audit.ErrInvalid,
		"0199000000007000":                      audit.ErrInvalid,
		"%":                                     audit.ErrInvalid,
		"01990000-0000-7000-8X":                 audit.ErrInvalid,
		"01990000-0000-7000-8000-0000000000011": audit.ErrInvalid,
	} {
		if _, err := l.Row(t.Context(), prefix); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", prefix, err, want)
		}
	}
}

// TestDamagedRowHidesNoOther edits one of three calls.
func TestDamagedRowHidesNoOther(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	var ids []string
	for range 3 {
		ids = append(ids, l.NewID())
		intend(t, l, ids[len(ids)-1])
		complete(t, l, ids[len(ids)-1])
	}
	slices.Sort(ids)
	m.Tamper(func(s *storetest.State) {
		s.Events = copyEvents(s.Events)
		for i := range s.Events {
			if s.Events[i].CallID == ids[1] {
				s.Events[i].At++
			}
		}
	})
	rows, err := l.List(t.Context(), audit.Filter{})
	if err != nil || len(rows) != 3 || rows[1].ID != ids[1] || rows[1].Damaged == "" || rows[1].Intent != nil || rows[0].Damaged+rows[2].Damaged != "" {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := l.Row(t.Context(), ids[1]); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("Row: %v, want ErrCorrupt", err)
	}
	m.Tamper(func(s *storetest.State) { s.Events = nil })
	if _, err := l.Row(t.Context(), ids[0]); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("a row without events: %v, want ErrCorrupt", err)
	}
}

// TestRowAsJSON pins the members that others read.
func TestRowAsJSON(t *testing.T) {
	c := newClock()
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: c})
	if _, err := l.Refuse(t.Context(), refused(callA, envelope.ReasonRate)); err != nil {
		t.Fatal(err)
	}
	r := row(t, l, callA)
	r.Receipt, r.Instance = nil, ""
	text, err := json.Marshal(r)
	want := `{"id":"01990000-0000-7000-8000-000000000001","started":"2027-01-15T08:00:00.123456789Z","ended":"2027-01-15T08:00:00.123456789Z",` +
		`"reason":"rate","refused":{"refusal":{"reason":"rate","message":"no","retry":false}}}`
	if err != nil || string(text) != want {
		t.Errorf("%s (%v), want %s", text, err, want)
	}
}

// TestUnknownMembersAreSkipped: a newer version has written more.
func TestUnknownMembersAreSkipped(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	m.Tamper(func(s *storetest.State) {
		forge(s, audit.KindIntent, callA, `{"task":"t","level":"container","moon":{"phase":1}}`)
		s.Entries = map[string]audit.Entry{callA: {ID: callA, Chain: "local", First: 1, Task: "t", Level: envelope.LevelContainer, Instance: "x"}}
	})
	if r := row(t, l, callA); r.Task != "t" || !r.Open() {
		t.Errorf("%+v", r)
	}
}
