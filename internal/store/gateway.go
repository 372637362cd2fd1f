package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
)

// Gateway returns the store of the gateway.
func (d *DB) Gateway() gateway.Store { return &gatewayStore{d} }

// gatewayStore is a DB as the gateway sees it.
type gatewayStore struct{ db *DB }

// Update implements gateway.Store.
func (s *gatewayStore) Update(ctx context.Context, fn func(gateway.Tx) error) error {
	return s.Begin(ctx, fn)()
}

// Begin implements gateway.Store.
func (s *gatewayStore) Begin(ctx context.Context, fn func(gateway.Tx) error) (wait func() error) {
	return s.db.send(ctx, false, func(t *tx) error { return fn(gatewayTx{t}) })
}

// Directory implements gateway.Store: it is one committed state.
func (s *gatewayStore) Directory(ctx context.Context) (*gateway.Directory, error) {
	t, err := s.db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, mapped(err)
	}
	defer t.Rollback()
	return directory(ctx, t)
}

// Generation implements gateway.Store.
func (s *gatewayStore) Generation(ctx context.Context) (n int64, err error) {
	err = s.db.read.QueryRowContext(ctx, "SELECT generation FROM gateway").Scan(&n)
	return n, mapped(err)
}

// Task implements gateway.Store.
func (s *gatewayStore) Task(ctx context.Context, team, task string) (u gateway.TaskUse, ok bool, err error) {
	err = query(ctx, s.db.read, "SELECT began, calls, tokens, cpu FROM tasks WHERE team = ? AND task = ?", []any{team, task},
		func(rows *sql.Rows) (bool, error) {
			var began int64
			ok = true
			err := rows.Scan(&began, &u.Calls, &u.Tokens, &u.CPU)
			u.Began = fromNanos(began)
			return false, err
		})
	return u, ok, err
}

// usageText adds what is not folded yet to what is.
const usageText = `SELECT month, team, key_id, sum(calls), sum(arguments), sum(result), sum(cpu), sum(wall) FROM (
	SELECT month, team, key_id, calls, arguments, result, cpu, wall FROM usage
	UNION ALL
	SELECT month, team, key_id, calls, arguments, result, cpu, wall FROM settlements
		WHERE seq > (SELECT folded FROM gateway))
	WHERE month >= ? AND month <= ? AND (? = '' OR team = ?)
	GROUP BY month, team, key_id ORDER BY month, team, key_id`

// Usage implements gateway.Store.
func (s *gatewayStore) Usage(ctx context.Context, q gateway.UsageQuery) (list []gateway.Usage, err error) {
	if q.To == 0 {
		q.To = 1 << 30
	}
	err = query(ctx, s.db.read, usageText, []any{int64(q.From), int64(q.To), q.Team, q.Team}, func(rows *sql.Rows) (bool, error) {
		var u gateway.Usage
		err := rows.Scan(&u.Month, &u.Team, &u.Key, &u.Calls, &u.Arguments, &u.Result, &u.CPU, &u.Wall)
		list = append(list, u)
		return true, err
	})
	return list, err
}

// Recent implements gateway.Store.
func (s *gatewayStore) Recent(ctx context.Context, since time.Time) (list []gateway.Stamp, err error) {
	err = query(ctx, s.db.read, "SELECT key_id, at FROM admissions WHERE at > ?1 UNION ALL SELECT key_id, at FROM settlements WHERE at > ?1",
		[]any{nanos(since)}, func(rows *sql.Rows) (bool, error) {
			var p gateway.Stamp
			var at int64
			err := rows.Scan(&p.Key, &at)
			p.At = fromNanos(at)
			list = append(list, p)
			return true, err
		})
	return list, err
}

// directory reads every team, key and secret.
func directory(ctx context.Context, q queryer) (*gateway.Directory, error) {
	d := &gateway.Directory{}
	for _, read := range []func(context.Context, queryer, *gateway.Directory) error{readGeneration, readTeams, readKeys, readSecrets} {
		if err := read(ctx, q, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func readGeneration(ctx context.Context, q queryer, d *gateway.Directory) error {
	return query(ctx, q, "SELECT generation FROM gateway", nil, func(rows *sql.Rows) (bool, error) {
		return true, rows.Scan(&d.Generation)
	})
}

func readTeams(ctx context.Context, q queryer, d *gateway.Directory) error {
	return query(ctx, q, "SELECT team, tier, tokens, suspended, created FROM teams", nil, func(rows *sql.Rows) (bool, error) {
		var t gateway.Team
		var created int64
		err := rows.Scan(&t.Name, &t.Tier, &t.Tokens, &t.Suspended, &created)
		t.Created = fromNanos(created)
		d.Teams = append(d.Teams, t)
		return true, err
	})
}

func readKeys(ctx context.Context, q queryer, d *gateway.Directory) error {
	return query(ctx, q, "SELECT key_id, team, label, role, profiles, created, revoked FROM keys", nil, func(rows *sql.Rows) (bool, error) {
		var k gateway.Key
		var profiles string
		var created, revoked int64
		err := rows.Scan(&k.ID, &k.Team, &k.Label, &k.Role, &profiles, &created, &revoked)
		k.Profiles = strings.Fields(profiles)
		k.Created, k.Revoked = fromNanos(created), fromNanos(revoked)
		d.Keys = append(d.Keys, k)
		return true, err
	})
}

func readSecrets(ctx context.Context, q queryer, d *gateway.Directory) error {
	return query(ctx, q, "SELECT hash, key_id, created, expires FROM secrets", nil, func(rows *sql.Rows) (bool, error) {
		var s gateway.Secret
		var hash []byte
		var created, expires int64
		if err := rows.Scan(&hash, &s.Key, &created, &expires); err != nil {
			return false, err
		}
		if copy(s.Hash[:], hash) != len(s.Hash) || len(hash) != len(s.Hash) {
			return false, fmt.Errorf("%w: a secret of %d bytes", audit.ErrCorrupt, len(hash))
		}
		s.Created, s.Expires = fromNanos(created), fromNanos(expires)
		d.Secrets = append(d.Secrets, s)
		return true, nil
	})
}
