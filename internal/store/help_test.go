package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/testing/leak"
)

// clock runs an hour ahead of the host's, and more when moved. Its tickers
// never tick.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(time.Hour + c.ahead)
}

func (c *clock) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// runSQL runs SQL behind the store's back, on a connection of its own.
func runSQL(t testing.TB, path string, statements ...string) error {
	t.Helper()
	db, err := openPool(path, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			return err
		}
	}
	return nil
}

// unguarded removes what keeps events from being changed.
func unguarded() []string {
	return []string{"DROP TRIGGER events_update", "DROP TRIGGER events_delete",
		"DROP TRIGGER calls_update", "DROP TRIGGER calls_delete", "DROP INDEX events_once"}
}

// fill writes n calls.
func fill(t testing.TB, l *audit.Log, n int) (receipts []envelope.Receipt) {
	t.Helper()
	for range n {
		id := l.NewID()
		if err := l.Intend(t.Context(), intent(id)); err != nil {
			t.Fatal(err)
		}
		r, err := l.Complete(t.Context(), completed(id))
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	return receipts
}

// TestFencing has two logs of two connections share a file: one is paused past
// its lease.
func TestFencing(t *testing.T) {
	leak.Check(t)
	path, c := file(t), new(clock)
	a, b := log(t, open(t, path), audit.Options{Clock: c}), log(t, open(t, path), audit.Options{Clock: c})
	ofA, ofB := a.NewID(), b.NewID()
	for l, id := range map[*audit.Log]string{a: ofA, b: ofB} {
		if err := l.Intend(t.Context(), intent(id)); err != nil {
			t.Fatal(err)
		}
	}
	if lost, err := b.Recover(t.Context()); err != nil || len(lost) != 0 {
		t.Fatalf("both live: lost %v, %v", lost, err)
	}
	c.move(audit.DefaultTTL)
	if _, err := a.Complete(t.Context(), completed(ofA)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("an outcome past the lease: %v", err)
	}
	lost, err := b.Recover(t.Context())
	if err != nil || len(lost) != 2 {
		t.Errorf("lost %v, %v", lost, err)
	}
	if _, err := a.Complete(t.Context(), completed(ofA)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("an outcome after it was lost: %v", err)
	}
	if err := a.Intend(t.Context(), intent(a.NewID())); err != nil {
		t.Errorf("a new call: %v", err)
	}
	if rep := verify(t, b); !rep.Intact() || rep.Calls != 3 || rep.Open != 1 {
		t.Errorf("%+v", rep)
	}
}

// TestContextEndsTheWait: another connection holds the file; fn never runs.
func TestContextEndsTheWait(t *testing.T) {
	path := file(t)
	d := open(t, path)
	other := open(t, path)
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- other.Audit().Update(context.Background(), func(audit.Tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := d.Audit().Update(ctx, func(audit.Tx) error {
		t.Error("fn ran")
		return nil
	})
	close(release)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	fill(t, log(t, d, audit.Options{}), 1)
}
