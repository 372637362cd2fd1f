package bench

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// takes is a subject that takes a time, and counts. In a bubble of package synctest
// it takes that and no more, however busy the machine is.
func takes(name string, d time.Duration, runs *atomic.Int64) Subject {
	return Subject{Name: name, Run: func(ctx context.Context) error {
		runs.Add(1)
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
		return nil
	}}
}

// TestMeasure: everybody has as many turns, the warm ones do not count, and
// ratios are to the baseline.
func TestMeasure(t *testing.T) { synctest.Test(t, measure) }

func measure(t *testing.T) {
	var fast, slow atomic.Int64
	rounds := 0
	rows, err := Measure(context.Background(), []Subject{takes("fast", time.Millisecond, &fast), takes("slow", 20*time.Millisecond, &slow)},
		Options{Runs: 5, Warm: 2, Baseline: "slow", Progress: func(done, of int) {
			if rounds++; done != rounds || of != 7 {
				t.Errorf("round %d of %d", done, of)
			}
		}})
	if err != nil || len(rows) != 2 || rounds != 7 || fast.Load() != 7 || slow.Load() != 7 {
		t.Fatalf("%v, %v; %d rounds, %d and %d runs", rows, err, rounds, fast.Load(), slow.Load())
	}
	for _, r := range rows {
		took := map[string]time.Duration{"fast": time.Millisecond, "slow": 20 * time.Millisecond}[r.Name]
		if r.Runs != 5 || r.Min != took || r.Median != took || r.P90 != took || r.P99 != took || r.PerSec != 0 {
			t.Errorf("%+v", r)
		}
	}
	if rows[1].Ratio != 1 || rows[1].RatioMin != 1 || rows[0].Ratio != 0.05 || rows[0].RatioMin != 0.05 {
		t.Errorf("ratios %+v", rows)
	}
	var text strings.Builder
	if err := Print(&text, rows, "slow"); err != nil || !strings.Contains(text.String(), "median / slow") || strings.Contains(text.String(), "per s") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestQuantiles: of times that differ each is where it says.
func TestQuantiles(t *testing.T) {
	var times []time.Duration
	for i := range 101 {
		times = append(times, time.Duration(i*37%101+1))
	}
	if r := rowOf(Subject{Name: "s"}, times); r.Runs != 101 || r.Min != 1 || r.Median != 51 || r.P90 != 91 || r.P99 != 100 {
		t.Errorf("%+v", r)
	}
}

// TestRate runs as many at once as it says.
func TestRate(t *testing.T) { synctest.Test(t, measureRate) }

func measureRate(t *testing.T) {
	var runs, now, most atomic.Int64
	s := Subject{Name: "s", Run: func(context.Context) error {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return takes("", 5*time.Millisecond, &runs).Run(context.Background())
	}}
	rows, err := Measure(context.Background(), []Subject{s}, Options{Runs: 1, Clients: 3, Seconds: 0.101}) // so that each has 21 runs
	if err != nil || rows[0].Clients != 3 || rows[0].PerSec != 600 || most.Load() != 3 || runs.Load() != 1+3*21 {
		t.Errorf("%+v, %v; %d at once", rows, err, most.Load())
	}
	var text strings.Builder
	if err := Print(&text, rows, "s"); err != nil || !strings.Contains(text.String(), "per s, 3 at once") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestSubjectThatFails ends the measurement and is named; so does the caller.
func TestSubjectThatFails(t *testing.T) {
	fault := errors.New("it broke")
	after := 0
	s := Subject{Name: "the one", Run: func(context.Context) error {
		if after--; after < 0 {
			return fault
		}
		return nil
	}}
	synctest.Test(t, func(t *testing.T) { // or the time may be over before it fails
		for _, after = range []int{0, 3, 5} {
			rows, err := Measure(context.Background(), []Subject{s}, Options{Runs: 4, Clients: 1, Seconds: 0.2})
			if rows != nil || !errors.Is(err, fault) || !strings.Contains(err.Error(), "the one") {
				t.Errorf("%v, %v", rows, err)
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, []Subject{s}, Options{Runs: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Measure(ctx, []Subject{Command("sh", "", "sh", "-c", "sleep 1000 & wait")}, Options{Runs: 1}); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("a command whose child holds its pipe: %v after %v", err, time.Since(began))
	}
	if _, err := Measure(context.Background(), []Subject{Command("false", "", "false")}, Options{Runs: 1}); err == nil {
		t.Error("a command that fails is measured")
	}
}
