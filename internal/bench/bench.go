// Package bench measures ways to run one command against each other, in one
// run on one machine: what a reader can compare is their ratio, not their
// milliseconds.
//
// Subjects take turns in an order that is drawn anew for each round, so that a
// machine whose speed drifts is as unfair to one as to the next. Before each
// turn the machine rests: what the one before left to be done (namespaces that
// the kernel takes apart, a cell that is made ahead) is nobody else's time. The
// rates have no rests: there everybody pays for all that he causes.
//
// Two layers of ours are always told apart: the cell (create, run, destroy) and
// the call (callcell.Run, with the durable row and every ceiling).
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// Subject is one way to run the command.
type Subject struct {
	Name string
	What string // what is measured, in a few words
	Run  func(context.Context) error
}

// Row is what was measured of one subject. Times are of one run each.
type Row struct {
	Name     string        `json:"name"`
	What     string        `json:"what"`
	Runs     int           `json:"runs"`
	Min      time.Duration `json:"minNs"`
	Median   time.Duration `json:"medianNs"`
	P90      time.Duration `json:"p90Ns"`
	P99      time.Duration `json:"p99Ns"`
	Ratio    float64       `json:"ratio,omitempty"`     // of medians, to the baseline
	RatioMin float64       `json:"ratioMin,omitempty"`  // of minima
	PerSec   float64       `json:"perSecond,omitempty"` // with Clients at once
	Clients  int           `json:"clients,omitempty"`
}

// Options say how much is measured.
type Options struct {
	Runs     int // counted runs of each subject
	Warm     int // runs before, not counted
	Clients  int // at once, for the rate; 0: no rate
	Seconds  float64
	Baseline string // name of the subject that ratios are against
	// Progress is told after each round; nil: nobody is.
	Progress func(done, of int)
}

// Measure runs the subjects in turn. A subject that fails ends it.
func Measure(ctx context.Context, subjects []Subject, o Options) ([]Row, error) {
	times := make([][]time.Duration, len(subjects))
	for i := range o.Warm + o.Runs {
		for _, k := range rand.Perm(len(subjects)) {
			if err := pause(ctx); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := subjects[k].Run(ctx); err != nil {
				return nil, fmt.Errorf("bench: %s: %w", subjects[k].Name, err)
			}
			if i >= o.Warm {
				times[k] = append(times[k], time.Since(began))
			}
		}
		if o.Progress != nil {
			o.Progress(i+1, o.Warm+o.Runs)
		}
	}
	rows := make([]Row, len(subjects))
	for k, s := range subjects {
		rows[k] = rowOf(s, times[k])
	}
	if o.Clients > 0 {
		for k, s := range subjects {
			rate, err := rate(ctx, s, o.Clients, time.Duration(o.Seconds*float64(time.Second)))
			if err != nil {
				return nil, fmt.Errorf("bench: %s: %w", s.Name, err)
			}
			rows[k].PerSec, rows[k].Clients = rate, o.Clients
		}
	}
	compare(rows, o.Baseline)
	return rows, nil
}

// rest is how long the machine rests before a turn.
const rest = 8 * time.Millisecond

func pause(ctx context.Context) error {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func rowOf(s Subject, t []time.Duration) Row {
	slices.Sort(t)
	at := func(q float64) time.Duration { return t[int(q*float64(len(t)-1))] }
	return Row{Name: s.Name, What: s.What, Runs: len(t), Min: t[0], Median: at(.5), P90: at(.9), P99: at(.99)}
}

func compare(rows []Row, baseline string) {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == baseline })
	if i < 0 {
		return
	}
	base := rows[i]
	for k := range rows {
		rows[k].Ratio = float64(rows[k].Median) / float64(base.Median)
		rows[k].RatioMin = float64(rows[k].Min) / float64(base.Min)
	}
}

// rate runs the subject from several goroutines for a while and returns runs
// a second.
func rate(ctx context.Context, s Subject, clients int, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errDone)
	defer cancel()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards runs and fail
		runs int
		fail error
	)
	began := time.Now()
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				err := s.Run(context.WithoutCancel(ctx))
				mu.Lock()
				runs++
				fail = cmp.Or(fail, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return float64(runs) / time.Since(began).Seconds(), fail
}

// errDone is the cause of a rate that was measured long enough.
var errDone = errors.New("bench: time is up")

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row, baseline string) error {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', tabwriter.AlignRight)
	rated := len(rows) > 0 && rows[0].Clients > 0
	head := "\tmin ms\tmedian\tp90\tp99\tmedian / " + baseline + "\tmin / " + baseline + "\t"
	if rated {
		head += fmt.Sprintf("per s, %d at once\t", rows[0].Clients)
	}
	fmt.Fprintln(t, head)
	for _, r := range rows {
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t", r.Name, ms(r.Min), ms(r.Median), ms(r.P90), ms(r.P99), r.Ratio, r.RatioMin)
		if rated {
			line += fmt.Sprintf("%.0f\t", r.PerSec)
		}
		fmt.Fprintln(t, line)
	}
	return t.Flush()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
