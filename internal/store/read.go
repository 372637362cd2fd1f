package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"modernc.org/sqlite"

	"github.com/callcell/callcell/internal/audit"
)

// auditStore is a DB as the audit log sees it.
type auditStore struct{ db *DB }

var _ audit.Store = (*auditStore)(nil)

// Update implements audit.Store.
func (s *auditStore) Update(ctx context.Context, fn func(audit.Tx) error) error {
	return s.db.submit(ctx, false, func(t *tx) error { return fn(t) })
}

// Orphans implements audit.Store. It uses the writer's connection, so that a
// process that only writes does not open another.
func (s *auditStore) Orphans(ctx context.Context, chain string, now, far time.Time, limit int) (list []audit.Orphan, err error) {
	err = s.db.submit(ctx, true, func(t *tx) (err error) {
		list, err = t.Orphans(chain, now, far, limit)
		return err
	})
	return list, err
}

// pageBytes ends a page of events or calls, in bytes of bodies.
const pageBytes = 8 << 20

// eventColumns are the columns of a Stored, in the order of eventFields. A
// body that is too large to be one is not read.
const eventColumns = "e.chain, e.seq, e.kind, e.call_id, e.instance, e.at, iif(octet_length(e.body) <= 2097152, e.body, NULL), e.prev, e.hash, e.salt, e.commitment, e.pruned"

// storedRow is a Stored whose columns may be NULL.
type storedRow struct {
	chain, callID, instance sql.NullString
	seq, kind, at, pruned   sql.NullInt64
	body, prev, hash        []byte
	salt, commitment        []byte
}

func (r *storedRow) fields() []any {
	return []any{&r.chain, &r.seq, &r.kind, &r.callID, &r.instance, &r.at, &r.body, &r.prev, &r.hash,
		&r.salt, &r.commitment, &r.pruned}
}

func (r *storedRow) stored() audit.Stored {
	return audit.Stored{
		Chain: r.chain.String, Seq: r.seq.Int64, Kind: r.kind.Int64, CallID: r.callID.String,
		Instance: r.instance.String, At: r.at.Int64, Body: r.body, Prev: r.prev, Hash: r.hash,
		Salt: r.salt, Commitment: r.commitment, Pruned: r.pruned.Int64,
	}
}

// scanned maps an error of Scan: columns have types that no version of the
// schema gives them.
func scanned(err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return mapped(err)
	}
	return fmt.Errorf("%w: %w", audit.ErrCorrupt, err)
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// query runs a query and hands each row to scan until that returns false.
func query(ctx context.Context, q queryer, text string, args []any, scan func(*sql.Rows) (bool, error)) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return mapped(err)
	}
	defer rows.Close()
	for rows.Next() {
		more, err := scan(rows)
		if err != nil {
			return scanned(err)
		}
		if !more {
			return nil
		}
	}
	return mapped(rows.Err())
}

// reading runs fn on one committed state.
func (s *auditStore) reading(ctx context.Context, fn func(queryer) error) error {
	select {
	case <-s.db.quit:
		return audit.ErrClosed
	default:
	}
	tx, err := s.db.read.BeginTx(ctx, nil)
	if err != nil {
		select {
		case <-s.db.quit: // meanwhile
			return audit.ErrClosed
		default:
			return mapped(err)
		}
	}
	defer tx.Rollback() // it has only read
	return fn(tx)
}

const eventsText = "SELECT " + eventColumns + " FROM events e WHERE e.chain = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"

// Events implements audit.Store.
func (s *auditStore) Events(ctx context.Context, chain string, after int64, limit int) (list []audit.Stored, err error) {
	size := 0
	err = s.reading(ctx, func(q queryer) error {
		return query(ctx, q, eventsText, []any{chain, after, limit}, func(rows *sql.Rows) (bool, error) {
			var r storedRow
			if err := rows.Scan(r.fields()...); err != nil {
				return false, err
			}
			list = append(list, r.stored())
			size += len(r.body)
			return size < pageBytes, nil
		})
	})
	return list, err
}

// Calls implements audit.Store.
func (s *auditStore) Calls(ctx context.Context, q audit.Query) (list []audit.Call, err error) {
	err = s.reading(ctx, func(tx queryer) error {
		if list, err = entries(ctx, tx, &q); err != nil {
			return err
		}
		size := 0
		for i := range list {
			c := &list[i]
			if c.Events, err = eventsOf(ctx, tx, c.Entry.ID); err != nil {
				return err
			}
			for _, e := range c.Events {
				size += len(e.Body)
			}
			if size >= pageBytes {
				list = list[:i+1]
				break
			}
		}
		return nil
	})
	return list, err
}

func entries(ctx context.Context, tx queryer, q *audit.Query) (list []audit.Call, err error) {
	text, args := entriesText(q)
	err = query(ctx, tx, text, args, func(rows *sql.Rows) (bool, error) {
		var c audit.Call
		err := rows.Scan(entryFields(&c.Entry)...)
		list = append(list, c)
		return true, err
	})
	return list, err
}

func eventsOf(ctx context.Context, tx queryer, id string) (list []audit.Stored, err error) {
	text := "SELECT " + eventColumns + " FROM events e WHERE e.call_id = ? ORDER BY e.seq LIMIT " + strconv.Itoa(maxMarks)
	err = query(ctx, tx, text, []any{id}, func(rows *sql.Rows) (bool, error) {
		var r storedRow
		err := rows.Scan(r.fields()...)
		list = append(list, r.stored())
		return true, err
	})
	return list, err
}
