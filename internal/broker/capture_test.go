package broker

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
)

// TestCaptureIsHeadAndTail compares with the obvious: keep all of it, and cut.
func TestCaptureIsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 40).Draw(t, "keep")
		total := rapid.IntRange(keep, 200).Draw(t, "total")
		c := newCapture(envelope.OutputCap{Keep: envelope.Size(keep), Total: envelope.Size(total)})
		var all [2][]byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 12).Draw(t, "writes") {
			which := rapid.IntRange(0, 1).Draw(t, "stream")
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(len(all[0]) + len(all[1]) + i)
			}
			left := total - len(all[0]) - len(all[1])
			w := c.writer([]*keeper{&c.stdout, &c.stderr}[which])
			got, err := w.Write(p)
			if got != min(n, left) || errors.Is(err, errOutputTotal) != (n > left) {
				t.Fatalf("wrote %d of %d with %d left: %v", got, n, left, err)
			}
			all[which] = append(all[which], p[:got]...)
		}
		stdout, stderr := c.seal()
		for i, s := range []envelope.Stream{stdout, stderr} {
			checkStream(t, s, all[i], keep)
		}
		if _, err := c.writer(&c.stdout).Write([]byte("x")); !errors.Is(err, errOutputSealed) {
			t.Fatalf("a write after the end: %v", err)
		}
	})
}

func checkStream(t *rapid.T, s envelope.Stream, want []byte, keep int) {
	if s.Total != int64(len(want)) || s.Truncated != (len(want) > keep) || s.Head == nil {
		t.Fatalf("total %d, truncated %v; want %d of %d", s.Total, s.Truncated, len(want), keep)
	}
	if !s.Truncated {
		if !bytes.Equal(s.Head, want) || s.Tail != nil {
			t.Fatalf("head %v, tail %v; want all of %v", s.Head, s.Tail, want)
		}
		return
	}
	half := keep - keep/2
	if !bytes.Equal(s.Head, want[:half]) || !bytes.Equal(s.Tail, want[len(want)-keep/2:]) {
		t.Fatalf("head %v, tail %v of %v", s.Head, s.Tail, want)
	}
}

// TestCaptureIsBounded: a gigabyte in small and in large writes, on both
// streams at once, holds no more than what is kept.
func TestCaptureIsBounded(t *testing.T) {
	const gib = 1 << 30
	for _, size := range []int{700, 64 << 10, 16 << 20} {
		c := newCapture(envelope.OutputCap{Keep: envelope.MiB, Total: 4 * gib})
		block := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var both sync.WaitGroup
		for _, k := range []*keeper{&c.stdout, &c.stderr} {
			both.Go(func() {
				for w, left := c.writer(k), gib/2; left > 0; left -= size {
					if _, err := w.Write(block[:min(size, left)]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		both.Wait()
		runtime.ReadMemStats(&after)
		if held := int64(after.TotalAlloc - before.TotalAlloc); held > 32<<20 { // 5 MB in fact
			t.Errorf("in writes of %d bytes: %d bytes were allocated for 2 MiB that are kept", size, held)
		}
		stdout, stderr := c.seal()
		if stdout.Total+stderr.Total != gib || len(stdout.Head)+len(stdout.Tail) != 1<<20 || cap(c.stdout.head) > 1<<19 || cap(c.stdout.tail) > 1<<19 {
			t.Errorf("in writes of %d bytes: total %d and %d, kept %d", size, stdout.Total, stderr.Total, len(stdout.Head)+len(stdout.Tail))
		}
	}
}

// TestCaptureUnderHammer writes to both streams from many goroutines while the
// end comes.
func TestCaptureUnderHammer(t *testing.T) {
	c := newCapture(envelope.OutputCap{Keep: 1000, Total: 1 << 30})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			w := c.writer([]*keeper{&c.stdout, &c.stderr}[i%2])
			for {
				if _, err := w.Write([]byte(strings.Repeat("x", rand.IntN(300)))); err != nil {
					return
				}
				if rand.IntN(1000) == 0 {
					c.seal()
				}
			}
		})
	}
	all.Wait()
	stdout, _ := c.seal()
	again, _ := c.seal()
	if stdout.Total != again.Total {
		t.Errorf("after the end: %d, then %d bytes", stdout.Total, again.Total)
	}
}
