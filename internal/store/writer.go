package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/callcell/callcell/internal/audit"
)

// The bounds of the writer.
const (
	queueLength = 512 // requests that wait; more wait to get into the queue
	batchLength = 256 // requests of one transaction
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
	return d.send(ctx, reads, fn)()
}

// send is submit for who does something else meanwhile: it returns when the
// request is in the queue. wait returns what submit does; it must be called once.
func (d *DB) send(ctx context.Context, reads bool, fn func(*tx) error) (wait func() error) {
	r := &request{fn: fn, reads: reads, done: make(chan error, 1)}
	if err := d.enqueue(ctx, r); err != nil {
		return func() error { return err }
	}
	return func() error { return d.await(ctx, r) }
}

func (d *DB) enqueue(ctx context.Context, r *request) error {
	select { // first: below, a queue with room may be chosen all the same
	case <-d.quit:
		return audit.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case d.queue <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.quit:
		return audit.ErrClosed
	}
}

// await waits for the answer to a request, or gives it up.
func (d *DB) await(ctx context.Context, r *request) error {
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

// gather takes along what waits behind first, and what is about to: those that
// the last commit has answered come again at once, and a call makes two requests
// at a time. It gives way to who is ready to run, as long as more come of it, and
// waits for nobody.
func (d *DB) gather(first *request) []*request {
	batch := []*request{first}
	for came := true; came && len(batch) < batchLength; {
		runtime.Gosched()
		came = false
		for more := true; more && len(batch) < batchLength; {
			select {
			case r := <-d.queue:
				batch, came = append(batch, r), true
			default:
				more = false
			}
		}
	}
	return batch
}

// writer owns the one connection that writes, and its prepared statements.
type writer struct {
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	writes  int64 // statements that have changed something, ever
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
	if err != nil { // and what the statement wrote is undone
		return 0, mapped(err)
	}
	w.writes++
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
// failed are undone alone: nearly all fail before they write anything, and then
// there is nothing to undo. Where one has written, or SQLite itself has failed,
// the transaction is begun anew without it, and this time each request has a
// savepoint.
func (w *writer) batch(ctx context.Context, batch []*request) {
	for taken, savepoints := false, false; ; taken, savepoints = true, true {
		err := w.exec(ctx, "BEGIN IMMEDIATE")
		if !taken { // who waited for that may have gone
			batch = slices.DeleteFunc(batch, func(r *request) bool { return !r.take() })
		}
		var again bool
		if err == nil {
			batch, again, err = w.all(ctx, batch, savepoints)
		}
		if err == nil && !again && len(batch) > 0 {
			if err = w.exec(ctx, "COMMIT"); err == nil {
				w.commits.Add(1)
			}
		}
		if err != nil || again || len(batch) == 0 {
			_ = w.exec(ctx, "ROLLBACK") // SQLite may have done so itself, or never begun
		}
		if err != nil || !again {
			for _, r := range batch {
				r.done <- err
			}
			return
		}
	}
}

// all runs requests one after another in the transaction, answers those whose fn
// failed, and returns the others. again says that one of those had written
// something that could not be undone alone.
func (w *writer) all(ctx context.Context, batch []*request, savepoints bool) (ran []*request, again bool, broken error) {
	t := &tx{ctx: ctx, w: w, heads: map[string]audit.Head{}, leases: map[string]time.Time{}}
	for i, r := range batch {
		err, undo := w.one(ctx, r, t, savepoints)
		switch {
		case err == nil:
			ran = append(ran, r)
			continue
		case undo == nil:
			r.done <- err
			continue
		case errors.Is(undo, errWrote):
			r.done <- err
			return append(ran, batch[i+1:]...), true, nil
		}
		return append(ran, batch[i:]...), false, undo
	}
	return ran, false, nil
}

// one runs a request's fn. Where fn fails and what it wrote could not be undone
// alone, undo says so: errWrote, or why the whole transaction is lost.
func (w *writer) one(ctx context.Context, r *request, t *tx, savepoint bool) (err, undo error) {
	before := w.writes
	if !savepoint {
		if err = r.fn(t); err != nil && (w.writes != before || endsTransaction(err)) {
			undo = errWrote
		}
		return err, undo
	}
	if err := w.exec(ctx, "SAVEPOINT one"); err != nil {
		return err, err
	}
	err = r.fn(t)
	if err != nil {
		t.forget()
		undo = w.exec(ctx, "ROLLBACK TO one")
	}
	if undo == nil {
		undo = w.exec(ctx, "RELEASE one")
	}
	if undo != nil {
		undo = fmt.Errorf("%w: the transaction was lost with another's failure: %w", audit.ErrUnwritable, errors.Join(err, undo))
		err = undo
	}
	return err, undo
}

// endsTransaction reports whether SQLite may have ended the transaction with an
// error: it has not where a statement has met a constraint, or the error is not
// SQLite's.
func endsTransaction(err error) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && failed.Code()&0xff != lib.SQLITE_CONSTRAINT
}

// errWrote means that a request failed after it had written something, or may
// have ended the transaction.
var errWrote = errors.New("store: half done")
