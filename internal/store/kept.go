package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/kept"
)

// keptStore is a DB as who keeps calls sees it.
type keptStore struct{ db *DB }

var _ kept.Store = keptStore{}

// Kept returns the store of calls that somebody may come back for.
func (d *DB) Kept() kept.Store { return keptStore{d} }

// Begin implements kept.Store.
func (s keptStore) Begin(ctx context.Context, c kept.Call) error {
	var name any
	if c.Name != (kept.Name{}) {
		name = c.Name[:]
	}
	return s.db.submit(ctx, false, func(t *tx) error {
		var calls int64
		if _, err := t.row("SELECT calls FROM kept_sums WHERE team = ?", []any{c.Team}, []any{&calls}); err != nil {
			return err
		}
		if calls >= kept.MaxCalls {
			return kept.ErrFull
		}
		return t.w.exec(t.ctx, `INSERT INTO kept (call_id, key_id, team, name, digest, task, tool, state, began, ended, outcome, reason, size)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0)`,
			c.ID, c.Key, c.Team, name, c.Digest[:], c.Task, c.Tool, int64(kept.Runs), nanos(c.Began))
	})
}

// Finish implements kept.Store.
func (s keptStore) Finish(ctx context.Context, c kept.Call, most int64) error {
	var result any
	if c.Result != nil && int64(len(c.Result)) <= most {
		result = c.Result
	}
	return s.db.submit(ctx, false, func(t *tx) error {
		n, err := t.w.change(t.ctx, `UPDATE kept SET state = ?1, ended = ?2, outcome = ?3, reason = ?4, size = ?5, result = ?6, name = iif(?4 = 0, name, NULL)
			WHERE call_id = ?7 AND state = ?8`,
			int64(kept.Done), nanos(c.Ended), int64(c.Outcome), int64(c.Reason), c.Size, result, c.ID, int64(kept.Runs))
		if err != nil || n == 0 || result == nil {
			return err
		}
		return t.makeRoom(most)
	})
}

// roomText lets go of the oldest answer of the team that has the most bytes.
const roomText = `UPDATE kept SET result = NULL WHERE call_id = (SELECT call_id FROM kept WHERE result IS NOT NULL
	AND team = (SELECT team FROM kept_sums ORDER BY bytes DESC, team LIMIT 1) ORDER BY ended LIMIT 1)`

// makeRoom lets go of answers until all together have at most most bytes.
func (t *tx) makeRoom(most int64) error {
	for {
		var bytes int64
		_, err := t.row("SELECT coalesce(sum(bytes), 0) FROM kept_sums", nil, []any{&bytes})
		if err != nil || bytes <= most {
			return err
		}
		if n, err := t.w.change(t.ctx, roomText); err != nil || n == 0 {
			return err
		}
	}
}

// Drop implements kept.Store.
func (s keptStore) Drop(ctx context.Context, id string) error {
	return s.db.submit(ctx, false, func(t *tx) error { return t.w.exec(t.ctx, "DELETE FROM kept WHERE call_id = ?", id) })
}

// Lose implements kept.Store.
func (s keptStore) Lose(ctx context.Context, now time.Time) (n int64, err error) {
	err = s.db.submit(ctx, false, func(t *tx) error {
		n, err = t.w.change(t.ctx, "UPDATE kept SET state = ?, ended = max(?, 1) WHERE ended = 0", int64(kept.Lost), nanos(now))
		return err
	})
	return n, err
}

const keptColumns = "call_id, key_id, team, name, digest, task, tool, state, began, ended, outcome, reason, size"

// keptRow is a kept.Call as it is stored.
type keptRow struct {
	c            kept.Call
	name, digest []byte
	began, ended int64
}

func (r *keptRow) fields() []any {
	return []any{&r.c.ID, &r.c.Key, &r.c.Team, &r.name, &r.digest, &r.c.Task, &r.c.Tool, &r.c.State, &r.began, &r.ended, &r.c.Outcome, &r.c.Reason, &r.c.Size}
}

func (r *keptRow) call() (kept.Call, error) {
	if len(r.digest) != len(r.c.Digest) || r.name != nil && len(r.name) != len(r.c.Name) {
		return kept.Call{}, fmt.Errorf("%w: a digest of %d bytes", audit.ErrCorrupt, len(r.digest))
	}
	copy(r.c.Name[:], r.name)
	copy(r.c.Digest[:], r.digest)
	r.c.Began, r.c.Ended = fromNanos(r.began), fromNanos(r.ended)
	return r.c, nil
}

// one returns the call that a condition selects.
func (s keptStore) one(ctx context.Context, where string, result bool, arg any) (c kept.Call, ok bool, err error) {
	columns := keptColumns + ", NULL"
	if result {
		columns = keptColumns + ", result"
	}
	err = query(ctx, s.db.read, "SELECT "+columns+" FROM kept WHERE "+where, []any{arg}, func(rows *sql.Rows) (bool, error) {
		var r keptRow
		if err := rows.Scan(append(r.fields(), &r.c.Result)...); err != nil {
			return false, err
		}
		ok = true
		c, err = r.call()
		return false, err
	})
	return c, ok && err == nil, err
}

// Named implements kept.Store.
func (s keptStore) Named(ctx context.Context, name kept.Name) (kept.Call, bool, error) {
	return s.one(ctx, "name = ?", false, name[:])
}

// Read implements kept.Store.
func (s keptStore) Read(ctx context.Context, id string, answer bool) (kept.Call, bool, error) {
	return s.one(ctx, "call_id = ?", answer, id)
}

// List implements kept.Store.
func (s keptStore) List(ctx context.Context, key string, limit int) (list []kept.Call, err error) {
	err = query(ctx, s.db.read, "SELECT "+keptColumns+" FROM kept WHERE key_id = ? AND state <> 4 ORDER BY call_id DESC LIMIT ?", []any{key, limit},
		func(rows *sql.Rows) (bool, error) {
			var r keptRow
			if err := rows.Scan(r.fields()...); err != nil {
				return false, err
			}
			c, err := r.call()
			list = append(list, c)
			return true, err
		})
	return list, err
}

// Sweep implements kept.Store. Where there is nothing to forget it writes
// nothing.
func (s keptStore) Sweep(ctx context.Context, before time.Time, limit int) (more bool, err error) {
	err = query(ctx, s.db.read, "SELECT 1 FROM kept WHERE ended > 0 AND ended < ? LIMIT 1", []any{nanos(before)}, func(*sql.Rows) (bool, error) {
		more = true
		return false, nil
	})
	if err != nil || !more {
		return false, err
	}
	err = s.db.submit(ctx, false, func(t *tx) error {
		n, err := t.w.change(t.ctx, "DELETE FROM kept WHERE call_id IN (SELECT call_id FROM kept WHERE ended > 0 AND ended < ? ORDER BY ended LIMIT ?)", nanos(before), limit)
		more = n == int64(limit)
		return err
	})
	return more && err == nil, err
}

// eraseKept takes away what is kept of a call that the log erases. With keep
// its name stays, so that who comes back is told, and nothing runs again.
func (t *tx) eraseKept(id string, keep bool) error {
	if !keep {
		return t.w.exec(t.ctx, "DELETE FROM kept WHERE call_id = ?", id)
	}
	return t.w.exec(t.ctx, `UPDATE kept SET state = 4, digest = zeroblob(32), task = '', tool = '', ended = iif(ended = 0, began, ended),
		outcome = 0, reason = 0, size = 0, result = NULL WHERE call_id = ?`, id)
}
