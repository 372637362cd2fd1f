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
		for up := parents[pid]; above[pid] < len(parents); above[pid]++ { // no more, where numbers were used anew
			next, there := parents[up]
			if !there {
				break
			}
			up = next
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(above[a], above[b]), cmp.Compare(a, b)) })
	return list
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
