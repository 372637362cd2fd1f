package broker_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
)

// handClock is moved by hand.
type handClock struct{ now atomic.Int64 }

func (c *handClock) Now() time.Time { return time.Unix(0, c.now.Load()) }

func of(task string, words ...string) *envelope.Call {
	call := argv(words...)
	call.Task = task
	return call
}

// TestTaskCeilings hold a caller without a key: calls, CPU time and wall time of
// a task, each task and caller by itself; what is refused has used nothing.
func TestTaskCeilings(t *testing.T) {
	clock := &handClock{}
	clock.now.Store(1_800_000_000_000_000_000)
	s := newStand(t, func(c *broker.Config) { c.Clock = clock })
	s.profile.Task = envelope.Task{Calls: 3, CPUTime: envelope.Duration(time.Hour), Tokens: 1000, Wall: envelope.Duration(time.Hour)}
	field := func(r *envelope.Result) string {
		if r.Refusal == nil {
			return ""
		}
		return r.Refusal.Field
	}
	if r := s.run(t.Context(), of("a", "no-such-program")); r.Refusal == nil {
		t.Errorf("%+v", r)
	}
	for range 3 {
		if r := s.run(t.Context(), of("a", "exit", "0")); !r.Ran() {
			t.Errorf("%+v", r.Refusal)
		}
	}
	if r := s.run(t.Context(), of("a", "exit", "0")); field(r) != "task.calls" || r.Refusal.Reason != envelope.ReasonBudget || !strings.Contains(r.Refusal.Message, "3 of 3") {
		t.Errorf("%+v", r.Refusal)
	}
	if r := s.run(t.Context(), of("b", "exit", "0")); !r.Ran() {
		t.Errorf("another task: %+v", r.Refusal)
	}
	if r := s.run(t.Context(), argv("exit", "0")); !r.Ran() {
		t.Errorf("no task: %+v", r.Refusal)
	}
	clock.now.Add(int64(2 * time.Hour))
	if r := s.run(t.Context(), of("b", "exit", "0")); field(r) != "task.wall" {
		t.Errorf("after its time: %+v", r.Refusal)
	}
	s.profile.Task.CPUTime = s.profile.Resources.CPUTime - 1
	if r := s.run(t.Context(), of("c", "exit", "0")); field(r) != "task.cpuTime" {
		t.Errorf("more than there is: %+v", r.Refusal)
	}
}

// TestTaskCallsInParallel do not pass one check together.
func TestTaskCallsInParallel(t *testing.T) {
	s := newStand(t)
	s.profile.Task.Calls, s.profile.Task.CPUTime = 10, envelope.Duration(24*time.Hour)
	var ran atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if s.broker.Run(t.Context(), caller(), of("a", "exit", "0")).Ran() {
				ran.Add(1)
			}
		})
	}
	all.Wait()
	if ran.Load() != 10 {
		t.Errorf("%d calls ran", ran.Load())
	}
}
