package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// AddHosts implements audit.Tx.
func (t *tx) AddHosts(id string, hosts []string) error {
	for _, host := range hosts {
		if err := t.w.exec(t.ctx, "INSERT INTO call_hosts (host, call_id) VALUES (?, ?)", host, id); err != nil {
			return err
		}
	}
	return nil
}

// expiredText walks the calls of a team from the oldest on: those whose bodies
// were taken away by age are not there any more.
const expiredText = "SELECT " + entryColumns + ` FROM calls c WHERE c.team = ? AND c.call_id < ? AND c.chain = ? AND c.last <> 0
	AND NOT EXISTS (SELECT 1 FROM events e WHERE e.call_id = c.call_id AND (e.commitment IS NULL OR e.body = ''))
	ORDER BY c.call_id LIMIT ?`

// Expired implements audit.Tx.
func (t *tx) Expired(chain, team, before string, limit int) (list []audit.Entry, err error) {
	s, err := t.w.stmt(t.ctx, expiredText)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(t.ctx, team, before, chain, limit)
	if err != nil {
		return nil, mapped(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e audit.Entry
		if err := rows.Scan(entryFields(&e)...); err != nil {
			return nil, scanned(err)
		}
		list = append(list, e)
	}
	return list, mapped(rows.Err())
}

// Erase implements audit.Tx.
func (t *tx) Erase(entry *audit.Entry, by int64, keep bool) error {
	want := int64(2)
	if entry.First == entry.Last {
		want = 1
	}
	n, err := t.w.change(t.ctx, "UPDATE events SET body = '', salt = NULL, pruned = ? WHERE call_id = ? AND commitment IS NOT NULL AND body <> ''", by, entry.ID)
	if err == nil && n != want {
		err = fmt.Errorf("%w: %d of the %d events of %s", audit.ErrOldFormat, want-n, want, entry.ID)
	}
	if err == nil {
		err = t.w.exec(t.ctx, "DELETE FROM call_hosts WHERE call_id = ?", entry.ID)
	}
	if err == nil {
		err = t.eraseKept(entry.ID, keep)
	}
	if err != nil {
		return err
	}
	if keep {
		return t.w.exec(t.ctx, "UPDATE calls SET task = '', caller = '', team = '', tool = '' WHERE call_id = ?", entry.ID)
	}
	return t.w.exec(t.ctx, "DELETE FROM calls WHERE call_id = ?", entry.ID)
}

// Chains implements audit.Tx.
func (t *tx) Chains() (chains []string, err error) {
	const text = "SELECT chain FROM events WHERE chain > ? ORDER BY chain LIMIT 1"
	for last := ""; ; {
		ok, err := t.row(text, []any{last}, []any{&last})
		if !ok {
			return chains, err
		}
		chains = append(chains, last)
	}
}

// Teams implements audit.Store.
func (s *auditStore) Teams(ctx context.Context) (teams []string, err error) {
	const next = "SELECT team FROM calls WHERE team > ? ORDER BY team LIMIT 1"
	err = s.db.submit(ctx, true, func(t *tx) error {
		var last string
		ok, err := t.row("SELECT team FROM calls WHERE team = '' LIMIT 1", nil, []any{&last})
		for {
			if ok {
				teams = append(teams, last)
			}
			if err != nil {
				return err
			}
			if ok, err = t.row(next, []any{last}, []any{&last}); !ok {
				return err
			}
		}
	})
	return teams, err
}

// progressText are indexed look-ups.
const progressText = `SELECT h.seq, h.hash, h.kind, coalesce((SELECT f.at FROM events f WHERE f.chain = ?1 AND f.seq = 1), 0),
		coalesce(c.seq, 0), coalesce(c.at, 0)
	FROM events h LEFT JOIN events c ON c.chain = ?1
		AND c.seq = (SELECT max(seq) FROM events WHERE chain = ?1 AND kind = 6 AND call_id IS NULL)
	WHERE h.chain = ?1 ORDER BY h.seq DESC LIMIT 1`

// Progress implements audit.Store. It uses the writer's connection, as Orphans
// does.
func (s *auditStore) Progress(ctx context.Context, chain string) (p audit.Progress, err error) {
	err = s.db.submit(ctx, true, func(t *tx) error {
		var hash []byte
		var first, at int64
		ok, err := t.row(progressText, []any{chain}, []any{&p.Head.Seq, &hash, &p.Kind, &first, &p.Checkpoint, &at})
		switch {
		case !ok:
			return err
		case len(hash) != len(p.Head.Hash):
			return audit.ErrCorrupt
		}
		p.Head.Hash, p.First, p.At = audit.Hash(hash), fromNanos(first), fromNanos(at)
		return nil
	})
	return p, err
}

// The bounds of moving the write-ahead log: each try holds the writer up for
// no longer than scrubTime.
const (
	scrubTries = 20
	scrubTime  = 100 * time.Millisecond
)

// Scrub implements audit.Store: what was erased is overwritten in the file,
// and the write-ahead log, which has it still, is moved into the file and cut
// to nothing. Where others read all the time it wraps audit.ErrBusy.
func (s *auditStore) Scrub(ctx context.Context) error {
	again := time.NewTicker(scrubTime)
	defer again.Stop()
	var busy error
	for range scrubTries {
		err := s.db.submit(ctx, true, moveLog)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, audit.ErrBusy):
			return errors.Join(err, busy) // busy until ctx ended, or something worse
		}
		busy = err
		select {
		case <-ctx.Done():
			return busy
		case <-again.C:
		}
	}
	return busy
}

func moveLog(t *tx) error {
	var wait, busy, pages, moved int64
	_, err := t.row(fmt.Sprintf("PRAGMA busy_timeout = %d", scrubTime.Milliseconds()), nil, []any{&wait})
	if err != nil {
		return err
	}
	_, err = t.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, []any{&busy, &pages, &moved})
	if err == nil && busy != 0 {
		err = fmt.Errorf("%w: %w: the write-ahead log is being read, and has what was erased until it is moved", audit.ErrUnwritable, audit.ErrBusy)
	}
	_, back := t.row(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()), nil, []any{&wait})
	return errors.Join(err, back)
}
