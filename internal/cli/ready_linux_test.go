package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// readiness is what a daemon says of itself.
type readiness struct {
	Status json.RawMessage
	Checks []struct {
		Name, Reason string
		OK, Soft     bool
	}
}

// reasons returns the status of /readyz and what is not well.
func reasons(t *testing.T, d *daemon) (status int, words []string) {
	t.Helper()
	status, _, body := ask(t, d, "GET", "/readyz", "", "")
	var r readiness
	if err := json.Unmarshal(body, &r); err != nil || len(r.Checks) == 0 {
		t.Fatalf("%d %s", status, body)
	}
	for _, c := range r.Checks {
		if !c.OK {
			words = append(words, c.Reason)
		}
	}
	return status, words
}

// becomes waits until a daemon says that.
func becomes(t *testing.T, d *daemon, status int, word string) {
	t.Helper()
	var got int
	var words []string
	until(t, func() string { return fmt.Sprintf("it says %d %q, want %d %s", got, words, status, word) }, func() bool {
		got, words = reasons(t, d)
		return got == status && (word == "" && len(words) == 0 || slices.Contains(words, word))
	})
	if status, _, _ := ask(t, d, "GET", "/healthz", "", ""); status != 200 {
		t.Errorf("/healthz is %d", status)
	}
}

// launchersOf are the processes of a command that another one started.
func launchersOf(parent int, name string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		var pid int
		if _, bad := fmt.Sscanf(path, "/proc/%d/status", &pid); err == nil && bad == nil &&
			strings.HasPrefix(string(text), "Name:\t"+name) && strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestReadyWithoutALauncher: a launcher that is stopped does not answer, and the
// daemon is ready again when it does; one that is killed is started anew.
func TestReadyWithoutALauncher(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	d := startDaemon(t, bin, conf)
	becomes(t, d, 200, "")
	launchers := launchersFor(d.cmd.Process.Pid)
	if len(launchers) == 0 {
		t.Fatal("it has no launcher")
	}
	each := func(signal syscall.Signal) {
		for _, pid := range launchers {
			if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH { // one that stands too long is given up
				t.Fatal(err)
			}
		}
	}
	each(syscall.SIGSTOP)
	becomes(t, d, 503, "launcher.gone")
	each(syscall.SIGCONT)
	becomes(t, d, 200, "")
	each(syscall.SIGKILL)
	until(t, func() string { return "it has no launcher of its starter's" }, func() bool {
		status, _ := reasons(t, d)
		now := launchersFor(d.cmd.Process.Pid)
		return status == 200 && len(now) > 0 && !slices.Contains(now, launchers[0])
	})
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	if log := strings.Join(d.log, "\n"); !strings.Contains(log, "not well") || !strings.Contains(log, "all is well again") {
		t.Errorf("the log:\n%s", log)
	}
}

// TestReadyOnAFullDisk has the state on a small file system, in a mount namespace
// of its own: full, and read-only, the daemon is not ready; then it is again, and
// makes calls.
func TestReadyOnAFullDisk(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	addTo(t, conf, "health: {disk: 8Mi}\nserve: {metrics: \"127.0.0.1:0\"}\n")
	wrapper := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nset -e\nif [ -z \"$INSIDE\" ]; then export INSIDE=1; exec unshare --mount --propagation private \"$0\" \"$@\"; fi\n"+
		"mount -t tmpfs -o size=64m,mode=700 none %s\nexec %s/callcell \"$@\"\n", state, bin)
	if err := os.WriteFile(filepath.Join(wrapper, "callcell"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace of our own here: %v %s", err, out)
	}
	d := startDaemon(t, wrapper, conf, "--dev")
	becomes(t, d, 200, "")
	inside := func(words ...string) {
		t.Helper()
		if out, err := exec.Command("nsenter", append([]string{"--mount", "--target", fmt.Sprint(d.cmd.Process.Pid)}, words...)...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", words, err, out)
		}
	}
	ballast := filepath.Join(state, "ballast")
	inside("sh", "-c", "head -c 70000000 /dev/zero >"+ballast+" 2>/dev/null || true")
	becomes(t, d, 503, "disk.full")
	becomes(t, d, 503, "store.unwritable")
	inside("rm", ballast)
	becomes(t, d, 200, "")
	inside("mount", "-t", "tmpfs", "-o", "ro", "none", state)
	becomes(t, d, 503, "disk.readonly")
	inside("umount", "--lazy", state) // a check may be looking at it just now
	becomes(t, d, 200, "")
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}
