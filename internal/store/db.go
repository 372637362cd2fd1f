// Package store keeps what callcell has to keep, in one SQLite file: the
// events of the audit log and the leases of those who write them, the gateway's
// teams, keys and counts, the versions of workspaces, and what a daemon keeps of
// calls for who comes back for them.
//
// The file has a write-ahead log and is synced at every commit: what a method
// says is stored survives the machine's sudden death. Several processes may
// use it at once. All writes of a process go through one goroutine with one
// connection:
//
//	Update ─┐
//	Update ─┼─> queue ─> BEGIN IMMEDIATE, one after another, COMMIT ─> answers
//	Update ─┘            (what waits when a commit begins goes into it)
//
// A single Update on an idle store is a transaction by itself, at once. Reads
// have connections of their own, opened when first needed.
//
// Triggers keep events from being changed or removed, but for a body that is
// erased, and unique indices a call from having two intents or two endings.
// What is erased is overwritten. They are a guard against mistakes:
// whoever can write the file can go round them (INSERT OR REPLACE does), and
// audit.Log.Verify is what finds it.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/callcell/callcell/internal/audit"
)

// busyTimeout is how long a transaction waits for those of other processes.
// Whoever waits looks ten times a second whether it is its turn, and nobody keeps
// a queue: on a host where a transaction takes long, another is often first.
const busyTimeout = 20 * time.Second

// walPages is the size of the write-ahead log, in pages of 4 KiB, at which a
// commit moves it into the file. A process that is the first to open a file
// reads the log once, so it is kept small: 1 MiB costs less than a
// millisecond. Who holds the store lives long and writes much: each time the log
// is moved costs two syncs more.
const (
	walPages     = 256
	walPagesHeld = 2048
)

// readers is how many reads run at once.
const readers = 4

// DB is an open store. Its methods may be called concurrently.
type DB struct {
	path  string
	write *sql.DB
	conn  *sql.Conn // of write; the writer's own
	read  *sql.DB
	queue chan *request
	quit  chan struct{} // closed by Close or Leave
	gone  chan struct{} // closed when the writer has returned
	once  sync.Once
	held  *os.File // the lock, since Hold

	commits atomic.Int64 // transactions
}

// Open opens the file at path, creates it and its directory where they are
// not there (modes 0600 and 0700), and brings it to the newest schema. Errors
// wrap ErrInsecure, ErrNewer, audit.ErrUnwritable, audit.ErrBusy,
// audit.ErrCorrupt or the context's; then nothing is left open.
//
// SQLite syncs with fdatasync from then on, in the whole process.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	d := &DB{
		path:  path,
		queue: make(chan *request, queueLength),
		quit:  make(chan struct{}),
		gone:  make(chan struct{}),
	}
	if err := d.connect(ctx); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	go d.run(context.WithoutCancel(ctx), newWriter(d.conn, &d.commits))
	return d, nil
}

func (d *DB) connect(ctx context.Context) (err error) {
	// What SQLite does wherever it is built for Linux by itself: the data and
	// the length are on disk, the file's time may not be. Where there is no
	// such call, fsync stays.
	_, _ = sqlite.Fdatasync(true)
	if d.write, err = openPool(d.path, 1, nil); err != nil {
		return err
	}
	d.conn, err = d.write.Conn(ctx)
	if err == nil {
		err = migrate(ctx, d.conn, d.path)
	}
	if err == nil {
		d.read, err = openPool(d.path, readers, url.Values{"_query_only": {"1"}})
	}
	if err != nil {
		return errors.Join(mapped(err), d.closeAll())
	}
	return nil
}

// openPool returns a pool of at most n connections, none of which is open yet.
func openPool(path string, n int, more url.Values) (*sql.DB, error) {
	q := url.Values{
		"mode":          {"rw"}, // the file is there: SQLite need not create it
		"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_foreign_keys": {"1"},
		"_synchronous":  {"FULL"},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
		"_pragma":       {"trusted_schema(0)", "secure_delete(1)", fmt.Sprintf("wal_autocheckpoint(%d)", walPages)},
	}
	for key, values := range more {
		q[key] = values
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	connector, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// Commits returns how many transactions this process has committed: each is
// synced once.
func (d *DB) Commits() int64 { return d.commits.Load() }

// Path returns the absolute path of the file.
func (d *DB) Path() string { return d.path }

// Close waits for the transaction under way, refuses what waits behind it
// (audit.ErrClosed), and closes the file. The last process to close it moves
// the write-ahead log into it, which syncs a few times more.
func (d *DB) Close() error {
	var err error
	d.once.Do(func() {
		d.stop()
		err = d.closeAll()
	})
	return err
}

// Leave is Close for a process that ends now: it stops in the same way and
// leaves the file open, for the kernel to close. The write-ahead log stays and
// is read by whoever opens the file next; nothing is lost by it, and nothing
// is synced. A process that lives on leaks what was open.
func (d *DB) Leave() { d.once.Do(d.stop) }

func (d *DB) stop() {
	close(d.quit)
	<-d.gone
}

func (d *DB) closeAll() error {
	var errs []error
	if d.read != nil {
		errs = append(errs, d.read.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	if d.write != nil {
		errs = append(errs, d.write.Close())
	}
	if d.held != nil {
		errs = append(errs, release(d.held))
	}
	return mapped(errors.Join(errs...))
}

// Audit returns the store of the audit log.
func (d *DB) Audit() audit.Store { return &auditStore{d} }
