package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/testing/leak"
)

// slow waits as a disk or a builder would, in the time of a bubble.
func slow(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestExecWaitsForBoth: the intent and the cell are made side by side, and
// the program starts when both are there, whichever takes longer.
func TestExecWaitsForBoth(t *testing.T) {
	for _, c := range []struct{ intend, open time.Duration }{
		{3 * time.Second, 0}, {0, 3 * time.Second}, {3 * time.Second, 2 * time.Second}, {2 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStand(t)
			s.fault("intend", slow(c.intend))
			s.fault("open", slow(c.open))
			var at time.Time
			began := time.Now()
			s.fault("exec", func(context.Context) error {
				at = time.Now()
				if !s.before("intended", "exec") || !s.before("opened", "exec") || !s.before("put", "exec") {
					t.Errorf("the program starts after %q", s.trace)
				}
				return nil
			})
			r := s.run(t.Context(), argv("/bin/print"))
			if r.Outcome != envelope.OutcomeCompleted {
				t.Fatalf("%+v", r.Refusal)
			}
			if took, want := at.Sub(began), max(c.intend, c.open); took != want || r.Usage.Setup != want {
				t.Errorf("intent %s, open %s: started after %s, and says %s; want %s", c.intend, c.open, took, r.Usage.Setup, want)
			}
		})
	}
}

// TestIntentWaitsForKeep: that somebody may come back for the call is durable
// before its row begins; where it cannot be, there is no intent.
func TestIntentWaitsForKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		kept := false
		s.fault("intend", func(context.Context) error {
			if !kept {
				t.Error("the intent is written first")
			}
			return nil
		})
		live := broker.Live{Keep: func(ctx context.Context, _ string) error {
			defer func() { kept = true }()
			return slow(3 * time.Second)(ctx)
		}}
		if r := s.broker.RunLive(t.Context(), caller(), argv("/bin/print"), live); r.Outcome != envelope.OutcomeCompleted {
			t.Fatalf("%+v", r.Refusal)
		}
		live.Keep = func(context.Context, string) error { return errors.New("the disk is full") }
		before := s.count("intended")
		r := s.broker.RunLive(t.Context(), caller(), argv("/bin/print"), live)
		if r.Refusal == nil || s.count("intended") != before || s.count("exec") != 1 {
			t.Errorf("%+v, the way was %q", r, s.trace)
		}
	})
}

// TestStuckIntent: a store that does not answer is a refusal, in bounded time.
func TestStuckIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		s.fault("intend", slow(time.Hour))
		r := s.run(t.Context(), argv("/bin/print"))
		if r.Refusal == nil || !strings.Contains(r.Refusal.Message, "does not take the intent") || !r.Refusal.Retry || r.Usage.Total > time.Minute {
			t.Errorf("refusal %+v after %s", r.Refusal, r.Usage.Total)
		}
		if s.count("exec") != 0 || s.closes.Load() != 1 {
			t.Errorf("the way was %q", s.trace)
		}
	})
}

// TestStuckTeardown: stop, collect and record are bounded too.
func TestStuckTeardown(t *testing.T) {
	for _, point := range []string{"stop", "get", "complete"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStand(t)
			s.fault(point, slow(time.Hour))
			call := argv("/bin/zoo")
			call.Outputs = []string{"plain"}
			began := time.Now()
			r := s.run(t.Context(), call)
			if r.Outcome != envelope.OutcomeCompleted || s.closes.Load() != 1 || time.Since(began) > time.Minute {
				t.Errorf("%s: outcome %s after %s", point, r.Outcome, time.Since(began))
			}
		})
	}
}

// TestLevelThatForgetsTheWallTime: a level that does not end a program is
// made to, and the result says so.
func TestLevelThatForgetsTheWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		s.deaf = true
		s.profile.Resources.Wall = envelope.Duration(time.Minute)
		s.profile.Cleanup.StopGrace = envelope.Duration(time.Second)
		r := s.run(t.Context(), argv("/bin/hang"))
		if r.Outcome != envelope.OutcomeWallTime || r.Exit.Cause != "wall" || r.Usage.Wall != 66*time.Second {
			t.Errorf("outcome %s, exit %+v, after %s", r.Outcome, r.Exit, r.Usage.Wall)
		}
		if !strings.Contains(strings.Join(r.Warnings, " "), "did not end the program") {
			t.Errorf("warnings %q", r.Warnings)
		}
	})
}

// TestCancelAtEveryStep: a caller who goes, at whatever step, gets the right
// word, and the row is ended and the cell destroyed all the same.
func TestCancelAtEveryStep(t *testing.T) {
	leak.Check(t)
	cancelled := envelope.ReasonSetup
	for _, c := range []struct {
		at      string
		reason  envelope.Reason
		outcome envelope.Outcome
	}{
		{"lookup", cancelled, 0}, {"intend", cancelled, 0}, {"intended", cancelled, 0}, {"open", cancelled, 0},
		{"opened", cancelled, 0}, {"put", cancelled, 0}, {"exec", cancelled, 0},
		{"stop", 0, envelope.OutcomeCompleted}, {"get", 0, envelope.OutcomeCompleted},
		{"close", 0, envelope.OutcomeCompleted}, {"complete", 0, envelope.OutcomeCompleted},
	} {
		t.Run(c.at, func(t *testing.T) {
			s := newStand(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.fault(c.at, func(context.Context) error { cancel(); return nil })
			call := argv("/bin/zoo")
			call.Outputs = []string{"plain"}
			r := s.run(ctx, call)
			if (r.Refusal != nil) != c.reason.Valid() || r.Outcome != c.outcome {
				t.Fatalf("refusal %+v, outcome %s", r.Refusal, r.Outcome)
			}
			if r.Refusal != nil && (!strings.Contains(r.Refusal.Message, "cancelled") || !r.Refusal.Retry) {
				t.Errorf("refusal %+v", r.Refusal)
			}
			if reached := s.count("exec") > 0; r.Refusal != nil && reached != (c.at == "exec") {
				t.Errorf("a program was started for a caller who had gone: %q", s.trace)
			}
			if r.Outcome.Valid() && len(r.Outputs) != 1 {
				t.Errorf("outputs %+v, missing %+v", r.Outputs, r.Missing)
			}
			if r.Receipt == nil || s.count("opened") != int(s.closes.Load()) {
				t.Errorf("receipt %v, opened %d, closed %d", r.Receipt, s.count("opened"), s.closes.Load())
			}
		})
	}
}

// TestCancelWhileItRuns: the program is ended, and what it wrote and left is
// there.
func TestCancelWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(2*time.Second, cancel)
		call := argv("/bin/hang")
		call.Inputs = []envelope.File{{Name: "in", Data: []byte("x")}}
		call.Outputs = []string{"in"}
		r := s.run(ctx, call)
		if r.Outcome != envelope.OutcomeCancelled || r.Exit.Cause != "cancel" || r.Usage.Wall != 2*time.Second {
			t.Errorf("outcome %s, exit %+v, wall %s", r.Outcome, r.Exit, r.Usage.Wall)
		}
		if string(r.Stdout.Head) != "ready" || len(r.Outputs) != 1 || r.Receipt == nil {
			t.Errorf("stdout %q, outputs %+v, receipt %v", r.Stdout.Head, r.Outputs, r.Receipt)
		}
	})
}

// TestManyAtOnce: 200 calls of every kind side by side, half of them given up
// on, leave nothing: no cell, no goroutine, no row without an end.
func TestManyAtOnce(t *testing.T) {
	leak.Check(t)
	s := newStand(t)
	s.profile.Resources.Wall = envelope.Duration(50 * time.Millisecond)
	programs := [][]string{{"/bin/print", "x"}, {"/bin/hang"}, {"/bin/flood"}, {"/bin/zoo"}, {"/bin/orphans", "m"}, {"no-such"}, {}}
	var all sync.WaitGroup
	ids := make(chan string, 200)
	for i := range cap(ids) {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 1 {
				time.AfterFunc(time.Duration(i%40)*time.Millisecond, cancel)
			}
			call := argv(programs[i%len(programs)]...)
			call.Outputs = []string{"plain"}
			r := s.broker.Run(ctx, caller(), call)
			if r.Receipt == nil || (r.Refusal == nil) != r.Outcome.Valid() {
				t.Errorf("call %d: %s, %v, receipt %v", i, r.Outcome, r.Refusal, r.Receipt)
			}
			ids <- r.ID
		})
	}
	all.Wait()
	close(ids)
	different := map[string]bool{}
	for id := range ids {
		different[id] = true
	}
	if n := len(s.endings) + len(s.refused); n != 200 || len(different) != 200 || s.runtime.Cells() != 0 {
		t.Errorf("%d rows, %d ids, %d cells open", n, len(different), s.runtime.Cells())
	}
}
