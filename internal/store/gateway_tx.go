package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// gatewayTx is the transaction under way as the gateway sees it.
type gatewayTx struct{ t *tx }

// QueryContext runs a query on the writer's connection.
func (g gatewayTx) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := g.t.w.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (g gatewayTx) exec(text string, args ...any) error { return g.t.w.exec(g.t.ctx, text, args...) }

// change is exec for what the directory has in it.
func (g gatewayTx) change(text string, args ...any) error {
	if err := g.exec(text, args...); err != nil {
		return err
	}
	return g.exec("UPDATE gateway SET generation = generation + 1")
}

// Directory implements gateway.Tx.
func (g gatewayTx) Directory() (*gateway.Directory, error) { return directory(g.t.ctx, g) }

// PutTeam implements gateway.Tx.
func (g gatewayTx) PutTeam(t gateway.Team) error {
	return g.change(`INSERT INTO teams (team, tier, tokens, suspended, created) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (team) DO UPDATE SET tier = excluded.tier, tokens = excluded.tokens, suspended = excluded.suspended`,
		t.Name, t.Tier, t.Tokens, flag(t.Suspended), nanos(t.Created))
}

// PutKey implements gateway.Tx.
func (g gatewayTx) PutKey(k gateway.Key) error {
	return g.change(`INSERT INTO keys (key_id, team, label, role, profiles, created, revoked) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (key_id) DO UPDATE SET label = excluded.label, role = excluded.role, profiles = excluded.profiles, revoked = excluded.revoked`,
		k.ID, k.Team, k.Label, int64(k.Role), strings.Join(k.Profiles, " "), nanos(k.Created), nanos(k.Revoked))
}

// PutSecret implements gateway.Tx.
func (g gatewayTx) PutSecret(s gateway.Secret) error {
	return g.change(`INSERT INTO secrets (hash, key_id, created, expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET expires = excluded.expires`,
		s.Hash[:], s.Key, nanos(s.Created), nanos(s.Expires))
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Hold implements gateway.Tx.
func (g gatewayTx) Hold(a gateway.Admission) error {
	return g.exec("INSERT INTO admissions (call_id, key_id, team, task, month, at, arguments, result, cpu) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.ID, a.Key, a.Team, a.Task, int64(a.Month), nanos(a.At), a.Arguments, a.Result, int64(a.CPU))
}

// Held implements gateway.Tx.
func (g gatewayTx) Held(limit int) (list []gateway.Admission, err error) {
	err = query(g.t.ctx, g, "SELECT call_id, key_id, team, task, month, at, arguments, result, cpu FROM admissions LIMIT ?", []any{limit},
		func(rows *sql.Rows) (bool, error) {
			var a gateway.Admission
			var at int64
			err := rows.Scan(&a.ID, &a.Key, &a.Team, &a.Task, &a.Month, &at, &a.Arguments, &a.Result, &a.CPU)
			a.At = fromNanos(at)
			list = append(list, a)
			return true, err
		})
	return list, err
}

// Settle implements gateway.Tx.
func (g gatewayTx) Settle(s gateway.Settlement) error {
	if err := g.exec("DELETE FROM admissions WHERE call_id = ?", s.ID); err != nil {
		return err
	}
	return g.exec(`INSERT INTO settlements (key_id, team, task, month, at, calls, arguments, result, cpu, wall)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.Key, s.Team, s.Task, int64(s.Month), nanos(s.At), s.Calls, s.Arguments, s.Result, int64(s.CPU), int64(s.Wall))
}

// foldTexts fold what is not folded yet, and mark it.
func foldTexts() []string {
	return []string{
		`INSERT INTO usage (month, team, key_id, calls, arguments, result, cpu, wall)
			SELECT month, team, key_id, sum(calls), sum(arguments), sum(result), sum(cpu), sum(wall)
			FROM settlements WHERE seq > (SELECT folded FROM gateway) GROUP BY month, team, key_id
			ON CONFLICT (month, team, key_id) DO UPDATE SET calls = calls + excluded.calls, arguments = arguments + excluded.arguments,
				result = result + excluded.result, cpu = cpu + excluded.cpu, wall = wall + excluded.wall`,
		`INSERT INTO tasks (team, task, began, last, calls, tokens, cpu)
			SELECT team, task, min(at), max(at), sum(calls), sum(arguments + result), sum(cpu)
			FROM settlements WHERE seq > (SELECT folded FROM gateway) AND task <> '' GROUP BY team, task
			ON CONFLICT (team, task) DO UPDATE SET began = min(began, excluded.began), last = max(last, excluded.last),
				calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cpu = cpu + excluded.cpu`,
		`UPDATE gateway SET folded = coalesce((SELECT max(seq) FROM settlements), folded)`,
	}
}

// Fold implements gateway.Tx.
func (g gatewayTx) Fold(keep, idle time.Time) error {
	for _, text := range foldTexts() {
		if err := g.exec(text); err != nil {
			return err
		}
	}
	if err := g.exec("DELETE FROM settlements WHERE at < ?", nanos(keep)); err != nil {
		return err
	}
	return g.exec("DELETE FROM tasks WHERE last < ?", nanos(idle))
}
