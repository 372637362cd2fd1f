package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/callcell/callcell/internal/audit"
)

// The bounds of the writer.
const (
	queueLength = 256 // requests that wait; more wait to get into the queue
	batchLength = 64  // requests of one transaction
)

// request is one fn for the writer.
type request struct {
	fn    func(*tx) error
	reads bool // fn only reads
	taken atomic.Bool
	done  chan error // buffered: the writer never waits for the one who asked
}

// take claims the request, for the writer to run it or for the one who asked
// to give it up. Only one of them gets it.
func (r *request) take() bool { return r.taken.CompareAndSwap(false, true) }

// submit has the writer run fn in a transaction, or, where it only reads, as
// it is. See audit.Store.Update.
func (d *DB) submit(ctx context.Context, reads bool, fn func(*tx) error) error {
	r := &request{fn: fn, reads: reads, done: make(chan error, 1)}
	select { // first: below, a queue with room may be chosen all the same
	case <-d.quit:
		return audit.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.quit:
		return audit.ErrClosed
	}
	var gaveUp error
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		gaveUp = ctx.Err()
	case <-d.gone:
		gaveUp = audit.ErrClosed
	}
	if r.take() {
		return gaveUp
	}
	return <-r.done
}

// run is the writer. It returns after Close or Leave; what waits then is
// answered by submit.
func (d *DB) run(ctx context.Context, w *writer) {
	defer close(d.gone)
	defer w.close()
	for {
		select {
		case <-d.quit:
			return
		case r := <-d.queue:
			if r.reads {
				w.answer(ctx, r, &tx{ctx: ctx, w: w})
				continue
			}
			w.batch(ctx, d.gather(r))
		}
	}
}

// gather takes along what waits behind first.
func (d *DB) gather(first *request) []*request {
	batch := []*request{first}
	for len(batch) < batchLength {
		select {
		case r := <-d.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// writer owns the one connection that writes, and its prepared statements.
type writer struct {
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	commits *atomic.Int64
}

func newWriter(conn *sql.Conn, commits *atomic.Int64) *writer {
	return &writer{conn: conn, stmts: map[string]*sql.Stmt{}, commits: commits}
}

func (w *writer) close() {
	for _, s := range w.stmts {
		s.Close() // the connection is about to be closed or left
	}
}

// stmt returns a prepared statement. Its texts are constants of this package,
// so there are few.
func (w *writer) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := w.stmts[text]; ok {
		return s, nil
	}
	s, err := w.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, mapped(err)
	}
	w.stmts[text] = s
	return s, nil
}

func (w *writer) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.change(ctx, text, args...)
	return err
}

// change is exec, and returns how many rows were changed.
func (w *writer) change(ctx context.Context, text string, args ...any) (int64, error) {
	s, err := w.stmt(ctx, text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, mapped(err)
	}
	n, err := res.RowsAffected()
	return n, mapped(err)
}

// answer runs a request that only reads.
func (w *writer) answer(ctx context.Context, r *request, t *tx) {
	if r.take() {
		r.done <- r.fn(t)
	}
}

// batch runs requests in one transaction and answers each. Those whose fn
// failed are undone alone.
func (w *writer) batch(ctx context.Context, batch []*request) {
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		refuse(batch, err)
		return
	}
	t := &tx{ctx: ctx, w: w, heads: map[string]audit.Head{}}
	var ran []*request
	var broken error
	for _, r := range batch {
		if broken != nil || !r.take() {
			continue
		}
		err, undo := w.one(ctx, r, t, len(batch) > 1)
		if err == nil {
			ran = append(ran, r)
			continue
		}
		broken = undo
		r.done <- err
	}
	if broken == nil {
		broken = w.exec(ctx, "COMMIT")
		w.commits.Add(1)
	}
	if broken != nil {
		_ = w.exec(ctx, "ROLLBACK") // SQLite may have done so itself
	}
	for _, r := range ran {
		r.done <- broken
	}
	if broken != nil {
		refuse(batch, broken)
	}
}

// one runs a request's fn. Where fn fails, undo says whether what it wrote
// could not be undone alone; then the whole transaction is lost.
func (w *writer) one(ctx context.Context, r *request, t *tx, shared bool) (err, undo error) {
	if !shared {
		if err := r.fn(t); err != nil {
			return err, errAlone
		}
		return nil, nil
	}
	if err := w.exec(ctx, "SAVEPOINT one"); err != nil {
		return err, err
	}
	err = r.fn(t)
	if err != nil {
		clear(t.heads)
		undo = w.exec(ctx, "ROLLBACK TO one")
	}
	if undo == nil {
		undo = w.exec(ctx, "RELEASE one")
	}
	if undo != nil {
		undo = fmt.Errorf("%w: the transaction was lost with another's failure: %w", audit.ErrUnwritable, errors.Join(err, undo))
		err = errors.Join(err, undo)
	}
	return err, undo
}

// errAlone ends the transaction of a single request whose fn failed.
var errAlone = errors.New("store: undone")

// refuse answers the requests that nobody has taken yet.
func refuse(batch []*request, err error) {
	for _, r := range batch {
		if r.take() {
			r.done <- err
		}
	}
}
