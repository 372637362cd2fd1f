package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/internal/audit"
)

// rows lists rows of the daemon's log, newest first. Each is one that was asked
// for. An error is as those of a log are, or a *failure.
func (d *remote) rows(ctx context.Context, f audit.Filter) (rows []audit.Row, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	var list []client.Row
	err = d.ask(ctx, func(ctx context.Context) (err error) {
		list, _, err = d.Rows(ctx, &client.RowFilter{
			Task: f.Task, Tool: f.Tool, Caller: f.Caller, Team: f.Team, Host: f.Host, Level: f.Level, Outcome: f.Outcome,
			Reason: f.Reason, Open: f.Open, Since: f.Since, Until: f.Until, Before: f.Before, Limit: f.Limit,
		})
		return err
	}, unknownProblem)
	if err != nil {
		return nil, err
	}
	if rows, err = rowsOf(list, &f); err != nil {
		return nil, d.unusable(err)
	}
	return rows, nil
}

// unknownProblem knows no problem.
func unknownProblem(*client.Problem) error { return nil }

// rowsOf reads rows that were asked for by a filter.
func rowsOf(list []client.Row, f *audit.Filter) ([]audit.Row, error) {
	most := f.Limit
	if most == 0 {
		most = audit.DefaultLimit
	}
	if len(list) > most {
		return nil, odds("%d rows, and %d were asked for", len(list), most)
	}
	rows, room := make([]audit.Row, len(list)), 3*mostOfARow // a page ends with the row that fills it
	for i := range list {
		r := &rows[i]
		if room -= weight(list[i].Record); room < 0 {
			return nil, odds("more than a page of rows has")
		}
		if err := readRow(&list[i], r); err != nil {
			return nil, err
		}
		if i > 0 && r.ID >= rows[i-1].ID {
			return nil, odds("its rows are not in order")
		}
		if r.Damaged != "" { // it says nothing else
			*r = audit.Row{ID: r.ID, Damaged: r.Damaged}
		} else if !f.Match(r) {
			return nil, odds("a row that was not asked for: %s", r.ID)
		}
	}
	return rows, nil
}

// mostOfARow is how much a row has, in bytes: the bodies of its events, and what is
// beside them.
const mostOfARow = 4*audit.MaxBody + 1<<20

// weight is what a row has, in bytes, where none is escaped.
func weight(record []byte) int {
	const escape = `\u003c`
	return len(record) - bytes.Count(record, []byte(escape[:4]))*(len(escape)-1)
}

// readRow reads a row in full. One that has more than a row can is not read: a few
// bytes of it can take a hundred when they are.
func readRow(from *client.Row, r *audit.Row) error {
	if weight(from.Record) > mostOfARow {
		return odds("more than a row has")
	}
	if err := json.Unmarshal(from.Record, r); err != nil {
		return odds("a row: %v", err)
	}
	if !audit.IsID(r.ID) {
		return odds("a row without the id of a call")
	}
	return nil
}

// row reads the row of the call whose id is, or begins with, a text.
func (d *remote) row(ctx context.Context, prefix string) (row audit.Row, err error) {
	absent := fmt.Errorf("%w: %s", audit.ErrNotFound, prefix)
	if !audit.IsID(prefix) {
		return d.rowLike(ctx, prefix, absent)
	}
	var found *client.Row
	err = d.ask(ctx, func(ctx context.Context) (err error) {
		found, err = d.Row(ctx, prefix)
		return err
	}, func(p *client.Problem) error {
		if p.Code == "not_found" {
			return absent
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	if err = readRow(found, &row); err == nil && row.ID != prefix {
		err = odds("another row than the one that was asked for")
	}
	if err != nil {
		return audit.Row{}, d.unusable(err)
	}
	return intact(&row)
}

// intact is a row that can be shown.
func intact(r *audit.Row) (audit.Row, error) {
	if r.Damaged != "" {
		return audit.Row{}, fmt.Errorf("%w: call %s: %s", audit.ErrCorrupt, r.ID, r.Damaged)
	}
	return *r, nil
}

// mostOfAMoment is how many calls are looked at that began in one millisecond.
const mostOfAMoment = audit.MaxLimit

// rowLike is row by the beginning of an id: such ids were made within a time.
func (d *remote) rowLike(ctx context.Context, prefix string, absent error) (row audit.Row, err error) {
	since, until, err := audit.Span(prefix)
	if err != nil {
		return row, err
	}
	const lastYear = 9999 // that a time in words has
	if since.Year() > lastYear {
		return row, absent
	}
	f := audit.Filter{Since: since, Until: until, Limit: mostOfAMoment}
	if until.Year() > lastYear {
		f.Until = f.Until.AddDate(lastYear-until.Year(), 0, 0)
	}
	if until.Sub(since).Milliseconds() > 1 { // every id of then begins so
		f.Limit = 2
	}
	rows, err := d.rows(ctx, f)
	if err != nil {
		return row, err
	}
	rows = slices.DeleteFunc(rows, func(r audit.Row) bool { return !strings.HasPrefix(r.ID, prefix) })
	switch {
	case len(rows) == 0:
		return row, absent
	case len(rows) > 1:
		return row, fmt.Errorf("%w: %s (%s, %s, ...)", audit.ErrAmbiguous, prefix, rows[0].ID, rows[1].ID)
	}
	return intact(&rows[0])
}
