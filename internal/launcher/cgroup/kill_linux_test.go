package cgroup

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// storm starts processes that fork and exit all the time, and returns when all
// that were there at first but the one that started them have gone.
func storm(t *testing.T, g *Group) {
	t.Helper()
	start(t, g, "storm").expect(t, "storm")
	first, err := g.Procs()
	if err != nil || len(first) < 2 {
		t.Fatalf("members %v, %v", first, err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		now, err := g.Procs()
		if err != nil {
			t.Fatal(err)
		}
		same := slices.DeleteFunc(slices.Clone(first), func(pid int) bool { return !slices.Contains(now, pid) })
		if len(same) <= 1 && len(now) > 4 {
			return
		}
	}
	t.Fatal("the storm does not blow")
}

// stormy has room for what has ended: it counts as the group's memory until the
// kernel comes to give it back, and how much that becomes is the scheduler's.
var stormy = Limits{Memory: 2 << 30, Pids: 64, CPU: 1000}

// TestKillStorm: processes that fork and exit all the time, eight at once.
func TestKillStorm(t *testing.T) {
	tree := realTree(t)
	before := snapshot(t, tree)
	for range 5 {
		g := mustMake(t, tree, "cell-1", stormy)
		storm(t, g)
		check(t, g.Kill(t.Context()))
		if pids, err := g.Procs(); err != nil || len(pids) > 0 {
			t.Errorf("after Kill: %v, %v", pids, err)
		}
		check(t, g.Remove(t.Context()))
	}
	if after := snapshot(t, tree); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
}

// TestKillBySignals kills the storm by the rounds of signals on either version.
func TestKillBySignals(t *testing.T) {
	g := mustMake(t, realTree(t), "cell-1", stormy)
	storm(t, g)
	check(t, g.stopForks())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, g.killMembers(ctx))
	check(t, g.Remove(t.Context()))
}

func TestKillWhenContextIsDone(t *testing.T) {
	g := mustMake(t, realTree(t), "cell-1", someLimits)
	r := start(t, g, "idle")
	if err := g.Kill(done(t)); err != nil && (!errors.Is(err, ErrNotEmpty) || !errors.Is(err, context.Canceled)) {
		t.Errorf("Kill: %v", err)
	}
	if !r.died() {
		t.Error("the child was not killed")
	}
	check(t, g.Remove(t.Context()))
}
