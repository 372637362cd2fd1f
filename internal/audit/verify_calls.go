package audit

import (
	"context"
	"fmt"
	"slices"
)

// calls checks that the calls of some events have at most one intent and
// exactly one ending, in that order, and the entry that their events say.
func (v *verifier) calls(ctx context.Context, events []Event) error {
	ids := make([]string, 0, len(events))
	seen := map[string]bool{}
	for _, e := range events {
		if !seen[e.CallID] {
			seen[e.CallID] = true
			ids = append(ids, e.CallID)
		}
	}
	traces, err := v.log.store.Traces(ctx, ids)
	if err != nil {
		return err
	}
	byID := make(map[string]*Trace, len(traces))
	for i := range traces {
		byID[traces[i].ID] = &traces[i]
	}
	for i := range events {
		v.call(&events[i], byID[events[i].CallID])
	}
	return nil
}

// call checks one event against what is stored about its call.
func (v *verifier) call(e *Event, t *Trace) {
	intent, ending := v.others(e, t)
	if e.Kind == KindIntent {
		switch {
		case ending != 0:
			v.report.Calls++
		case t != nil && v.log.now().Before(t.Lease):
			v.report.Calls++
			v.report.Open++
		default:
			v.problem(ProblemUnfinished, e.Seq, e.CallID, "its instance is gone; it is to be completed as lost")
		}
	} else if intent == 0 {
		if e.Kind != KindRefusal {
			v.problem(ProblemUnpaired, e.Seq, e.CallID, "there is no intent before this "+e.Kind.String())
		}
		v.report.Calls++
	}
	if detail := v.checkEntry(e, t, intent); detail != "" {
		v.problem(ProblemIndex, e.Seq, e.CallID, detail)
	}
}

// others finds the intent before an ending, or the ending after an intent, and
// notes every other event of the call that should not be.
func (v *verifier) others(e *Event, t *Trace) (intent, ending int64) {
	if t == nil {
		return 0, 0
	}
	for _, m := range t.Marks {
		ends := Kind(m.Kind).Ends()
		switch {
		case m.Chain == e.Chain && m.Seq == e.Seq:
		case ends == e.Kind.Ends():
			if m.Chain != e.Chain || m.Seq < e.Seq { // told once, at the later one
				v.problem(ProblemDoubled, e.Seq, e.CallID, fmt.Sprintf("event %d is a %v of the same call", m.Seq, Kind(m.Kind)))
			}
		case ends && m.Chain == e.Chain && m.Seq > e.Seq:
			ending = m.Seq
		case !ends && m.Chain == e.Chain && m.Seq < e.Seq:
			intent = m.Seq
		}
	}
	return intent, ending
}

// checkEntry compares what an event says with the entry of its call.
func (v *verifier) checkEntry(e *Event, t *Trace, intent int64) string {
	switch {
	case (t == nil || t.Entry == nil) && e.Erased():
		return "" // it was pruned
	case t == nil || t.Entry == nil:
		return "the call has no entry: lists do not show it"
	}
	row := Row{ID: e.CallID}
	first := e.Kind == KindIntent || intent == 0
	if err := row.addBody(e, first); err != nil {
		return err.Error()
	}
	got, want := *t.Entry, *t.Entry // of an erased event nobody knows the rest
	want.ID, want.Chain = e.CallID, e.Chain
	if first {
		want.First, want.Instance = e.Seq, e.Instance
		want.Task, want.Caller, want.Team, want.Tool = row.Task, row.Caller, row.Team, row.Tool
		if !e.Erased() {
			want.Level = row.Level
		}
	} else {
		want.First = intent
	}
	if e.Kind.Ends() {
		want.Last = e.Seq
		if !e.Erased() {
			want.Outcome, want.Reason = row.Outcome, row.Reason
		}
	} else if !got.Open() && !hasMark(t, e.Chain, got.Last) {
		return fmt.Sprintf("its entry says that event %d ends it", got.Last)
	}
	switch {
	case got != want:
		return "its entry is not what its events say"
	case e.Kind.Ends() && !slices.Equal(t.Hosts, row.hosts()):
		return "the hosts that it is found by are not those that its ending says"
	}
	return ""
}

// hosts are those that the row is found by.
func (r *Row) hosts() []string {
	if r.Ending == nil {
		return nil
	}
	return hostsOf(r.Ending.Egress)
}

func hasMark(t *Trace, chain string, seq int64) bool {
	for _, m := range t.Marks {
		if m.Chain == chain && m.Seq == seq {
			return true
		}
	}
	return false
}
