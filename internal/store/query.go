package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/callcell/callcell/internal/audit"
)

// entriesText is the query for the entries that q selects, and its arguments.
func entriesText(q *audit.Query) (text string, args []any) {
	from, id, order := "calls c", "c.call_id", "DESC"
	if q.Host != "" {
		from, id = "call_hosts h CROSS JOIN calls c ON c.call_id = h.call_id", "h.call_id"
	}
	if q.Oldest {
		order = "ASC"
	}
	where, args := conditions(q, id)
	return "SELECT " + entryColumns + " FROM " + from + " WHERE " + where + " ORDER BY " + id + " " + order + " LIMIT ?", append(args, q.Limit)
}

// conditions turns a query into a WHERE clause of constants and its arguments.
func conditions(q *audit.Query, id string) (where string, args []any) {
	terms := []string{"TRUE"}
	add := func(set bool, term string, values ...any) {
		if set {
			terms = append(terms, term)
			args = append(args, values...)
		}
	}
	add(q.Prefix != "", id+" >= ? AND "+id+" < ?", q.Prefix, q.Prefix+"g") // no id goes on with g
	add(q.From != "", id+" >= ?", q.From)
	add(q.Before != "", id+" < ?", q.Before)
	add(q.Host != "", "h.host = ?", q.Host)
	add(q.Task != "", "c.task = ? AND c.task <> ''", q.Task)
	add(q.Caller != "", "c.caller = ?", q.Caller)
	add(q.Team != "", "c.team = ?", q.Team)
	add(q.Tool != "", "c.tool = ?", q.Tool)
	add(q.Level != 0, "c.level = ?", int64(q.Level))
	add(q.Outcome != 0, "c.outcome = ?", int64(q.Outcome))
	add(q.Outcome > 1, "c.outcome > 1") // for the index that leaves out the many

	add(q.Reason != 0, "c.reason = ? AND c.reason > 0", int64(q.Reason))
	add(q.Open, "c.last = 0")
	return strings.Join(terms, " AND "), args
}

// Traces implements audit.Store.
func (s *auditStore) Traces(ctx context.Context, ids []string) (list []audit.Trace, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	with := "WITH ids (id) AS (VALUES (?)" + strings.Repeat(", (?)", len(ids)-1) + ") "
	text := with + "SELECT ids.id, " + entryColumns +
		", l.until, e.chain, e.seq, e.kind FROM ids LEFT JOIN calls c ON c.call_id = ids.id" +
		" LEFT JOIN leases l ON l.instance = c.instance LEFT JOIN events e ON e.call_id = ids.id ORDER BY ids.id, e.seq"
	err = s.reading(ctx, func(q queryer) error {
		err := query(ctx, q, text, args, func(rows *sql.Rows) (bool, error) {
			var r traceRow
			if err := rows.Scan(r.fields()...); err != nil {
				return false, err
			}
			list = r.add(list)
			return true, nil
		})
		if err != nil {
			return err
		}
		return addHosts(ctx, q, with, args, list)
	})
	return list, err
}

// addHosts adds to traces, which are in the order of their ids, the hosts that
// their calls are found by.
func addHosts(ctx context.Context, q queryer, with string, args []any, list []audit.Trace) error {
	text := with + "SELECT h.call_id, h.host FROM ids CROSS JOIN call_hosts h ON h.call_id = ids.id ORDER BY h.call_id, h.host"
	at := 0
	return query(ctx, q, text, args, func(rows *sql.Rows) (bool, error) {
		var id, host string
		if err := rows.Scan(&id, &host); err != nil {
			return false, err
		}
		for at < len(list) && list[at].ID < id {
			at++
		}
		if at < len(list) && list[at].ID == id && len(list[at].Hosts) <= audit.MaxHosts {
			list[at].Hosts = append(list[at].Hosts, host)
		}
		return true, nil
	})
}
