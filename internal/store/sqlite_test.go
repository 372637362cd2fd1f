package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestPragmas reads the settings back from both kinds of connection.
func TestPragmas(t *testing.T) {
	d := open(t, file(t))
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "20000", "mmap_size": "0",
		"trusted_schema": "0", "wal_autocheckpoint": "256", "secure_delete": "1", "user_version": strconv.Itoa(len(migrations())),
	} {
		for name, row := range map[string]func(context.Context, string, ...any) interface{ Scan(...any) error }{
			"writer": func(ctx context.Context, q string, a ...any) interface{ Scan(...any) error } {
				return d.conn.QueryRowContext(ctx, q, a...)
			},
			"reader": func(ctx context.Context, q string, a ...any) interface{ Scan(...any) error } {
				return d.read.QueryRowContext(ctx, q, a...)
			},
		} {
			var got string
			if err := row(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s of the %s: %q (%v), want %q", pragma, name, got, err, want)
			}
		}
	}
	if _, err := d.read.ExecContext(t.Context(), "DELETE FROM leases"); err == nil {
		t.Error("a reader writes")
	}
}

// TestGuards tries to change what is stored with SQL.
func TestGuards(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	fill(t, l, 2)
	for _, statement := range []string{
		"UPDATE events SET body = '{}' WHERE seq = 1",
		"UPDATE OR IGNORE events SET at = 0",
		"DELETE FROM events WHERE seq = 4",
		"DELETE FROM events",
		"INSERT INTO events SELECT chain, 4, kind, 'other', instance, at, body, hash, hash, salt, commitment, pruned FROM events WHERE seq = 4",
		"INSERT INTO events SELECT chain, 5, kind, call_id, instance, at, body, hash, hash, salt, commitment, pruned FROM events WHERE seq = 4",
		"INSERT INTO events SELECT chain, 5, 4, call_id, instance, at, body, hash, hash, salt, commitment, pruned FROM events WHERE seq = 4",
		"UPDATE calls SET outcome = 5",
		"DELETE FROM calls",
		"UPDATE events SET body = '', salt = NULL WHERE seq = 1",
		"UPDATE events SET body = '', salt = NULL, pruned = 1 WHERE seq = 1",
		"UPDATE events SET body = '', pruned = 9 WHERE seq = 1",
		"UPDATE events SET body = '', salt = NULL, pruned = 9, at = at + 1 WHERE seq = 1",
		"UPDATE events SET body = '', salt = NULL, pruned = 9, commitment = NULL WHERE seq = 1",
		"UPDATE events SET body = '', salt = NULL, pruned = 9, call_id = NULL WHERE seq = 1",
		"UPDATE calls SET task = ''",
	} {
		if err := runSQL(t, path, statement); err == nil || !errors.Is(mapped(err), audit.ErrConflict) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != 4 {
		t.Errorf("%+v", rep)
	}
}

// TestEditedFileIsFound changes one column of one event in the file.
func TestEditedFileIsFound(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	receipts := fill(t, l, 10)
	if err := runSQL(t, path, append(unguarded(), "CREATE TABLE clean AS SELECT * FROM events")...); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		seq := rapid.Int64Range(1, 19).Draw(rt, "seq")
		change := rapid.SampledFrom([]string{
			"UPDATE events SET body = replace(body, ':', ': ') WHERE seq = %d",
			"UPDATE events SET at = at + 1 WHERE seq = %d",
			"UPDATE events SET kind = kind %% 4 + 1 WHERE seq = %d",
			"UPDATE events SET instance = instance || 'x' WHERE seq = %d",
			"UPDATE events SET call_id = replace(call_id, '-7', '-8') WHERE seq = %d",
			"UPDATE events SET call_id = NULL WHERE seq = %d",
			"UPDATE events SET hash = randomblob(32) WHERE seq = %d",
			"UPDATE events SET prev = randomblob(32) WHERE seq = %d",
			"UPDATE events SET chain = 'other' WHERE seq = %d",
			"UPDATE events SET seq = seq + 1000 WHERE seq = %d",
			"DELETE FROM events WHERE seq = %d",
			"UPDATE events SET body = '', salt = NULL, pruned = 99 WHERE seq = %d",
			"UPDATE events SET salt = randomblob(16) WHERE seq = %d",
			"UPDATE events SET commitment = randomblob(32) WHERE seq = %d",
			"UPDATE events SET salt = NULL, commitment = NULL WHERE seq = %d",
			"UPDATE events SET pruned = 3 WHERE seq = %d",
			"UPDATE events SET body = '{\"x\":\"' || hex(zeroblob(1100000)) || '\"}' WHERE seq = %d",
		}).Draw(rt, "change")
		err := runSQL(t, path, "PRAGMA foreign_keys = 0", "DELETE FROM events", "INSERT INTO events SELECT * FROM clean", fmt.Sprintf(change, seq))
		if err != nil {
			rt.Fatal(err)
		}
		found := false
		rep := verify(t, l, receipts...)
		for _, p := range rep.Problems {
			found = found || p.Seq == seq
		}
		if !found {
			rt.Fatalf("event %d was changed: %+v", seq, rep)
		}
	})
}

// TestFullStore makes the file as large as it may be.
func TestFullStore(t *testing.T) {
	leak.Check(t)
	d := open(t, file(t))
	l := log(t, d, audit.Options{Clock: new(clock)})
	fill(t, l, 1)
	id := l.NewID()
	if err := l.Intend(t.Context(), intent(id)); err != nil {
		t.Fatal(err)
	}
	limit := func(pages string) {
		t.Helper()
		done := d.submit(t.Context(), true, func(x *tx) error { return x.w.exec(x.ctx, "PRAGMA max_page_count = "+pages) })
		if done != nil {
			t.Fatal(done)
		}
	}
	limit("1") // SQLite takes what there is as the least
	big := intent(l.NewID())
	big.Call.Argv = []string{strings.Repeat("x", 60_000)}
	if err := l.Intend(t.Context(), big); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("an intent: %v, want ErrUnwritable", err)
	}
	e := completed(id)
	e.Warnings = []string{strings.Repeat("w", 4000), strings.Repeat("w", 4000)}
	if _, err := l.Complete(t.Context(), e); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("an outcome: %v, want ErrUnwritable", err)
	}
	limit("1000000")
	if err := l.Intend(t.Context(), big); err != nil {
		t.Errorf("an intent when there is room again: %v", err)
	}
	if err := l.Close(t.Context()); err != nil { // writes the outcome that waits
		t.Error(err)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != 5 || rep.Open != 1 {
		t.Errorf("%+v", rep)
	}
}

// TestFullStoreFailsTheWholeBatch has many at once on a full store: each is
// told, and none is there.
func TestFullStoreFailsTheWholeBatch(t *testing.T) {
	d := open(t, file(t))
	l := log(t, d, audit.Options{})
	fill(t, l, 1)
	err := d.submit(t.Context(), true, func(x *tx) error { return x.w.exec(x.ctx, "PRAGMA max_page_count = 1") })
	if err != nil {
		t.Fatal(err)
	}
	release := hold(t, d)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			in := intent(l.NewID())
			in.Call.Argv = []string{strings.Repeat("x", 60_000)}
			if err := l.Intend(t.Context(), in); !errors.Is(err, audit.ErrUnwritable) {
				t.Errorf("%v, want ErrUnwritable", err)
			}
		})
	}
	waitQueue(t, d, 20)
	release()
	wg.Wait()
	if rep := verify(t, l); !rep.Intact() || rep.Events != 2 {
		t.Errorf("%+v", rep)
	}
}

// TestBrokenPages overwrites all of the file but its first pages, which have the
// schema and the roots of the tables.
func TestBrokenPages(t *testing.T) {
	leak.Check(t)
	path := file(t)
	d := open(t, path)
	fill(t, log(t, d, audit.Options{}), 200)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40 * 4096; i < len(data); i++ {
		data[i] = 0xa5
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, path)
	l := log(t, d, audit.Options{})
	if _, err := l.Verify(t.Context(), audit.VerifyOptions{}); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("Verify: %v, want ErrCorrupt", err)
	}
	if _, err := l.List(t.Context(), audit.Filter{}); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("List: %v, want ErrCorrupt", err)
	}
	if err := l.Intend(t.Context(), intent(l.NewID())); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("Intend: %v, want ErrCorrupt", err)
	}
}

// TestMissingTable has the schema be another one than its version says.
func TestMissingTable(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	if err := runSQL(t, path, "DROP TABLE leases"); err != nil {
		t.Fatal(err)
	}
	if err := l.Intend(t.Context(), intent(l.NewID())); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if err := runSQL(t, path, "ALTER TABLE calls RENAME TO c", "CREATE TABLE calls AS SELECT * FROM c",
		"INSERT INTO calls VALUES ('"+storetest.ID(1)+"', 'local', 'x', NULL, 1, 2, 3, 4, 5, 6, 7, 8)"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.List(t.Context(), audit.Filter{}); !errors.Is(err, audit.ErrCorrupt) {
		t.Errorf("odd columns: %v, want ErrCorrupt", err)
	}
}
