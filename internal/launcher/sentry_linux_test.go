package launcher

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// withSandbox makes a place whose cells of LevelUserkernel have the guest of
// testdata; no program of their root is run.
func withSandbox(t testing.TB, settings ...string) place {
	t.Helper()
	needRoot(t)
	return newPlace(t, append([]string{"runsc.path = " + helper("callcell-runsc"), "runsc.guest = " + helper("callcell-guest-probe"), "runsc.root = " + helper("root.erofs")}, settings...)...)
}

// A sandbox is a cell of LevelUserkernel, and its channel.
type sandbox struct {
	slot    uint32
	pid     int // of the sentry, on this host
	channel net.Conn
	lines   *bufio.Scanner
	ended   <-chan answered // the answer to Start
}

// userkernel is spec at that level.
func userkernel() wire.Spec {
	s := spec()
	s.Level = wire.LevelUserkernel
	return s
}

// sandbox opens a cell, whose sentry stays.
func (c *client) sandbox(t testing.TB, s wire.Spec) *sandbox {
	t.Helper()
	x := c.booting(t, s)
	if x.pid == 0 {
		t.Fatal("there is no sentry")
	}
	return x
}

// booting opens a cell, whose sentry may have ended: its pid is 0 then.
func (c *client) booting(t testing.TB, s wire.Spec) *sandbox {
	t.Helper()
	a := c.call(t, &wire.Open{Spec: s})
	o, ok := a.body.(*wire.Opened)
	if !ok || len(a.fds) != 1 || o.Enforced == [32]byte{} {
		t.Fatalf("open: %+v with %d descriptors", a.body, len(a.fds))
	}
	f := os.NewFile(uintptr(a.fds[0]), "channel")
	a.fds[0] = -1
	conn, err := net.FileConn(f)
	must(t, err, f.Close(), conn.SetDeadline(time.Now().Add(3*patience)))
	t.Cleanup(func() { conn.Close() })
	x := &sandbox{slot: o.Slot, channel: conn, lines: bufio.NewScanner(conn)}
	x.lines.Buffer(nil, 1<<20)
	for _, pid := range members(c.parent) {
		if procField(pid, "PPid") == itoa(c.pid) {
			x.pid = pid
		}
	}
	return x
}

// start begins the clocks.
func (x *sandbox) start(c *client) { x.ended = c.ask(&wire.Start{Slot: x.slot}) }

// says has the guest do something, and returns its answer.
func (x *sandbox) says(t testing.TB, command string) string {
	t.Helper()
	fmt.Fprintln(x.channel, command)
	if !x.lines.Scan() {
		t.Fatalf("%s: the channel ended: %v", command, x.lines.Err())
	}
	return x.lines.Text()
}

// end waits for the answer to Start.
func (x *sandbox) end(t testing.TB) wire.Body {
	t.Helper()
	a, _ := await(t, "the sandbox's end", x.ended)
	return a.body
}

// TestSandbox: a cell with a kernel of its own boots, runs what it is told over
// its channel, and is gone with all that it was.
func TestSandbox(t *testing.T) {
	c := dial(t, withSandbox(t))
	if c.hello.NoRunsc != "" || !strings.HasPrefix(c.hello.Runsc, "v0.0.0-") {
		t.Fatalf("%q, %q", c.hello.Runsc, c.hello.NoRunsc)
	}
	x := c.sandbox(t, userkernel())
	got := x.says(t, "hello")
	if pid, release, _ := strings.Cut(got, " "); pid != "1" || release == c.hello.Kernel {
		t.Errorf("the guest says %q; the host's kernel is %s", got, c.hello.Kernel)
	}
	x.start(c)
	a := c.call(t, &wire.Count{Slot: x.slot})
	e, ok := a.body.(*wire.Exited)
	if !ok || e.Cause != wire.CauseNone || e.CPU < 0 || e.CPU > int64(20*time.Second) || e.MemoryPeak < 1<<20 || e.OOMKills != 0 {
		t.Errorf("counted %+v", a.body)
	}
	if got := x.says(t, "read /etc/hostname"); got != "cell|" {
		t.Errorf("after the count the guest says %q", got)
	}
	c.refused(t, wire.KindState, &wire.Count{Slot: x.slot})
	c.refused(t, wire.KindState, &wire.Get{Slot: x.slot, Name: "a"})
	c.refused(t, wire.KindState, &wire.List{Slot: x.slot})
	pids := members(c.parent)
	c.close(t, x.slot)
	dead(t, patience, pids)
	if x.lines.Scan() {
		t.Error("the guest speaks on")
	}
}

// TestSandboxCeilings: what the host decides, whatever the guest says.
func TestSandboxCeilings(t *testing.T) {
	c := dial(t, withSandbox(t))
	for _, tc := range []struct {
		name   string
		adjust func(*wire.Spec)
		do     []string
		cause  wire.Cause
		alive  bool // for a moment, so that the front gets its files
	}{
		{"wall time", func(s *wire.Spec) { s.Wall = int64(300 * time.Millisecond) }, nil, wire.CauseWall, true},
		{"CPU time", func(s *wire.Spec) { s.CPUTime = int64(200 * time.Millisecond) }, []string{"burn"}, wire.CauseCPU, true},
		{"memory", func(s *wire.Spec) { s.Memory = 64 << 20 }, []string{"eat 400"}, wire.CauseMemory, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := userkernel()
			tc.adjust(&s)
			x := c.sandbox(t, s)
			x.says(t, "hello")
			began := time.Now()
			x.start(c)
			for _, line := range tc.do {
				fmt.Fprintln(x.channel, line)
			}
			if e, ok := x.end(t).(*wire.Exited); !ok || e.Cause != tc.cause {
				t.Errorf("the end is %+v", e)
			}
			if tc.alive {
				for range tc.do {
					x.lines.Scan()
				}
				fmt.Fprintln(x.channel, "hello")
				if !x.lines.Scan() && time.Since(began) < softEnd {
					t.Errorf("the channel ended after %v: %v", time.Since(began), x.lines.Err())
				}
				within(t, softEnd+patience, "the sandbox is killed", func() bool { return !alive(x.pid) })
			}
			c.close(t, x.slot)
		})
	}
}

// TestSandboxDies: what ends by itself is said to be broken, and nothing of it
// is left.
func TestSandboxDies(t *testing.T) {
	c := dial(t, withSandbox(t))
	for name, strike := range map[string]func(x *sandbox){
		"the guest exits":      func(x *sandbox) { fmt.Fprintln(x.channel, "exit 7") },
		"the guest panics":     func(x *sandbox) { fmt.Fprintln(x.channel, "panic") },
		"the sentry is killed": func(x *sandbox) { kill(t, x.pid) },
		"the guest's process is": func(x *sandbox) {
			s := stubs(t, x.pid)
			kill(t, s[len(s)-1])
			fmt.Fprintln(x.channel, "hello") // a kernel notices when it has something for it to do
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := c.sandbox(t, userkernel())
			x.says(t, "hello")
			x.start(c)
			strike(x)
			if f, ok := x.end(t).(*wire.Failed); !ok || f.Kind != wire.KindBroken || f.Step == "" {
				t.Errorf("the end is %+v", f)
			}
			c.close(t, x.slot)
		})
	}
}

// TestSilentSandboxMayHaveRun: only what says that it has failed before it started
// is said not to have been set up.
func TestSilentSandboxMayHaveRun(t *testing.T) {
	for report, want := range map[string]wire.Kind{
		"": wire.KindBroken, "started;": wire.KindBroken, "started;failed start: x": wire.KindBroken, "started;exit 0;": wire.KindBroken,
		"failed boot: x": wire.KindSetup,
	} {
		if f := sentryFailure(report, "words"); f.Kind != want || !strings.HasSuffix(f.Step, "words") || !strings.Contains(f.Step, report) {
			t.Errorf("%q: %+v, want kind %d", report, f, want)
		}
	}
}

// TestSandboxLosesItsFirstStub: the one that the others are made of. The sandbox
// lives on without new processes, and nothing of it is left.
func TestSandboxLosesItsFirstStub(t *testing.T) {
	c := dial(t, withSandbox(t))
	x := c.sandbox(t, userkernel())
	x.says(t, "hello")
	x.start(c)
	first := stubs(t, x.pid)[0]
	kill(t, first)
	within(t, patience, "the stub's end", func() bool { return !alive(first) })
	fmt.Fprintln(x.channel, "fork 1") // whatever becomes of it
	pids := members(c.parent)
	c.close(t, x.slot)
	dead(t, patience, pids)
}

// stubs are the children of a sentry, in the order in which they began: their
// numbers come round.
func stubs(t testing.TB, sentry int) (all []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", sentry))
	must(t, err)
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // a thread that has ended
		}
		must(t, err)
		for _, word := range strings.Fields(string(text)) {
			all = append(all, number(word))
		}
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(beginning(a)-beginning(b), a-b) })
	if len(all) == 0 {
		t.Fatal("the sentry has no stubs")
	}
	return all
}

// beginning is when a process began, in hundredths of a second.
func beginning(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may be gone
	_, rest, _ := strings.Cut(string(text), ") ")
	if f := strings.Fields(rest); len(f) > 19 {
		return number(f[19])
	}
	return 0
}

// TestSandboxBootFails: what does not come to life is said with its own words.
func TestSandboxBootFails(t *testing.T) {
	for name, tc := range map[string]struct {
		setting, want string
	}{
		"the root is no image":    {"runsc.root = /etc/passwd", "failed"},
		"the guest is no program": {"runsc.guest = /etc/passwd", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := withSandbox(t)
			key, _, _ := strings.Cut(tc.setting, " ")
			text, err := os.ReadFile(p.conf)
			must(t, err)
			var lines []string
			for _, line := range strings.Split(string(text), "\n") {
				if !strings.HasPrefix(line, key) {
					lines = append(lines, line)
				}
			}
			must(t, os.WriteFile(p.conf, []byte(strings.Join(append(lines, tc.setting), "\n")+"\n"), 0o600))
			c := dial(t, p)
			x := c.booting(t, userkernel())
			within(t, patience, "the sentry's end", func() bool { return x.pid == 0 || !alive(x.pid) })
			x.start(c)
			f, ok := x.end(t).(*wire.Failed)
			if !ok || f.Kind != wire.KindSetup || !strings.Contains(f.Step, tc.want) {
				t.Errorf("the end is %+v", f)
			}
			c.close(t, x.slot)
		})
	}
}

// TestAnotherRunscIsRefused: one that is not of the version that is wanted makes
// no cell, and the hello says so.
func TestAnotherRunscIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode), os.Chmod(filepath.Join(dir, name), mode))
		return filepath.Join(dir, name)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"not there":               {filepath.Join(dir, "none"), "no such file"},
		"without a stamp":         {write("bare", "#!/bin/sh\n", 0o755), "no stamp"},
		"of another version":      {write("other", "text\x00callcell-runsc: v1\n", 0o755), `it is "v1"`},
		"that only root can read": {write("closed", "text\x00callcell-runsc: v2\n", 0o711), "every user must be able to read"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "runsc.path = "+tc.path, "runsc.version = v2")
			c := dial(t, p)
			if c.hello.Runsc != "" || !strings.Contains(c.hello.NoRunsc, tc.want) {
				t.Errorf("%q, %q", c.hello.Runsc, c.hello.NoRunsc)
			}
			c.refused(t, wire.KindSetup, &wire.Open{Spec: userkernel()})
			if left := members(c.parent); len(left) > 0 {
				t.Errorf("processes %v", left)
			}
		})
	}

}

// TestSentryPlan pins the list that makes a sentry, and what it is told.
func TestSentryPlan(t *testing.T) {
	s := userkernel()
	s.Ports, s.Added = []uint16{443}, strings.Repeat("a", 64)
	s.Addrs = [][16]byte{{10: 0xff, 11: 0xff, 12: 10, 13: 1, 14: 2, 15: 3}, {0: 0x20, 1: 1, 15: 1}}
	p := &sentryPlan{join: make([]int, 4), args: sentryFlags(&s, false), pids: 96, lastCap: 40}
	pinned(t, "sentry.golden", p.compile())
	ordered(t, p.compile(), "enter the cell's group", "die with the launcher", [][3]string{
		{"enter the cell's group", "unshare cgroup namespace", "the sentry would see our group"},
		{"enter the cell's group", "set uid", "root alone writes there"},
		{"enter network namespace", "set uid", "root alone enters it"},
		{"close all others", "grow the table", "it would be closed"},
		{"mount proc over the texts", "open proc", "it is what is opened"},
		{"open proc", "unmount proc", "no path leads there any more"},
		{"unmount proc", "unshare user namespace", "unmounting takes root"},
		{"set uid", "unshare user namespace", "the maps are of the cell's uid"},
		{"unshare user namespace", "drop capability 40 from the bounding set", "it is full again after the unshare"},
		{"set uid inside", "die with the launcher", "a change of credentials clears it"},
		{"no new privileges", "exec callcell-runsc", "it refuses to run without"},
	})
	want := "runsc cell -spec-fd=3 -status-fd=4 -stdio-fds=7,8,9 -pass-fd=6:3 -exec-fd=10 -memory=67108864 " +
		"-io-fds=5,11 -mount-confs=erofs:none,erofs:none -loopback=198.18.0.1/15,10.1.2.3/32,2001::1/128"
	if got := strings.Join(p.args, " "); got != want {
		t.Errorf("it is told\n%s\nnot\n%s", got, want)
	}
	want = strings.Replace(want, "-loopback=198.18.0.1/15,10.1.2.3/32,2001::1/128", "-network=host", 1)
	if got := strings.Join(sentryFlags(&s, true), " "); got != want {
		t.Errorf("with the host's network it is told\n%s\nnot\n%s", got, want)
	}
}

// TestSandboxTailIsBounded: a guest that says that the program has ended, and
// goes on, is ended for what it uses.
func TestSandboxTailIsBounded(t *testing.T) {
	c := dial(t, withSandbox(t))
	s := userkernel()
	s.CPUTime = int64(200 * time.Millisecond)
	x := c.sandbox(t, s)
	x.says(t, "hello")
	x.start(c)
	if e, ok := c.call(t, &wire.Count{Slot: x.slot}).body.(*wire.Exited); !ok || e.Cause != wire.CauseNone {
		t.Fatalf("%+v", e)
	}
	fmt.Fprintln(x.channel, "burn")
	within(t, 4*tailCPU+patience, "the sandbox is killed", func() bool { return !alive(x.pid) })
	c.close(t, x.slot)
}
