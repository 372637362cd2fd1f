package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
)

// egressPosture is everything about the process's standing that /proc tells
// from outside, a line each. What differs from host to host is made the same.
func egressPosture(t *testing.T, c *client, pid int) []string {
	t.Helper()
	uid := strings.Fields(procField(pid, "Uid"))[0]
	same := strings.NewReplacer(uid, "UID", "open files "+strings.Repeat(itoa(int(openFiles(t)))+" ", 2), "open files N N ")
	var lines []string
	for _, name := range []string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
		"SigIgn", "SigBlk", "Umask", "TracerPid"} {
		value := same.Replace(strings.Join(strings.Fields(procField(pid, name)), " "))
		if name == "SigIgn" {
			value = notInherited(t, value)
		}
		lines = append(lines, "status "+name+" "+value)
	}
	for _, fd := range fdsOf(t, pid) {
		if number, target, _ := strings.Cut(fd, " "); len(number) > 1 || number > "3" {
			fd = "more " + target
		}
		lines = append(lines, "fd "+fd)
	}
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	for line := range strings.Lines(contents(t, at("mountinfo"))) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f := strings.Fields(left)
		lines = append(lines, "mount "+strings.Join(f[3:6], " ")+" "+strings.Fields(right)[0])
	}
	for line := range strings.Lines(contents(t, at("limits"))) {
		lines = append(lines, "limit "+same.Replace(strings.Join(strings.Fields(line), " ")))
	}
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts"} {
		own := " own"
		if inode(t, at("ns/"+name)) == inode(t, fmt.Sprintf("/proc/%d/ns/%s", os.Getpid(), name)) {
			own = " HOST"
		}
		lines = append(lines, "namespace "+name+own)
	}
	for _, name := range []string{"environ", "cmdline"} {
		lines = append(lines, name+" "+strings.ReplaceAll(contents(t, at(name)), "\x00", " "))
	}
	entries, err := os.ReadDir(at("root"))
	must(t, err)
	cwd, err := os.Readlink(at("cwd"))
	must(t, err)
	sid, err := unix.Getsid(pid)
	must(t, err)
	return append(lines, fmt.Sprintf("root %v", entries), "cwd "+cwd, fmt.Sprint("session ", sid == pid), fmt.Sprint("parent ", procField(pid, "PPid") == itoa(c.pid)))
}

// notInherited takes out of a set of signals what this test was itself started
// with: whoever starts callcell decides what of them is ignored.
func notInherited(t *testing.T, set string) string {
	t.Helper()
	theirs, err := strconv.ParseUint(set, 16, 64)
	must(t, err)
	ours, err := strconv.ParseUint(strings.TrimSpace(procField(os.Getpid(), "SigIgn")), 16, 64)
	must(t, err)
	return fmt.Sprintf("%016x", theirs&^ours)
}

// openFiles is how many files the process may open on this host.
func openFiles(t *testing.T) int64 {
	t.Helper()
	var r unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &r))
	return min(conf.Default().Egress.OpenFiles, int64(min(r.Max, 1<<30)))
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// TestEgressPosture compares the process with the golden list, line by line:
// the one of testdata, and the one that is shipped.
func TestEgressPosture(t *testing.T) {
	golden := filepath.Join("testdata", "egress_posture.golden")
	for _, binary := range []string{"callcell-egress-probe", "callcell-egress"} {
		t.Run(binary, func(t *testing.T) {
			if _, err := os.Stat(helper(binary)); err != nil {
				t.Skip("it is not built")
			}
			c := dial(t, newPlace(t, "egress.path = "+helper(binary)))
			p := c.egress(t)
			var got []string
			settled := func() bool { // the runtime has its poller, and waits
				if binary == "callcell-egress-probe" {
					p.ask(t, "echo tcp 127.0.0.1:1")
				}
				got = egressPosture(t, c, p.pid)
				return slices.Contains(got, "fd more anon_inode:[eventpoll]") && slices.Contains(got, "fd more anon_inode:[eventfd]")
			}
			eventually(t, "the process waits", settled)
			onEveryThread(t, p.pid, "Seccomp", "2")
			onEveryThread(t, p.pid, "CapBnd", "0000000000000000")
			if *update && binary == "callcell-egress-probe" {
				must(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644))
			}
			want := strings.Split(strings.TrimSuffix(contents(t, golden), "\n"), "\n")
			for _, line := range got {
				if !slices.Contains(want, line) {
					t.Errorf("more: %s", line)
				}
			}
			for _, line := range want {
				if !slices.Contains(got, line) {
					t.Errorf("missing: %s", line)
				}
			}
			c.close(t, p.slot)
		})
	}
}

// TestLauncherPostureWithEgress: what the launcher holds of an egress process,
// exhaustively, and that nothing of it stays.
func TestLauncherPostureWithEgress(t *testing.T) {
	c := dial(t, withProbe(t))
	numbered := []string{"0 /dev/null", "1 /dev/null", "2 pipe", "3 /dev/null", "4 /dev/null"}
	always := append([]string{"socket", "socket", "anon_inode:[eventpoll]", "anon_inode:[eventfd]", "net", leasesFile}, ofParent(c.parent)...)
	holds(t, c.pid, numbered, always...)
	p := c.egress(t)
	running := append(slices.Clone(always), leasesFile, "/memfd:stderr (deleted)", "anon_inode:[pidfd]")
	holds(t, c.pid, numbered, append(running, ofGroup(c.parent)...)...)
	c.close(t, p.slot)
	holds(t, c.pid, numbered, always...)
	onHostNetwork(t, c.pid)
}
