package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/testing/leak"
)

// hold has the writer wait in a transaction until the function it returns is
// called.
func hold(t *testing.T, d *DB) (release func()) {
	t.Helper()
	held, let := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- d.submit(context.Background(), false, func(*tx) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	return func() {
		close(let)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// waitQueue returns when n requests wait for the writer.
func waitQueue(t *testing.T, d *DB, n int) {
	t.Helper()
	for len(d.queue) < n {
		if t.Context().Err() != nil {
			t.Fatal("they never came")
		}
		runtime.Gosched()
	}
}

// TestWaitingUpdatesShareACommit counts the commits.
func TestWaitingUpdatesShareACommit(t *testing.T) {
	leak.Check(t)
	d := open(t, file(t))
	l := log(t, d, audit.Options{TTL: time.Hour}) // whose renewal would be one commit more
	fill(t, l, 1)
	release := hold(t, d)
	const n = batchLength
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := l.Intend(t.Context(), intent(l.NewID())); err != nil {
				t.Error(err)
			}
		})
	}
	waitQueue(t, d, n)
	before := d.commits.Load()
	release()
	wg.Wait()
	if got := d.commits.Load() - before; got != 2 { // the holder's, and theirs
		t.Errorf("%d commits for %d intents", got, n)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != n+2 || rep.Open != n {
		t.Errorf("%+v", rep)
	}
}

// TestOneCommitForEach: a call costs one commit before it and one after it,
// its instance included, and looking for lost calls costs none.
func TestOneCommitForEach(t *testing.T) {
	d := open(t, file(t))
	l := log(t, d, audit.Options{TTL: time.Hour}) // as above
	if _, err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 1)
	if got := d.commits.Load(); got != 2 {
		t.Errorf("%d commits, want 2", got)
	}
}

func TestCloseRefusesWhatWaits(t *testing.T) {
	leak.Check(t)
	d := open(t, file(t))
	l := log(t, d, audit.Options{})
	release := hold(t, d)
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- l.Intend(context.Background(), intent(l.NewID())) }()
	}
	waitQueue(t, d, cap(errs))
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	<-d.quit
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil && !errors.Is(err, audit.ErrClosed) {
			t.Errorf("%v, want nil or ErrClosed", err)
		}
	}
	if err := d.Audit().Update(t.Context(), func(audit.Tx) error { return nil }); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Update after Close: %v", err)
	}
	if _, err := d.Audit().Events(t.Context(), "local", 0, 1); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Events after Close: %v", err)
	}
}

// TestLeaveLosesNothing: the next to open the file reads the log.
func TestLeaveLosesNothing(t *testing.T) {
	path := file(t)
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	l := log(t, d, audit.Options{})
	fill(t, l, 3)
	d.Leave()
	if err := l.Intend(t.Context(), intent(l.NewID())); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Intend after Leave: %v", err)
	}
	if rep := verify(t, log(t, open(t, path), audit.Options{})); !rep.Intact() || rep.Events != 6 {
		t.Errorf("%+v", rep)
	}
	d.closeAll() // for the test's process lives on
}

// TestBusy has another connection hold the file for longer than the timeout.
func TestBusy(t *testing.T) {
	path := file(t)
	d := open(t, path)
	release := hold(t, d)
	defer release()
	db, err := openPool(path, 1, url.Values{"_busy_timeout": {"0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	if err = mapped(err); !errors.Is(err, audit.ErrBusy) || !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("%v, want ErrBusy", err)
	}
}

// TestReadsDoNotWaitForTheWriter reads while a transaction is under way.
func TestReadsDoNotWaitForTheWriter(t *testing.T) {
	d := open(t, file(t))
	l := log(t, d, audit.Options{})
	fill(t, l, 1)
	release := hold(t, d)
	defer release()
	if rep := verify(t, l); rep.Events != 2 {
		t.Errorf("%+v", rep)
	}
}

// TestOnlyTheFailedIsUndone has requests of one transaction fail before they
// write, after it, and by a statement; the others are there, each once, and the
// chain goes on over them.
func TestOnlyTheFailedIsUndone(t *testing.T) {
	leak.Check(t)
	d := open(t, file(t))
	l := log(t, d, audit.Options{TTL: time.Hour}) // whose renewal would be one commit more
	fill(t, l, 1)
	fault := errors.New("fault")
	team := func(x *tx, i int) error {
		return x.w.exec(x.ctx, "INSERT INTO teams (team, tier, tokens, suspended, created) VALUES (?, 'free', 0, 0, 1)", fmt.Sprint(i))
	}
	release := hold(t, d)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := d.submit(t.Context(), false, func(x *tx) error {
				switch i % 5 {
				case 0: // before
					return fault
				case 1: // after
					return errors.Join(team(x, i), fault)
				case 2: // by a statement that meets a constraint
					return errors.Join(team(x, i), team(x, i))
				}
				return team(x, i)
			})
			if failed := i%5 < 3; failed != (err != nil) || i%5 < 2 && !errors.Is(err, fault) || i%5 == 2 && !errors.Is(err, audit.ErrConflict) {
				t.Errorf("%d: %v", i, err)
			}
		})
		wg.Go(func() {
			if err := l.Intend(t.Context(), intent(l.NewID())); err != nil {
				t.Error(err)
			}
		})
	}
	waitQueue(t, d, 2*n)
	before := d.Commits()
	release()
	wg.Wait()
	if got := d.Commits() - before; got != 2 { // the holder's, and theirs
		t.Errorf("%d commits", got)
	}
	var teams int
	if err := d.read.QueryRowContext(t.Context(), "SELECT count(*) FROM teams").Scan(&teams); err != nil || teams != n*2/5 {
		t.Errorf("%d teams, %v, want %d", teams, err, n*2/5)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != n+2 || rep.Open != n {
		t.Errorf("%+v", rep)
	}
}
