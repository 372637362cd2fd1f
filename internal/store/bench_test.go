package store

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/audit"
)

// BenchmarkOneShot is what a process that makes one call pays, on a file that
// was left by the one before: the median of each step, in microseconds. ns/op
// is the whole process, which is this test binary and no measure.
func BenchmarkOneShot(b *testing.B) {
	path := file(b)
	var steps [5][]float64
	for b.Loop() {
		var out bytes.Buffer
		if err := helper(b, &out, "timed", path).Run(); err != nil {
			b.Fatal(err)
		}
		for i, line := range strings.Fields(out.String()) {
			ns, err := strconv.ParseFloat(line, 64)
			if err != nil {
				b.Fatal(err)
			}
			steps[i] = append(steps[i], ns/1e3)
		}
	}
	for i, name := range []string{"open-us", "recover-us", "intent-us", "outcome-us", "leave-us"} {
		slices.Sort(steps[i])
		b.ReportMetric(steps[i][len(steps[i])/2], name)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := file(b)
	ctx := context.Background()
	for b.Loop() {
		d, err := Open(ctx, path)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d.Close()
		b.StartTimer()
	}
}

// BenchmarkCall is the intent and the outcome of one call after the other.
func BenchmarkCall(b *testing.B) {
	l := log(b, open(b, file(b)), audit.Options{})
	for b.Loop() {
		fill(b, l, 1)
	}
}

// BenchmarkCalls has 64 callers at once.
func BenchmarkCalls(b *testing.B) {
	d := open(b, file(b))
	l := log(b, d, audit.Options{})
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			fill(b, l, 1)
		}
	})
	b.ReportMetric(float64(d.commits.Load())/float64(b.N), "commits/op")
}

// BenchmarkRecoverNothing looks for lost calls where there are none.
func BenchmarkRecoverNothing(b *testing.B) {
	l := log(b, open(b, file(b)), audit.Options{})
	fill(b, l, 100)
	for b.Loop() {
		if _, err := l.Recover(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify walks 2000 events.
func BenchmarkVerify(b *testing.B) {
	l := log(b, open(b, file(b)), audit.Options{})
	fill(b, l, 1000)
	for b.Loop() {
		if rep := verify(b, l); !rep.Intact() {
			b.Fatal(rep)
		}
	}
}
