package container_test

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/template"
)

// postureProbe prints everything about its own standing that /proc and the
// kernel tell, a line each, with a fixed word in front.
const postureProbe = `
import os, resource, stat
for line in open("/proc/self/status"):
    name, value = line.split(":", 1)
    if name in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
                "Seccomp_filters", "SigBlk", "SigIgn", "Umask", "NSpid", "NSsid", "NSpgid", "TracerPid"):
        print("status", name, " ".join(value.split()))
for fd in sorted(os.listdir("/proc/self/fd"), key=int):
    try: kind = stat.S_IFMT(os.fstat(int(fd)).st_mode)
    except OSError: continue
    print("fd", fd, {stat.S_IFIFO: "pipe", stat.S_IFCHR: "char", stat.S_IFREG: "file"}.get(kind, oct(kind)))
for line in open("/proc/self/mountinfo"):
    left, right = line.rstrip().split(" - ")
    f, (kind, source, options) = left.split(), right.split(" ", 2)
    print("mount", f[4], f[5], kind)
for k, v in sorted(os.environ.items()): print("env", k + "=" + v)
for n in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
    print("limit", n, *resource.getrlimit(getattr(resource, n)))
for m in ("uid_map", "gid_map", "setgroups"): print("map", m, " ".join(open("/proc/self/" + m).read().split()))
print("cwd", os.getcwd()); print("umask", oct(os.umask(0o22)))
print("session", os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid())
try: open("/dev/tty"); print("terminal yes")
except OSError as e: print("terminal", e.errno)
for d in ("/", "/dev", "/etc", "/proc", "/work", "/tmp", "/.callcell"):
    try: names = sorted(n for n in os.listdir(d) if not n.isdigit())
    except OSError as e: names = [os.strerror(e.errno)]
    for n in names: print("entry", os.path.join(d, n))
for n in sorted(os.listdir("/proc/self/ns")): print("namespace", n, os.readlink("/proc/self/ns/" + n))
print("host", os.uname().nodename, open("/proc/self/cgroup").read().strip().splitlines()[-1].split(":")[-1])
print("affinity all", os.sched_getscheduler(0), os.nice(0))
print("personality", open("/proc/self/personality").read().strip() if os.path.exists("/proc/self/personality") else "-")
`

// posture returns the probe's lines, with what differs from host to host made
// the same: kernel ids, and what of the slice a host may lack.
func posture(t *testing.T, env envelope.Envelope) []string {
	t.Helper()
	out, x := insideExit(t, newRuntime(t), env, "python", postureProbe)
	return postureLines(t, out, x)
}

func postureLines(t *testing.T, out string, x cell.Exit) []string {
	t.Helper()
	if x.Code != 0 || x.Signal != 0 {
		t.Fatalf("exit %+v\n%s", x, out)
	}
	kuid := regexp.MustCompile(`^(map [ug]id_map 1000) \d+ 1$`)
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less what is nice: a cell is as nice as who runs it
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	s := bufio.NewScanner(strings.NewReader(out))
	for s.Scan() {
		line := kuid.ReplaceAllString(s.Text(), "$1 KUID 1")
		if f := strings.Fields(line); f[0] == "namespace" {
			line = "namespace " + f[1] + ownNamespace(f[1], f[2])
		} else if f[0] == "mount" && f[1] == "/usr" {
			line = strings.Join(append(f[:3], "FS"), " ")
		} else if f[0] == "affinity" && f[3] == strconv.Itoa(20-priority) {
			line = strings.Join(append(f[:3], "0"), " ")
		}
		if !optional(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// ownNamespace says whether a namespace of the cell is another than ours.
func ownNamespace(name, link string) string {
	if host, err := os.Readlink("/proc/self/ns/" + name); err == nil && host != link {
		return " own"
	}
	return " HOST"
}

// optional reports whether a line is of a path that some hosts lack: the
// slice's own table says which.
func optional(line string) bool {
	f := strings.Fields(line)
	if f[0] != "mount" && f[0] != "entry" {
		return false
	}
	for _, e := range template.Slice() {
		if !e.Required && (f[1] == e.Path || f[0] == "entry" && f[1] == filepath.Dir(e.Path)) {
			return true
		}
	}
	return slices.Contains([]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}, f[1])
}

var update = flag.Bool("update", false, "write the golden files")

// TestPosture compares a real cell with the golden list, line by line: what is
// more is as red as what is missing.
func TestPosture(t *testing.T) {
	isPosture(t, "posture.golden", posture(t, envelope.Default()))
}

// isPosture compares lines with a golden list.
func isPosture(t *testing.T, name string, got []string) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, line := range difference(got, want) {
		t.Error(line)
	}
}

// TestPostureWithANetwork: two files are others, and nothing else is; the
// host's sockets are in the namespace and not in the program's hands.
func TestPostureWithANetwork(t *testing.T) {
	env := envelope.Default()
	env.Network.Allow = []envelope.Allow{{Host: "example.com", Ports: []int{80, 443}}, {Host: "2001:db8::5", Ports: []int{443}}}
	got := difference(posture(t, env), posture(t, envelope.Default()))
	want := []string{"more: mount /etc/resolv.conf ro,nosuid,nodev,relatime tmpfs", "more: mount /etc/nsswitch.conf ro,nosuid,nodev,relatime tmpfs"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// difference lists what one has and the other has not.
func difference(got, want []string) (lines []string) {
	for _, l := range got {
		if !slices.Contains(want, l) {
			lines = append(lines, "more: "+l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			lines = append(lines, "missing: "+l)
		}
	}
	return lines
}

// TestPostureGoesRed shows that one descriptor, mount or capability more than
// the list has is found.
func TestPostureGoesRed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "posture.golden"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, extra := range []string{"fd 4 pipe", "mount /host rw,relatime ext4", "status CapEff 0000000000000001", "env SECRET=1", "entry /dev/kvm"} {
		if got := difference(append(slices.Clone(want), extra), want); len(got) != 1 {
			t.Errorf("%s: %q", extra, got)
		}
	}
}
