// Package leak checks that a test leaves nothing behind: no goroutine and, on
// Linux, no open descriptor.
//
//	func TestX(t *testing.T) {
//		leak.Check(t)
//		...
//	}
//
// It compares with a snapshot that is taken when Check is called, so it cannot
// be used by tests that run in parallel with others of their package.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long the end of a test waits for what is just ending.
const patience = 20 * time.Second

// Check takes a snapshot now and, when the test has ended, fails it if there
// are more goroutines of one origin or more descriptors of one target than
// there were. What the test registers with Cleanup after Check is done first.
func Check(t testing.TB) {
	t.Helper()
	before := snapshot()
	t.Cleanup(func() {
		t.Helper()
		if more := settle(before); len(more) > 0 && !t.Failed() {
			t.Errorf("left behind:\n  %s", strings.Join(more, "\n  "))
		}
	})
}

// settle waits until nothing is left over, or until patience is out.
func settle(before map[string]int) []string {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		more := diff(before, snapshot())
		if len(more) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return more
		case <-tick.C:
		}
	}
}

func diff(before, now map[string]int) []string {
	var more []string
	for what, n := range now {
		if n > before[what] {
			more = append(more, fmt.Sprintf("%d more of %s", n-before[what], what))
		}
	}
	slices.Sort(more)
	return more
}

func snapshot() map[string]int {
	now := map[string]int{}
	for _, stack := range goroutines() {
		now["goroutine "+origin(stack)]++
	}
	for _, target := range descriptors() {
		now["descriptor "+target]++
	}
	return now
}

// goroutines returns the stacks of all goroutines but the caller's.
func goroutines() []string {
	for size := 1 << 16; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return strings.Split(string(buf[:n]), "\n\n")[1:]
		}
	}
}

// origin names a goroutine by the function that started it, and where it was
// started.
func origin(stack string) string {
	at := strings.LastIndex(stack, "created by ")
	if at < 0 {
		return "main"
	}
	lines := strings.Split(stack[at:], "\n")
	name, _, _ := strings.Cut(lines[0], " in goroutine ")
	if len(lines) > 1 {
		where, _, _ := strings.Cut(strings.TrimSpace(lines[1]), " +")
		name += " (" + where + ")"
	}
	return name
}

// descriptors returns what the open descriptors of this process point to.
// Where there is no /proc it returns nothing.
func descriptors() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var targets []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "/proc/") || strings.Contains(target, "[event") {
			continue // the directory itself, and the runtime's poller
		}
		kind, _, _ := strings.Cut(target, ":[")
		targets = append(targets, kind)
	}
	return targets
}
