package store

import (
	"context"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// plan returns what SQLite is going to do for a query.
func plan(t *testing.T, d *DB, text string, args ...any) string {
	t.Helper()
	var lines []string
	rows, err := d.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// TestPlans has the queries that run often, or over much, use an index and
// sort nothing large.
func TestPlans(t *testing.T) {
	d := open(t, file(t))
	queries := func(q audit.Query) (string, []any) {
		q.Limit = 10
		return entriesText(&q)
	}
	for name, want := range map[string]struct {
		q    audit.Query
		plan string
	}{
		"newest": {audit.Query{}, "SCAN c"}, // in the order of its key
		"prefix": {audit.Query{Prefix: "0199"}, "SEARCH c USING PRIMARY KEY (call_id>? AND call_id<?)"},
		"since":  {audit.Query{From: storetest.ID(1), Outcome: envelope.OutcomeMemory}, "SEARCH c USING INDEX calls_outcome (outcome=? AND call_id>?)"},
		"level":  {audit.Query{From: storetest.ID(1), Level: envelope.LevelContainer}, "SEARCH c USING PRIMARY KEY (call_id>?)"},
		"many":   {audit.Query{From: storetest.ID(1), Outcome: envelope.OutcomeCompleted}, "SEARCH c USING PRIMARY KEY (call_id>?)"},
		"reason": {audit.Query{Reason: envelope.ReasonRate}, "SEARCH c USING INDEX calls_reason (reason=?)"},
		"caller": {audit.Query{Caller: "k", Before: storetest.ID(1)}, "SEARCH c USING INDEX calls_caller (caller=? AND call_id<?)"},
		"team":   {audit.Query{Team: "t", Oldest: true}, "SEARCH c USING INDEX calls_team (team=?)"},
		"tool":   {audit.Query{Tool: "t", Before: storetest.ID(1)}, "SEARCH c USING INDEX calls_tool (tool=? AND call_id<?)"},
		"host": {audit.Query{Host: "h", Before: storetest.ID(1)},
			"SEARCH h USING PRIMARY KEY (host=? AND call_id<?); SEARCH c USING PRIMARY KEY (call_id=?)"},
		"task": {audit.Query{Task: "t", Before: storetest.ID(1)}, "SEARCH c USING INDEX calls_task (task=? AND call_id<?)"},
	} {
		text, args := queries(want.q)
		if got := plan(t, d, text, args...); got != want.plan {
			t.Errorf("%s: %s, want %s", name, got, want.plan)
		}
	}
	if got, want := plan(t, d, orphansText, "local", 1, 1, 1), "SCAN c USING INDEX calls_open; SEARCH l USING PRIMARY KEY (instance=?) LEFT-JOIN"; got != want {
		t.Errorf("orphans: %s, want %s", got, want)
	}
	if got, want := plan(t, d, expiredText, "t", "x", "local", 1),
		"SEARCH c USING INDEX calls_team (team=? AND call_id<?); CORRELATED SCALAR SUBQUERY 1; SEARCH e USING INDEX events_once (call_id=?)"; got != want {
		t.Errorf("expired: %s, want %s", got, want)
	}
	if got := plan(t, d, progressText, "local"); strings.Contains(got, "SCAN") || !strings.Contains(got, "INDEX events_about") {
		t.Errorf("progress: %s", got)
	}
	if got, want := plan(t, d, eventsText, "local", 1, 1), "SEARCH e USING INDEX sqlite_autoindex_events_1 (chain=? AND seq>?)"; got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
}

// TestLargeCallsComeInShortPages has more than a page holds.
func TestLargeCallsComeInShortPages(t *testing.T) {
	d := open(t, file(t))
	l := log(t, d, audit.Options{Keep: audit.MaxKeep})
	in := intent("")
	in.Call.Argv = []string{strings.Repeat("x", audit.MaxKeep)}
	const n = 2*pageBytes/audit.MaxKeep + 1
	for range n {
		in.ID = l.NewID()
		if err := l.Intend(context.Background(), in); err != nil {
			t.Fatal(err)
		}
	}
	var got, pages int
	for f := (audit.Filter{}); ; pages++ {
		rows, err := l.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		got += len(rows)
		f.Before = rows[len(rows)-1].ID
	}
	if got != n || pages != 3 {
		t.Errorf("%d rows in %d pages, want %d in some", got, pages, n)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != n {
		t.Errorf("%+v", rep)
	}
}
