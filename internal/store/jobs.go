package store

import (
	"context"
	"database/sql"

	"github.com/callcell/callcell/internal/kept"
)

var _ kept.Jobs = keptStore{}

// Jobs returns the store of images that are made.
func (d *DB) Jobs() kept.Jobs { return keptStore{d} }

// BeginJob implements kept.Jobs.
func (s keptStore) BeginJob(ctx context.Context, j kept.Job) error {
	return s.db.submit(ctx, false, func(t *tx) error {
		err := t.w.exec(t.ctx, "INSERT INTO image_jobs (id, call, began, ended, text) VALUES (?, ?, ?, 0, ?)", j.ID, j.Call, nanos(j.Began), j.Text)
		if err != nil {
			return err
		}
		return t.w.exec(t.ctx, `DELETE FROM image_jobs WHERE id IN (SELECT id FROM image_jobs WHERE ended <> 0 ORDER BY began, id
			LIMIT max(0, (SELECT count(*) FROM image_jobs) - ?))`, kept.MaxJobs)
	})
}

// CallJob implements kept.Jobs.
func (s keptStore) CallJob(ctx context.Context, id, call string) error {
	return s.db.submit(ctx, false, func(t *tx) error {
		return t.w.exec(t.ctx, "UPDATE image_jobs SET call = ? WHERE id = ? AND ended = 0", call, id)
	})
}

// FinishJob implements kept.Jobs.
func (s keptStore) FinishJob(ctx context.Context, j kept.Job) error {
	return s.db.submit(ctx, false, func(t *tx) error {
		return t.w.exec(t.ctx, "UPDATE image_jobs SET call = ?, ended = max(?, 1), text = ? WHERE id = ? AND ended = 0",
			j.Call, nanos(j.Ended), j.Text, j.ID)
	})
}

// ListJobs implements kept.Jobs.
func (s keptStore) ListJobs(ctx context.Context) (list []kept.Job, err error) {
	err = query(ctx, s.db.read, "SELECT id, call, began, ended, text FROM image_jobs ORDER BY began, id", nil, func(rows *sql.Rows) (bool, error) {
		var j kept.Job
		var began, ended int64
		if err := rows.Scan(&j.ID, &j.Call, &began, &ended, &j.Text); err != nil {
			return false, err
		}
		j.Began, j.Ended = fromNanos(began), fromNanos(ended)
		list = append(list, j)
		return true, nil
	})
	return list, err
}
