// Package lineage puts processes in the order in which they came into being.
//
// Who signals many at once signals the eldest first: a program that hears of the
// death of its child before it has the signal itself ends as if nobody had asked
// it to, without what it does when it is asked.
package lineage

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
)

// maxStat bounds what is read of a process, in bytes: 52 numbers and a name of 64.
const maxStat = 2048

// EldestFirst returns the processes with no child before its parent, siblings by
// their numbers. /proc says who is whose; a process that is gone meanwhile is
// taken for one without a parent.
func EldestFirst(pids []int) []int {
	parents := make(map[int]int, len(pids))
	for _, pid := range pids {
		parents[pid] = parent(pid)
	}
	return order(parents)
}

// order sorts processes by how many of them are above each: not by their numbers,
// which come round.
func order(parents map[int]int) []int {
	above := make(map[int]int, len(parents))
	list := make([]int, 0, len(parents))
	for pid := range parents {
		list = append(list, pid)
		place(pid, parents, above)
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(above[a], above[b]), cmp.Compare(a, b)) })
	return list
}

// place counts what is above a process, and above each on the way there. Each is
// passed once: a chain of them would take its square, and a program makes one as
// long as it may. Where numbers were used anew they can be above themselves: such
// come last.
func place(pid int, parents, above map[int]int) {
	last := len(parents)
	var way []int
	n := 0
	for at := pid; ; at = parents[at] {
		over, known := above[at]
		if known && over == last {
			return // round, or on to such
		}
		if known {
			n = over + 1
		}
		if _, there := parents[at]; known || !there {
			break
		}
		above[at], way = last, append(way, at)
	}
	for _, at := range slices.Backward(way) {
		above[at] = n
		n++
	}
}

// parent returns the parent of a process, 0 where there is none to be seen. The
// name before it is the program's own, and may have anything in it.
func parent(pid int) int {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxStat)) // what there is of it is looked at
	return parentIn(text)
}

// parentIn is the second field after the name of a stat.
func parentIn(stat []byte) int {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	up, err := strconv.Atoi(string(fields[1]))
	if err != nil || up < 0 {
		return 0
	}
	return up
}
