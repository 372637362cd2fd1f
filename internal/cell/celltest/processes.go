package celltest

import (
	"bytes"
	"os"
	"path/filepath"
)

// HostProcesses counts the processes that this host's /proc shows with mark in
// their arguments. Zombies have none, and are not counted.
func HostProcesses(mark string) int {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		panic("celltest: there is no /proc here: nothing could be seen")
	}
	n := 0
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(mark)) {
			n++
		}
	}
	return n
}
