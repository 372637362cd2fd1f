package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/workspace"
)

// workspaceStore is a DB as workspaces see it.
type workspaceStore struct{ db *DB }

var _ workspace.Index = workspaceStore{}

// Workspaces returns the index of workspaces.
func (d *DB) Workspaces() workspace.Index { return workspaceStore{d} }

// A held is the row of a workspace.
type held struct {
	head, until int64
	holder      string
}

func (t *tx) workspace(team, name string) (h held, ok bool, err error) {
	ok, err = t.row("SELECT head, holder, until FROM workspaces WHERE team = ? AND name = ?", []any{team, name}, []any{&h.head, &h.holder, &h.until})
	return h, ok, err
}

const versionColumns = "v.team, v.name, v.number, v.manifest, v.call_id, v.at, v.files, v.bytes"

// versionRow is a workspace.Version as it is stored.
type versionRow struct {
	v        workspace.Version
	manifest []byte
	at       int64
}

func (r *versionRow) fields() []any {
	return []any{&r.v.Team, &r.v.Name, &r.v.Number, &r.manifest, &r.v.Call, &r.at, &r.v.Files, &r.v.Bytes}
}

func (r *versionRow) version() (workspace.Version, error) {
	if len(r.manifest) != len(r.v.Manifest) {
		return workspace.Version{}, audit.ErrCorrupt
	}
	copy(r.v.Manifest[:], r.manifest)
	r.v.At = fromNanos(r.at)
	return r.v, nil
}

// Take implements workspace.Index.
func (s workspaceStore) Take(ctx context.Context, h workspace.Hold, want int64, now time.Time) (v workspace.Version, err error) {
	err = s.db.submit(ctx, false, func(t *tx) error {
		w, ok, err := t.workspace(h.Team, h.Name)
		switch {
		case err != nil:
			return err
		case !ok && want > 0:
			return fmt.Errorf("%w: %s", workspace.ErrAbsent, h.Name)
		case w.holder != "" && w.until > nanos(now):
			return &workspace.HeldError{Until: fromNanos(w.until)}
		case want > 0 && want != w.head:
			return &workspace.StaleError{Newest: w.head}
		}
		if v, err = t.version(h.Team, h.Name, w.head); err != nil {
			return err
		}
		return t.w.exec(t.ctx, `INSERT INTO workspaces (team, name, head, holder, until) VALUES (?, ?, 0, ?, ?)
			ON CONFLICT (team, name) DO UPDATE SET holder = excluded.holder, until = excluded.until`,
			h.Team, h.Name, h.Holder, nanos(h.Until))
	})
	return v, err
}

// version returns a version, or the one before the first.
func (t *tx) version(team, name string, number int64) (workspace.Version, error) {
	if number == 0 {
		return workspace.Version{Team: team, Name: name}, nil
	}
	var r versionRow
	ok, err := t.row("SELECT "+versionColumns+" FROM versions v WHERE v.team = ? AND v.name = ? AND v.number = ?", []any{team, name, number}, r.fields())
	if err == nil && !ok {
		err = fmt.Errorf("%w: version %d of %s is not there", audit.ErrCorrupt, number, name)
	}
	if err != nil {
		return workspace.Version{}, err
	}
	return r.version()
}

// Commit implements workspace.Index.
func (s workspaceStore) Commit(ctx context.Context, v workspace.Version, holder string, keep int64) error {
	return s.db.submit(ctx, false, func(t *tx) error {
		w, ok, err := t.workspace(v.Team, v.Name)
		if err != nil {
			return err
		}
		if !ok || w.holder != holder || w.head != v.Number-1 {
			return workspace.ErrLost
		}
		if err := t.w.exec(t.ctx, "INSERT INTO versions (team, name, number, manifest, call_id, at, files, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			v.Team, v.Name, v.Number, v.Manifest[:], v.Call, nanos(v.At), v.Files, v.Bytes); err != nil {
			return err
		}
		if err := t.w.exec(t.ctx, "DELETE FROM versions WHERE team = ? AND name = ? AND number <= ?", v.Team, v.Name, v.Number-keep); err != nil {
			return err
		}
		return t.w.exec(t.ctx, "UPDATE workspaces SET head = ? WHERE team = ? AND name = ?", v.Number, v.Team, v.Name)
	})
}

// Release implements workspace.Index. A workspace that nothing was written to
// is gone then.
func (s workspaceStore) Release(ctx context.Context, h workspace.Hold) error {
	return s.db.submit(ctx, false, func(t *tx) error {
		if err := t.w.exec(t.ctx, "DELETE FROM workspaces WHERE team = ? AND name = ? AND holder = ? AND head = 0", h.Team, h.Name, h.Holder); err != nil {
			return err
		}
		return t.w.exec(t.ctx, "UPDATE workspaces SET holder = '', until = 0 WHERE team = ? AND name = ? AND holder = ?", h.Team, h.Name, h.Holder)
	})
}

// Remove implements workspace.Index.
func (s workspaceStore) Remove(ctx context.Context, team, name string, upTo int64, now time.Time) (removed int, err error) {
	err = s.db.submit(ctx, false, func(t *tx) error {
		w, ok, err := t.workspace(team, name)
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("%w: %s", workspace.ErrAbsent, name)
		case w.holder != "" && w.until > nanos(now):
			return &workspace.HeldError{Until: fromNanos(w.until)}
		case upTo >= w.head && upTo > 0:
			return fmt.Errorf("%w: version %d is the newest of %s, which goes only with the whole", workspace.ErrStale, w.head, name)
		}
		if _, err := t.row("SELECT count(*) FROM versions WHERE team = ? AND name = ? AND (? = 0 OR number <= ?)", []any{team, name, upTo, upTo}, []any{&removed}); err != nil {
			return err
		}
		if err := t.w.exec(t.ctx, "DELETE FROM versions WHERE team = ? AND name = ? AND (? = 0 OR number <= ?)", team, name, upTo, upTo); err != nil || upTo > 0 {
			return err
		}
		return t.w.exec(t.ctx, "DELETE FROM workspaces WHERE team = ? AND name = ?", team, name)
	})
	return removed, err
}

// List implements workspace.Index.
func (s workspaceStore) List(ctx context.Context, team string) ([]workspace.Version, error) {
	return s.versions(ctx, "SELECT "+versionColumns+" FROM workspaces w JOIN versions v ON v.team = w.team AND v.name = w.name AND v.number = w.head WHERE w.team = ? ORDER BY v.name", team)
}

// Versions implements workspace.Index.
func (s workspaceStore) Versions(ctx context.Context, team, name string) ([]workspace.Version, error) {
	return s.versions(ctx, "SELECT "+versionColumns+" FROM versions v WHERE v.team = ? AND v.name = ? ORDER BY v.number DESC", team, name)
}

func (s workspaceStore) versions(ctx context.Context, text string, args ...any) (list []workspace.Version, err error) {
	err = (&auditStore{s.db}).reading(ctx, func(q queryer) error {
		return query(ctx, q, text, args, func(rows *sql.Rows) (bool, error) {
			var r versionRow
			if err := rows.Scan(r.fields()...); err != nil {
				return false, err
			}
			v, err := r.version()
			list = append(list, v)
			return true, err
		})
	})
	return list, err
}
