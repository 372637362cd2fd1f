package store

import (
	"errors"
	"testing"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/store/storetest"
)

func TestKept(t *testing.T) {
	storetest.RunKept(t, func(t *testing.T) kept.Store { return open(t, file(t)).Kept() })
}

// sums returns what the store has summed up of each team, and what is so.
func sums(t *testing.T, d *DB) (summed, so string) {
	t.Helper()
	for text, into := range map[string]*string{
		"SELECT coalesce(group_concat(team || ' ' || calls || ' ' || bytes, ', '), '') FROM kept_sums": &summed,
		`SELECT coalesce(group_concat(team || ' ' || calls || ' ' || bytes, ', '), '') FROM
			(SELECT team, count(*) calls, coalesce(sum(octet_length(result)), 0) bytes FROM kept GROUP BY team)`: &so,
	} {
		if err := d.read.QueryRowContext(t.Context(), text).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	return summed, so
}

// TestKeptIsErasedWithItsRow: what is kept of a call goes when its row's bodies
// do, by hand or by age, and nothing of it stays in the file. By hand the name
// stays, without anything that it stood for.
func TestKeptIsErasedWithItsRow(t *testing.T) {
	path := file(t)
	d := open(t, path)
	l := log(t, d, audit.Options{})
	s := d.Kept()
	var ids []string
	for range 3 {
		id := l.NewID()
		ids = append(ids, id)
		if err := l.Intend(t.Context(), intent(id)); err != nil {
			t.Fatal(err)
		}
		c := kept.Call{ID: id, Key: "k", Team: "blue", Name: kept.NameOf("k", "/", id), Task: "a-task-of-" + id, State: kept.Runs, Began: storetest.Time(1)}
		if err := s.Begin(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Complete(t.Context(), completed(id)); err != nil {
			t.Fatal(err)
		}
		c.Ended, c.Outcome, c.Result, c.Size = storetest.Time(2), 1, []byte("secret-of-"+id), 9
		if err := s.Finish(t.Context(), c, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if summed, so := sums(t, d); summed != so || so == "" {
		t.Errorf("summed %s, so %s", summed, so)
	}
	if _, err := l.Erase(t.Context(), ids[0], "test"); err != nil {
		t.Fatal(err)
	}
	c, ok, err := s.Read(t.Context(), ids[0], true)
	if err != nil || !ok || c.State != kept.Erased || c.Result != nil || c.Task != "" || c.Digest != [32]byte{} || c.Name != kept.NameOf("k", "/", ids[0]) {
		t.Errorf("%+v %v", c, err)
	}
	if list, err := s.List(t.Context(), "k", 10); err != nil || len(list) != 2 {
		t.Errorf("%d are listed, %v", len(list), err)
	}
	if holds(t, path, "secret-of-"+ids[0]) || holds(t, path, "a-task-of-"+ids[0]) || !holds(t, path, "secret-of-"+ids[2]) {
		t.Error("what was erased is in the file, or what was not is gone")
	}
	err = d.submit(t.Context(), false, func(t *tx) error { return t.eraseKept(ids[1], false) })
	if _, ok, failed := s.Read(t.Context(), ids[1], true); ok || err != nil || failed != nil {
		t.Errorf("by age: it is there; %v %v", err, failed)
	}
	if summed, so := sums(t, d); summed != so || so == "" {
		t.Errorf("summed %s, so %s", summed, so)
	}
}

// TestKeptIsBounded: a team has so many calls and no more; another's are its
// own.
func TestKeptIsBounded(t *testing.T) {
	d := open(t, file(t))
	s := d.Kept()
	for _, team := range []string{"blue", "red"} {
		if err := s.Begin(t.Context(), kept.Call{ID: "1-" + team, Team: team, Began: storetest.Time(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.submit(t.Context(), false, func(x *tx) error {
		return x.w.exec(x.ctx, "UPDATE kept_sums SET calls = ? WHERE team = 'blue'", int64(kept.MaxCalls))
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context(), kept.Call{ID: "2-blue", Team: "blue", Began: storetest.Time(1)}); !errors.Is(err, kept.ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	if err := s.Begin(t.Context(), kept.Call{ID: "2-red", Team: "red", Began: storetest.Time(1)}); err != nil {
		t.Error(err)
	}
}

func TestJobsSuite(t *testing.T) {
	storetest.RunJobs(t, func(t *testing.T) kept.Jobs { return open(t, file(t)).Jobs() })
}
