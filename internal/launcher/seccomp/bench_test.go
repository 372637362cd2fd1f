//go:build linux && (amd64 || arm64)

package seccomp

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// filters are the two ways to compile the cell's policy.
func filters(b *testing.B) map[string][]unix.SockFilter {
	b.Helper()
	p, err := CellPolicy()
	if err != nil {
		b.Fatal(err)
	}
	tree, err := Compile(p)
	if err != nil {
		b.Fatal(err)
	}
	return map[string][]unix.SockFilter{"tree": tree, "linear": linear(p)}
}

// BenchmarkCompile is what the launcher pays once at its start.
func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Cell(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSteps reports how many instructions a call costs, on average over
// the numbers that are allowed and over all that are known, and at worst.
func BenchmarkSteps(b *testing.B) {
	for name, filter := range filters(b) {
		b.Run(name, func(b *testing.B) {
			var sum, n, allowed, nAllowed, worst int
			for b.Loop() {
				for _, r := range Rules() {
					_, steps, err := interpret(filter, call{arch: auditArch, nr: r.Nr})
					if err != nil {
						b.Fatal(err)
					}
					sum, n, worst = sum+steps, n+1, max(worst, steps)
					if r.Action == Allow {
						allowed, nAllowed = allowed+steps, nAllowed+1
					}
				}
			}
			b.ReportMetric(float64(len(filter)), "instructions")
			b.ReportMetric(float64(sum)/float64(n), "steps/call")
			b.ReportMetric(float64(allowed)/float64(nAllowed), "steps/allowed")
			b.ReportMetric(float64(worst), "steps/worst")
		})
	}
}

// BenchmarkInstall is what the kernel does with the filter for each cell:
// check it, compile it, and run it for every number to fill its cache. Each
// filter gets a thread that ends with it.
func BenchmarkInstall(b *testing.B) {
	for name, filter := range filters(b) {
		b.Run(name, func(b *testing.B) {
			var total time.Duration
			for b.Loop() {
				took, err := installOnce(filter)
				if err != nil {
					b.Fatal(err)
				}
				total += took
			}
			b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns/install")
		})
	}
}

// installOnce times the installation on a thread of its own.
func installOnce(filter []unix.SockFilter) (took time.Duration, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		start := time.Now()
		err = installFilter(filter, 0)
		took = time.Since(start)
	}()
	<-done
	return took, err
}
