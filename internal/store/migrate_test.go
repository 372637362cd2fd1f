package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// oldEvent is an event of version 1.
func oldEvent(seq int64, kind audit.Kind, id, body string, prev audit.Hash) audit.Event {
	e := audit.Event{Chain: audit.DefaultChain, Seq: seq, Kind: kind, CallID: id, Instance: "old", At: time.Unix(1_800_000_000, 0).UTC(),
		Body: []byte(body), Prev: prev}
	e.Hash = e.Sum()
	return e
}

// oldFile is a file as the first version of the schema has left it: two calls,
// one of them of a body that is no JSON any more.
func oldFile(t *testing.T) string {
	t.Helper()
	path := file(t)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	first, err := migrationFiles.ReadFile("migrations/0001_audit.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := openPool(path, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
			t.Fatal(text, err)
		}
	}
	run("PRAGMA journal_mode = WAL")
	run(string(first))
	run("PRAGMA user_version = 1")
	a := oldEvent(1, audit.KindIntent, storetest.ID(1), `{"tool":"sh","level":"container"}`, audit.Hash{})
	b := oldEvent(2, audit.KindOutcome, storetest.ID(1),
		`{"outcome":"completed","egress":{"attempts":[{"host":"b.example"},{"host":"a.example"},{"host":"b.example"},{"port":1}]}}`, a.Hash)
	c := oldEvent(3, audit.KindOutcome, storetest.ID(2), `{"cut`, b.Hash)
	for _, e := range []audit.Event{a, b, c} {
		s := e.Stored()
		run("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", s.Chain, s.Seq, s.Kind, s.CallID, s.Instance, s.At, string(s.Body), s.Prev, s.Hash)
	}
	run("INSERT INTO calls VALUES (?, 'local', 1, 2, 'old', '', '', 'sh', ?, ?, 0)", storetest.ID(1), int64(envelope.LevelContainer), int64(envelope.OutcomeCompleted))
	return path
}

// TestOldFileGoesOn: what the first version has written verifies, is found by
// what it tried to reach, and new events go on behind it.
func TestOldFileGoesOn(t *testing.T) {
	l := log(t, open(t, oldFile(t)), audit.Options{})
	rows, err := l.List(t.Context(), audit.Filter{Host: "a.example"})
	if err != nil || len(rows) != 1 || rows[0].ID != storetest.ID(1) || rows[0].Tool != "sh" {
		t.Errorf("%+v, %v", rows, err)
	}
	fill(t, l, 1)
	rep := verify(t, l)
	if rep.Events != 5 || len(rep.Problems) == 0 {
		t.Errorf("%+v", rep)
	}
	for _, p := range rep.Problems {
		if p.Seq != 3 {
			t.Errorf("%+v", p)
		}
	}
}
