package store

import (
	"database/sql"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// maxMarks bounds the events of one call that are told.
const maxMarks = 4

// traceRow is a row of a Traces query: every column but the id may be NULL.
type traceRow struct {
	id                                                string
	callID, chain, instance, task, caller, team, tool sql.NullString
	first, last, level, outcome, reason, until        sql.NullInt64
	markChain                                         sql.NullString
	markSeq, markKind                                 sql.NullInt64
}

func (r *traceRow) fields() []any {
	return []any{
		&r.id, &r.callID, &r.chain, &r.first, &r.last, &r.instance, &r.task, &r.caller, &r.team, &r.tool,
		&r.level, &r.outcome, &r.reason, &r.until, &r.markChain, &r.markSeq, &r.markKind,
	}
}

// add adds what the row says to the list, whose last trace may be the same
// call's.
func (r *traceRow) add(list []audit.Trace) []audit.Trace {
	if !r.callID.Valid && !r.markSeq.Valid {
		return list
	}
	if n := len(list); n == 0 || list[n-1].ID != r.id {
		list = append(list, audit.Trace{ID: r.id, Entry: r.entry(), Lease: fromNanos(r.until.Int64)})
	}
	t := &list[len(list)-1]
	if r.markSeq.Valid && len(t.Marks) < maxMarks {
		t.Marks = append(t.Marks, audit.Mark{Chain: r.markChain.String, Seq: r.markSeq.Int64, Kind: r.markKind.Int64})
	}
	return list
}

func (r *traceRow) entry() *audit.Entry {
	if !r.callID.Valid {
		return nil
	}
	return &audit.Entry{
		ID: r.callID.String, Chain: r.chain.String, First: r.first.Int64, Last: r.last.Int64,
		Instance: r.instance.String, Task: r.task.String, Caller: r.caller.String, Team: r.team.String, Tool: r.tool.String,
		Level: envelope.Level(r.level.Int64), Outcome: envelope.Outcome(r.outcome.Int64), Reason: envelope.Reason(r.reason.Int64),
	}
}
