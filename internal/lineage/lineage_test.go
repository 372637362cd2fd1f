package lineage

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

func TestNoChildIsBeforeItsParent(t *testing.T) {
	for name, row := range map[string]struct {
		parents map[int]int
		want    []int
	}{
		"nobody":                     {map[int]int{}, []int{}},
		"strangers":                  {map[int]int{7: 1, 5: 1}, []int{5, 7}},
		"in the order of numbers":    {map[int]int{5: 1, 6: 5, 7: 6}, []int{5, 6, 7}},
		"numbers that came round":    {map[int]int{32000: 1, 40: 32000, 300: 40}, []int{32000, 40, 300}},
		"siblings":                   {map[int]int{9: 1, 3: 9, 4: 9, 2: 4}, []int{9, 3, 4, 2}},
		"one that lost its parent":   {map[int]int{9: 1, 3: 0, 10: 9}, []int{3, 9, 10}},
		"numbers that are used anew": {map[int]int{3: 4, 4: 3, 9: 1}, []int{9, 3, 4}},
	} {
		if got := order(row.parents); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// TestLongChainsTakeNoTime: a program chooses how long a chain of its processes is,
// and who ends it has a lock meanwhile. By the square of its length this would take
// an hour.
func TestLongChainsTakeNoTime(t *testing.T) {
	const long = 1 << 19
	parents := make(map[int]int, long)
	for i := range long {
		parents[2*long-i] = 2*long - i + 1 // each of a higher number than its child
	}
	for i, pid := range order(parents) {
		if pid != 2*long-i {
			t.Fatalf("%d is at %d", pid, i)
		}
	}
}

func TestParentsAreTheKernels(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if got := parent(cmd.Process.Pid); got != os.Getpid() {
		t.Errorf("its parent is %d, want %d", got, os.Getpid())
	}
	if got := EldestFirst([]int{cmd.Process.Pid, os.Getpid()}); !slices.Equal(got, []int{os.Getpid(), cmd.Process.Pid}) {
		t.Errorf("%v", got)
	}
	if got := parent(1 << 30); got != 0 {
		t.Errorf("a process that is not there has the parent %d", got)
	}
}

// FuzzStat holds that no name of a program is taken for what follows it.
func FuzzStat(f *testing.F) {
	for _, name := range []string{"sh", ") S 1 ", "((", "a b", ")) Z 7 (", "", "\n"} {
		f.Add([]byte(name), 42)
	}
	f.Fuzz(func(t *testing.T, name []byte, up int) {
		stat := slices.Concat([]byte("7 ("), name, []byte(") S "+strconv.Itoa(up)+" 7 7 0 -1"))
		if got := parentIn(stat); got != max(up, 0) {
			t.Errorf("%q: %d, want %d", stat, got, max(up, 0))
		}
		if got := parentIn(name); got < 0 || got > 0 && !bytes.ContainsAny(name, "123456789") {
			t.Errorf("%q: %d", name, got)
		}
	})
}
