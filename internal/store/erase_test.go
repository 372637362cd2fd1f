package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// holds reports whether any file of the store has the text in it.
func holds(t *testing.T, path, text string) bool {
	t.Helper()
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// TestErasedIsGoneFromTheFiles: a body that takes several pages, and one that
// shares one with others.
func TestErasedIsGoneFromTheFiles(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	var erased []string
	for i := range 40 {
		in := intent(l.NewID())
		in.Call.Argv = []string{"echo", "kept-argument"}
		if i%4 == 0 {
			in.Call.Task = "canary-task"
			in.Call.Argv = []string{"echo", strings.Repeat("canary-argument ", 1+(i%8)*1000)}
			erased = append(erased, in.ID)
		}
		if err := l.Intend(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Complete(t.Context(), completed(in.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if !holds(t, path, "canary") {
		t.Fatal("what is to be erased is not there")
	}
	for _, id := range erased {
		if _, err := l.Erase(t.Context(), id, "test"); err != nil {
			t.Fatal(err)
		}
	}
	if holds(t, path, "canary") || !holds(t, path, "kept-argument") {
		t.Errorf("erased is there %v, kept %v", holds(t, path, "canary"), holds(t, path, "kept-argument"))
	}
	if rep := verify(t, l); !rep.Intact() || rep.Erased != 20 {
		t.Errorf("%+v", rep)
	}
}

// TestAReaderKeepsTheLog: while somebody reads an old state, the log cannot be
// cut, and that is said; writing goes on.
func TestAReaderKeepsTheLog(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	fill(t, l, 3)
	tx, err := d.read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Audit().Scrub(ctx); !errors.Is(err, audit.ErrBusy) {
		t.Errorf("%v", err)
	}
	fill(t, l, 1)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := d.Audit().Scrub(t.Context()); err != nil {
		t.Error(err)
	}
	var timeout int64
	if err := d.conn.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout); err != nil || timeout != busyTimeout.Milliseconds() {
		t.Errorf("busy timeout %d, %v", timeout, err)
	}
}
