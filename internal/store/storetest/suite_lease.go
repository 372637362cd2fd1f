package storetest

import (
	"errors"
	"testing"

	"github.com/callcell/callcell/internal/audit"
)

func testOrphans(t *testing.T, s audit.Store) {
	fill(t, s, 11) // 0, 5 and 10 are open
	orphans := must(s.Orphans(t.Context(), Chain, Time(0), Time(1000), 10))(t)
	if len(orphans) != 3 || !orphans[0].Lease.IsZero() {
		t.Fatalf("%v, want 3 without a lease", orphans)
	}
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(10)) })
	for _, c := range []struct {
		chain          string
		now, max, want int
	}{
		{Chain, 9, 10, 0}, {Chain, 10, 10, 3}, {Chain, 11, 2, 2}, {"other", 11, 10, 0},
	} {
		orphans := must(s.Orphans(t.Context(), c.chain, Time(c.now), Time(1000), c.max))(t)
		if len(orphans) != c.want {
			t.Errorf("%+v: %d orphans", c, len(orphans))
		}
		for _, o := range orphans {
			if !o.Lease.Equal(Time(10)) || !o.Entry.Open() {
				t.Errorf("orphan %+v", o)
			}
		}
	}
	update(t, s, func(tx audit.Tx) error { return tx.SetLease("writer", Time(20)) })
	update(t, s, func(tx audit.Tx) error {
		until, ok, err := tx.Lease("writer")
		if !ok || !until.Equal(Time(20)) {
			t.Errorf("lease until %v, want it renewed", until)
		}
		return errors.Join(err, tx.DropLease("writer"))
	})
	if got := must(s.Orphans(t.Context(), Chain, Time(0), Time(1000), 10))(t); len(got) != 3 {
		t.Errorf("%d orphans after the lease was dropped, want 3", len(got))
	}
}

func testSweep(t *testing.T, s audit.Store) {
	fill(t, s, 1) // "writer" has an open call
	update(t, s, func(tx audit.Tx) error {
		return errors.Join(tx.SetLease("writer", Time(1)), tx.SetLease("old", Time(1)), tx.SetLease("alive", Time(3)))
	})
	update(t, s, func(tx audit.Tx) error {
		err := tx.Sweep(Time(2))
		for id, want := range map[string]bool{"writer": true, "old": false, "alive": true} {
			_, ok, err2 := tx.Lease(id)
			if ok != want {
				t.Errorf("lease of %s: %v, want %v", id, ok, want)
			}
			err = errors.Join(err, err2)
		}
		return err
	})
}
