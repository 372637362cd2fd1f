package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// RunGateway holds a store to what gateway.Store says. open returns an empty
// store, which the test closes by itself.
func RunGateway(t *testing.T, open func(*testing.T) gateway.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, gateway.Store)
	}{
		{"DirectoryIsWhatWasPut", testDirectory},
		{"EveryChangeHasAGeneration", testGeneration},
		{"RevokedStaysRevoked", testRevoked},
		{"FailedUpdateLeavesNothing", testGatewayUndone},
		{"HeldUntilSettled", testHeld},
		{"FoldingChangesNoSum", testFold},
		{"RecentSeesBoth", testRecent},
		{"TasksAreForgotten", testIdleTasks},
		{"TogetherNoneIsLost", testGatewayTogether},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func change(t *testing.T, s gateway.Store, fn func(gateway.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func team(name string) gateway.Team {
	return gateway.Team{Name: name, Tier: "free", Tokens: 7, Suspended: true, Created: Time(1)}
}

func key(id, team string) gateway.Key {
	return gateway.Key{ID: id, Team: team, Label: "a label", Role: gateway.RoleRead, Profiles: []string{"a", "b-c"}, Created: Time(2)}
}

func testDirectory(t *testing.T, s gateway.Store) {
	secret := gateway.Secret{Hash: gateway.Hash{1, 2, 31: 3}, Key: "k_1", Created: Time(2), Expires: Time(9)}
	change(t, s, func(tx gateway.Tx) error {
		return errors.Join(tx.PutTeam(team("blue")), tx.PutKey(key("k_1", "blue")), tx.PutSecret(secret))
	})
	want := gateway.Directory{Teams: []gateway.Team{team("blue")}, Keys: []gateway.Key{key("k_1", "blue")}, Secrets: []gateway.Secret{secret}}
	check := func(got *gateway.Directory, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want.Generation = got.Generation
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v\nwant %+v", *got, want)
		}
	}
	check(s.Directory(t.Context()))
	changed := team("blue")
	changed.Tier, changed.Tokens, changed.Suspended = "pro", 0, false
	secret.Expires = time.Time{}
	want.Teams[0], want.Secrets[0] = changed, secret
	change(t, s, func(tx gateway.Tx) error {
		if err := errors.Join(tx.PutTeam(changed), tx.PutSecret(secret)); err != nil {
			return err
		}
		check(tx.Directory())
		return nil
	})
	check(s.Directory(t.Context()))
}

func generation(t *testing.T, s gateway.Store) int64 {
	t.Helper()
	return must(s.Generation(t.Context()))(t)
}

func testGeneration(t *testing.T, s gateway.Store) {
	last := generation(t, s)
	for name, fn := range map[string]func(gateway.Tx) error{
		"team": func(tx gateway.Tx) error { return tx.PutTeam(team("blue")) },
		"key":  func(tx gateway.Tx) error { return errors.Join(tx.PutTeam(team("red")), tx.PutKey(key("k_1", "red"))) },
		"secret": func(tx gateway.Tx) error {
			return errors.Join(tx.PutTeam(team("red")), tx.PutKey(key("k_2", "red")), tx.PutSecret(gateway.Secret{Key: "k_2"}))
		},
	} {
		change(t, s, fn)
		now := generation(t, s)
		if now <= last {
			t.Errorf("%s: generation %d after %d", name, now, last)
		}
		last = now
	}
	change(t, s, func(tx gateway.Tx) error { return tx.Hold(admission(1)) })
	if now := generation(t, s); now != last {
		t.Errorf("a reservation: generation %d after %d", now, last)
	}
}

func testRevoked(t *testing.T, s gateway.Store) {
	k := key("k_1", "blue")
	k.Revoked = Time(5)
	change(t, s, func(tx gateway.Tx) error { return errors.Join(tx.PutTeam(team("blue")), tx.PutKey(k)) })
	k.Revoked = time.Time{}
	if err := s.Update(t.Context(), func(tx gateway.Tx) error { return tx.PutKey(k) }); err == nil {
		t.Error("a revoked key is alive again")
	}
	if err := s.Update(t.Context(), func(tx gateway.Tx) error { return tx.PutKey(key("k_3", "nobody")) }); err == nil {
		t.Error("a key of a team that there is not")
	}
}

func testGatewayUndone(t *testing.T, s gateway.Store) {
	wanted := errors.New("no")
	err := s.Update(t.Context(), func(tx gateway.Tx) error {
		return errors.Join(tx.PutTeam(team("blue")), tx.Hold(admission(1)), tx.Settle(settlement(2)), wanted)
	})
	d := must(s.Directory(t.Context()))(t)
	u := must(s.Usage(t.Context(), gateway.UsageQuery{}))(t)
	if !errors.Is(err, wanted) || len(d.Teams) != 0 || len(u) != 0 {
		t.Errorf("%v: %+v, %+v", err, d, u)
	}
}

// admission is that of the n-th call.
func admission(n int) gateway.Admission {
	return gateway.Admission{ID: ID(n), Key: fmt.Sprint("k_", n%3), Team: fmt.Sprint("team-", n%2), Task: fmt.Sprint("task-", n%2), Month: 202611,
		At: Time(n), Arguments: int64(n), Result: 100, CPU: time.Duration(n) * time.Second}
}

func settlement(n int) gateway.Settlement {
	a := admission(n)
	return gateway.Settlement{ID: a.ID, Key: a.Key, Team: a.Team, Task: a.Task, Month: a.Month, At: a.At, Calls: 1,
		Arguments: a.Arguments, Result: 10, CPU: a.CPU, Wall: 2 * a.CPU}
}

func testHeld(t *testing.T, s gateway.Store) {
	change(t, s, func(tx gateway.Tx) error { return errors.Join(tx.Hold(admission(1)), tx.Hold(admission(2))) })
	if err := s.Update(t.Context(), func(tx gateway.Tx) error { return tx.Hold(admission(1)) }); err == nil {
		t.Error("held twice")
	}
	change(t, s, func(tx gateway.Tx) error { return tx.Settle(settlement(1)) })
	change(t, s, func(tx gateway.Tx) error {
		held, err := tx.Held(10)
		if err != nil || len(held) != 1 || held[0] != admission(2) {
			t.Errorf("held %+v, %v", held, err)
		}
		return err
	})
}

// testFold: sums by month, team and key, and by task, are the same before and
// after each fold, and are those of the settlements.
func testFold(t *testing.T, s gateway.Store) {
	var before []gateway.Usage
	for round := range 3 {
		change(t, s, func(tx gateway.Tx) error {
			for i := range 12 {
				n := round*12 + i
				x := settlement(n)
				if n%4 == 0 {
					x.Month = 202612
				}
				if err := tx.Settle(x); err != nil {
					return err
				}
			}
			return nil
		})
		before = must(s.Usage(t.Context(), gateway.UsageQuery{}))(t)
		for range 2 {
			change(t, s, func(tx gateway.Tx) error { return tx.Fold(Time(round*12), time.Time{}) })
			if after := must(s.Usage(t.Context(), gateway.UsageQuery{}))(t); !reflect.DeepEqual(before, after) {
				t.Errorf("folded: %+v\nbefore: %+v", after, before)
			}
		}
	}
	testFolded(t, s, before)
}

// testFolded checks the sums of 36 settlements.
func testFolded(t *testing.T, s gateway.Store, list []gateway.Usage) {
	t.Helper()
	var all, ofTeam gateway.Usage
	for _, u := range list {
		all.Calls, all.Arguments, all.Result, all.CPU, all.Wall = all.Calls+u.Calls, all.Arguments+u.Arguments, all.Result+u.Result, all.CPU+u.CPU, all.Wall+u.Wall
	}
	if all.Calls != 36 || all.Arguments != 630 || all.Result != 360 || all.CPU != 630*time.Second || all.Wall != 1260*time.Second {
		t.Errorf("in all %+v", all)
	}
	for _, u := range must(s.Usage(t.Context(), gateway.UsageQuery{Team: "team-1", From: 202611, To: 202611}))(t) {
		if u.Team != "team-1" || u.Month != 202611 {
			t.Errorf("not asked for: %+v", u)
		}
		ofTeam.Calls += u.Calls
	}
	task, ok, err := s.Task(t.Context(), "team-1", "task-1")
	if err != nil || !ok || ofTeam.Calls != 18 || task != (gateway.TaskUse{Began: Time(1), Calls: 18, Tokens: 324 + 180, CPU: 324 * time.Second}) {
		t.Errorf("%+v %v %v; %d calls", task, ok, err, ofTeam.Calls)
	}
	if _, ok, err := s.Task(t.Context(), "team-0", "task-1"); ok || err != nil {
		t.Errorf("another team's task: %v %v", ok, err)
	}
}

func testRecent(t *testing.T, s gateway.Store) {
	change(t, s, func(tx gateway.Tx) error {
		return errors.Join(tx.Hold(admission(1)), tx.Hold(admission(5)), tx.Settle(settlement(2)), tx.Settle(settlement(6)))
	})
	for range 2 {
		if list := must(s.Recent(t.Context(), Time(4)))(t); len(list) != 2 {
			t.Errorf("recent: %+v", list)
		}
		change(t, s, func(tx gateway.Tx) error { return tx.Fold(Time(4), time.Time{}) })
	}
}

func testIdleTasks(t *testing.T, s gateway.Store) {
	change(t, s, func(tx gateway.Tx) error {
		return errors.Join(tx.Settle(settlement(1)), tx.Settle(settlement(10)), tx.Fold(Time(0), Time(5)))
	})
	_, gone, err := s.Task(t.Context(), "team-1", "task-1")
	_, there, err2 := s.Task(t.Context(), "team-0", "task-0")
	if err != nil || err2 != nil || gone || !there {
		t.Errorf("gone %v, there %v: %v %v", !gone, there, err, err2)
	}
}

func testGatewayTogether(t *testing.T, s gateway.Store) {
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			err := errors.Join(
				s.Update(t.Context(), func(tx gateway.Tx) error { return tx.Hold(admission(n)) }),
				s.Update(t.Context(), func(tx gateway.Tx) error { return tx.Settle(settlement(n)) }))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	calls := int64(0)
	for _, u := range must(s.Usage(t.Context(), gateway.UsageQuery{}))(t) {
		calls += u.Calls
	}
	if calls != 64 {
		t.Errorf("%d calls", calls)
	}
}
