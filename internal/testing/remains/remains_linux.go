// Package remains compares what a machine holds before and after: processes,
// mounts, control groups, namespaces, files, uids. A test that says that
// nothing is left takes a snapshot first.
package remains

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
)

// Snapshot is what there is, as lines that can be compared.
type Snapshot map[string]bool

// Places say where to look.
type Places struct {
	Process func(comm, cmdline string) bool // which processes are ours to leave none of
	Groups  []string                        // directories of groups
	Dirs    []string                        // directories of files
	Locks   string                          // file of uid locks; "" none
	UIDs    [2]int                          // of those locks the ones that count: the first uid, and the one after the last
}

// Take takes a snapshot.
func Take(p Places) Snapshot {
	s := Snapshot{}
	s.processes(p.Process)
	s.mounts()
	for _, dir := range p.Groups {
		s.names("cgroup", dir)
	}
	for _, dir := range p.Dirs {
		s.names("file", dir)
	}
	s.locks(p.Locks, p.UIDs)
	return s
}

// processes notes processes that are ours, and the network and mount
// namespaces that any process is in.
func (s Snapshot) processes(ours func(comm, cmdline string) bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		comm, _ := os.ReadFile(d + "/comm")
		cmdline, _ := os.ReadFile(d + "/cmdline")
		status, _ := os.ReadFile(d + "/stat")
		zombie := strings.Contains(string(status), ") Z ")
		if ours(strings.TrimSpace(string(comm)), string(cmdline)) && !zombie {
			s[fmt.Sprintf("process %s %s", filepath.Base(d), strings.TrimSpace(string(comm)))] = true
		}
		for _, ns := range []string{"net", "mnt", "pid", "user"} {
			if link, err := os.Readlink(d + "/ns/" + ns); err == nil {
				s["namespace "+link] = true
			}
		}
	}
}

func (s Snapshot) mounts() {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 {
			s["mount "+f[4]] = true
		}
	}
}

func (s Snapshot) names(kind, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if kind == "file" || e.IsDir() && e.Name() != cgroup.ClaimName {
			s[kind+" "+filepath.Join(dir, e.Name())] = true
		}
	}
}

// locks notes which bytes of the file are locked, of those that count.
func (s Snapshot) locks(name string, uids [2]int) {
	if name == "" {
		return
	}
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return
	}
	b, _ := os.ReadFile("/proc/locks")
	inode := fmt.Sprintf(" %02x:%02x:%d ", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, inode) {
			continue
		}
		f := strings.Fields(line)
		if uid, err := strconv.Atoi(f[len(f)-2]); err != nil || uid >= uids[0] && uid < uids[1] {
			s["uid lock "+strings.TrimSpace(line[strings.Index(line, ":")+1:])] = true
		}
	}
}

// More returns what is in s and was not in before.
func (s Snapshot) More(before Snapshot) []string {
	var more []string
	for line := range s {
		if !before[line] {
			more = append(more, line)
		}
	}
	slices.Sort(more)
	return more
}
