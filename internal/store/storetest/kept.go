package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/kept"
)

// RunKept holds a store to what kept.Store says. open returns an empty store,
// which the test closes by itself.
func RunKept(t *testing.T, open func(*testing.T) kept.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, kept.Store)
	}{
		{"BegunFinishedRead", testKept},
		{"OneCallOfAName", testKeptName},
		{"ARefusalFreesTheName", testKeptRefused},
		{"WhatRunsIsLostOnce", testKeptLost},
		{"TheLargestTeamMakesRoom", testKeptRoom},
		{"ListedByKey", testKeptList},
		{"SweptByAge", testKeptSweep},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func keptCall(n int, team string) kept.Call {
	return kept.Call{ID: ID(n), Key: "k_" + team, Team: team, Name: kept.NameOf("k_"+team, "/v1/calls", fmt.Sprint(n)), Digest: [32]byte{1, 31: byte(n)},
		Task: "a task", Tool: "sh", State: kept.Runs, Began: Time(n)}
}

func ended(c kept.Call, result []byte) kept.Call {
	c.State, c.Ended, c.Outcome, c.Size, c.Result = kept.Done, c.Began.Add(1e9), envelope.OutcomeMemory, int64(len(result)), result
	return c
}

// keep puts calls that have ended with an answer of that size, or that run.
func keep(t *testing.T, s kept.Store, calls ...kept.Call) {
	t.Helper()
	for _, c := range calls {
		if err := s.Begin(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if c.State != kept.Runs {
			if err := s.Finish(t.Context(), c, 1<<30); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func readKept(t *testing.T, s kept.Store, n int) (kept.Call, bool) {
	t.Helper()
	c, ok, err := s.Read(t.Context(), ID(n), true)
	if err != nil {
		t.Fatal(err)
	}
	return c, ok
}

func testKept(t *testing.T, s kept.Store) {
	want := keptCall(1, "blue")
	keep(t, s, want)
	if got, ok := readKept(t, s, 1); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = ended(want, []byte(`{"id":1}`))
	for range 2 { // the second is nothing: it does not run any more
		if err := s.Finish(t.Context(), want, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := readKept(t, s, 1); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Result = nil
	if got, ok, err := s.Named(t.Context(), want.Name); err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if err := s.Finish(t.Context(), ended(keptCall(2, "blue"), nil), 1<<20); err != nil {
		t.Error(err)
	}
	if got, ok := readKept(t, s, 2); ok {
		t.Errorf("it never began: %+v", got)
	}
	if err := s.Drop(t.Context(), want.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Named(t.Context(), want.Name); ok || err != nil {
		t.Error("dropped, and there", err)
	}
}

func testKeptName(t *testing.T, s kept.Store) {
	first, second := keptCall(1, "blue"), keptCall(2, "blue")
	second.Name = first.Name
	keep(t, s, first)
	if err := s.Begin(t.Context(), second); err == nil {
		t.Error("a second call of a name began")
	}
	nameless, other := keptCall(3, "blue"), keptCall(4, "blue")
	nameless.Name, other.Name = kept.Name{}, kept.Name{}
	keep(t, s, nameless, other)
	if got, ok := readKept(t, s, 4); !ok || got.Name != (kept.Name{}) {
		t.Errorf("%+v", got)
	}
}

func testKeptRefused(t *testing.T, s kept.Store) {
	first, second := keptCall(1, "blue"), keptCall(2, "blue")
	second.Name = first.Name
	first = ended(first, []byte(`{}`))
	first.Outcome, first.Reason = 0, envelope.ReasonSetup
	keep(t, s, first, second)
	if got, ok := readKept(t, s, 1); !ok || got.Reason != envelope.ReasonSetup || got.Name != (kept.Name{}) {
		t.Errorf("%+v", got)
	}
	if got, ok, err := s.Named(t.Context(), second.Name); !ok || got.ID != second.ID || err != nil {
		t.Errorf("%+v %v", got, err)
	}
}

func testKeptLost(t *testing.T, s kept.Store) {
	keep(t, s, keptCall(1, "blue"), ended(keptCall(2, "blue"), []byte(`{}`)), keptCall(3, "red"))
	for _, want := range []int64{2, 0} {
		if n, err := s.Lose(t.Context(), Time(9)); n != want || err != nil {
			t.Errorf("%d lost, %v, want %d", n, err, want)
		}
	}
	if got, _ := readKept(t, s, 1); got.State != kept.Lost || !got.Ended.Equal(Time(9)) {
		t.Errorf("%+v", got)
	}
	if err := s.Finish(t.Context(), ended(keptCall(1, "blue"), []byte(`{}`)), 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, _ := readKept(t, s, 1); got.State != kept.Lost || got.Result != nil {
		t.Errorf("what was lost has come back: %+v", got)
	}
	if got, _ := readKept(t, s, 2); got.State != kept.Done {
		t.Errorf("%+v", got)
	}
}

func testKeptRoom(t *testing.T, s kept.Store) {
	answer := bytes.Repeat([]byte("x"), 1000)
	keep(t, s, ended(keptCall(1, "red"), answer))
	for n := 2; n < 8; n++ {
		c := keptCall(n, "blue")
		keep(t, s, c)
		if err := s.Finish(t.Context(), ended(c, answer), 3500); err != nil {
			t.Fatal(err)
		}
	}
	there := ""
	for n := 1; n < 8; n++ {
		c, ok := readKept(t, s, n)
		if !ok || c.Size != 1000 || c.State != kept.Done {
			t.Errorf("%d: %+v", n, c)
		}
		if c.Result != nil {
			there += fmt.Sprint(n, " ")
		}
	}
	if there != "1 6 7 " {
		t.Errorf("answers of %s are there, want the other team's and the newest", there)
	}
	large := keptCall(9, "red")
	keep(t, s, large)
	if err := s.Finish(t.Context(), ended(large, bytes.Repeat([]byte("x"), 4000)), 3500); err != nil {
		t.Fatal(err)
	}
	if c, _ := readKept(t, s, 9); c.Result != nil || c.Size != 4000 || c.State != kept.Done {
		t.Errorf("larger than all together: %d bytes, %+v", len(c.Result), c.State)
	}
}

func testKeptList(t *testing.T, s kept.Store) {
	keep(t, s, keptCall(1, "blue"), ended(keptCall(2, "blue"), []byte(`{}`)), keptCall(3, "red"), keptCall(4, "blue"))
	list, err := s.List(t.Context(), "k_blue", 2)
	if err != nil || len(list) != 2 || list[0].ID != ID(4) || list[1].ID != ID(2) || list[1].Result != nil || list[1].Size != 2 {
		t.Errorf("%+v %v", list, err)
	}
}

func testKeptSweep(t *testing.T, s kept.Store) {
	for n := range 5 {
		keep(t, s, ended(keptCall(n, "blue"), []byte(`{}`)))
	}
	keep(t, s, keptCall(8, "blue"))
	before := Time(3).Add(1e9)
	more, err := s.Sweep(t.Context(), before, 2)
	again, failed := s.Sweep(t.Context(), before, 2)
	if !more || again || errors.Join(err, failed) != nil {
		t.Errorf("more: %v, then %v; %v %v", more, again, err, failed)
	}
	for n, want := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true, 8: true} {
		if _, ok := readKept(t, s, n); ok != want {
			t.Errorf("%d is there: %v", n, ok)
		}
	}
}
