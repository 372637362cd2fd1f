package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/remains"
)

// leftOver returns what was not there before and stays for half a minute, as far
// as it can be the work of the binaries in bin: other tests, and other people,
// may run callcell on this machine meanwhile.
func leftOver(t *testing.T, bin string, before remains.Snapshot) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	left := remains.Take(places()).More(before)
	for {
		left = slices.DeleteFunc(left, func(line string) bool { return foreign(line, bin) })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return left
		case <-tick.C:
		}
		now := remains.Take(places())
		left = slices.DeleteFunc(left, func(line string) bool { return !now[line] })
	}
}

// foreign reports whether a line of a snapshot is of a process that is not of
// the binaries in bin, of a namespace in which there is none of them, or of a
// group or uid of a cell that another callcell has. The first process of a cell
// is one of them, and no other outlives it.
func foreign(line, bin string) bool {
	kind, what, _ := strings.Cut(line, " ")
	switch kind {
	case "process":
		pid, comm, _ := strings.Cut(what, " ")
		exe, err := os.Readlink("/proc/" + pid + "/exe")
		return err == nil && !strings.HasPrefix(exe, bin+"/") && !strings.Contains(comm, "stubborn")
	case "namespace":
		name, _, _ := strings.Cut(what, ":")
		links, _ := filepath.Glob("/proc/[0-9]*/ns/" + name)
		return !slices.ContainsFunc(links, func(link string) bool {
			to, _ := os.Readlink(link)
			exe, _ := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(link)), "exe"))
			return to == what && strings.HasPrefix(exe, bin+"/")
		})
	case "cgroup":
		return strangers(what, bin)
	case "uid": // lock ... FIRST LAST, each the uid of its cell
		f := strings.Fields(what)
		return slices.ContainsFunc(places().Groups, func(dir string) bool { return strangers(filepath.Join(dir, "c"+f[len(f)-1]+"-cell"), bin) })
	}
	return false
}

// strangers reports whether a process of another callcell is in a
// group.
func strangers(group, bin string) bool {
	pids, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	return slices.ContainsFunc(strings.Fields(string(pids)), func(pid string) bool {
		exe, err := os.Readlink("/proc/" + pid + "/exe")
		return err == nil && strings.HasPrefix(filepath.Base(exe), "callcell-") && !strings.HasPrefix(exe, bin+"/")
	})
}
