package container_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/leak"
)

// pair returns both ends of a control conversation; they are closed in the end.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(p[0]), "ours"), os.NewFile(uintptr(p[1]), "theirs")
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return ours, theirs
}

// startEgress starts the probe and returns our end of its conversation.
func startEgress(t *testing.T, r *container.Runtime) (*link.Egress, *os.File) {
	t.Helper()
	ours, theirs := pair(t)
	e, err := r.StartEgress(context.Background(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if got := say(t, ours, "pid"); got != "1" {
		t.Errorf("the process says %q", got)
	}
	return e, ours
}

// say gives the probe a command and returns its answer, "" for its end.
func say(t *testing.T, control *os.File, command string) string {
	t.Helper()
	if _, err := control.WriteString(command); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, err := control.Read(b)
	if err != nil && !errors.Is(err, unix.ECONNRESET) {
		return ""
	}
	return string(b[:n])
}

// TestEgress starts the process beside cells, ends it, and starts another.
func TestEgress(t *testing.T) {
	g := newLoneGround(t)
	for range 2 {
		e, _ := startEgress(t, g.runtime)
		one(t, g.runtime, "/usr/bin/true")
		first := e.Close(context.Background())
		wholly(t, first)
		again := e.Close(context.Background())
		again.Checks[0].What = "changed"
		if third := e.Close(context.Background()); len(third.Checks) != len(first.Checks) || third.Checks[0] != first.Checks[0] {
			t.Errorf("%+v, then %+v", first, third)
		}
		awaitNone(t, "processes", g.strays)
	}
}

// TestEgressThatEndedBadly says so in its report.
func TestEgressThatEndedBadly(t *testing.T) {
	g := newLoneGround(t)
	e, control := startEgress(t, g.runtime)
	if got := say(t, control, "panic at the disco"); got != "" {
		t.Errorf("%q", got)
	}
	awaitNone(t, "processes", g.strays)
	report := e.Close(context.Background())
	wholly(t, report)
	if note := report.Checks[0].Note; !strings.Contains(note, "panic: at the disco") {
		t.Errorf("%q", note)
	}
}

// TestEgressIsRefused: why, and nothing is left.
func TestEgressIsRefused(t *testing.T) {
	g := newLoneGround(t)
	one(t, g.runtime, "/usr/bin/true")
	leak.Check(t)
	closed, theirs := pair(t)
	closed.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx     context.Context
		control *os.File
		reason  envelope.Reason
	}{
		"no conversation": {context.Background(), null, envelope.ReasonPolicy}, "a closed file": {context.Background(), closed, envelope.ReasonSetup},
		"nobody waits": {over, theirs, envelope.ReasonSetup},
	} {
		e, err := g.runtime.StartEgress(tt.ctx, tt.control)
		var refused *cell.Error
		if e != nil || !errors.As(err, &refused) || refused.Reason != tt.reason {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	one(t, g.runtime, "/usr/bin/true")
	awaitNone(t, "groups", g.cellGroups)
}

// TestEgressWhoseLauncherDies: its report is there all the same.
func TestEgressWhoseLauncherDies(t *testing.T) {
	g := newLoneGround(t)
	e, control := startEgress(t, g.runtime)
	launcher, _ := g.ours(t)
	signal(t, unix.SIGKILL, launcher)
	wholly(t, e.Close(context.Background()))
	awaitNone(t, "processes", g.strays)
	if n, _ := control.Read(make([]byte, 10)); n > 0 {
		t.Error("the process speaks on")
	}
	again, _ := startEgress(t, g.runtime) // of a launcher that is started for it
	wholly(t, again.Close(context.Background()))
}

// TestOneShotWithEgress: a launcher for one call serves a cell and an egress
// process, whichever is opened and closed first, or either alone, and then
// winds down.
func TestOneShotWithEgress(t *testing.T) {
	openCell := func(t *testing.T, r *container.Runtime) func() {
		c, err := r.Open(context.Background(), shape())
		if err != nil {
			t.Fatal(err)
		}
		return func() { wholly(t, c.Close(context.Background())) }
	}
	openEgress := func(t *testing.T, r *container.Runtime) func() {
		e, _ := startEgress(t, r)
		return func() { wholly(t, e.Close(context.Background())) }
	}
	type opener = func(*testing.T, *container.Runtime) func()
	for name, tt := range map[string]struct {
		open  []opener
		close []int
	}{
		"a cell alone":                  {[]opener{openCell}, []int{0}},
		"an egress process alone":       {[]opener{openEgress}, []int{0}},
		"egress around the cell":        {[]opener{openEgress, openCell}, []int{1, 0}},
		"egress first":                  {[]opener{openEgress, openCell}, []int{0, 1}},
		"the cell around egress":        {[]opener{openCell, openEgress}, []int{1, 0}},
		"the cell first":                {[]opener{openCell, openEgress}, []int{0, 1}},
		"refused, and then egress":      {[]opener{refusedCell, openEgress}, []int{1}},
		"egress, and then what fails":   {[]opener{openEgress, refusedCell}, []int{0}},
		"egress and two cells together": {[]opener{openCell, openEgress, openCell}, []int{0, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroundFor(t, true)
			launcher, reaper := g.ours(t)
			var closers []func()
			for _, open := range tt.open {
				closers = append(closers, open(t, g.runtime))
			}
			for i, k := range tt.close {
				for _, pid := range []int{launcher, reaper} {
					if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
						t.Fatalf("before close %d: %v", i, err)
					}
				}
				closers[k]()
			}
			awaitNone(t, "launcher and reaper", func() []string { return running(launcher, reaper) })
		})
	}
}

// refusedCell asks for more than the launcher gives.
func refusedCell(t *testing.T, r *container.Runtime) func() {
	s := shape()
	s.Envelope.Resources.Memory = 1 << 50
	if _, err := r.Open(context.Background(), s); err == nil {
		t.Error("it is opened")
	}
	return nil
}

// running are those of the processes that are there and no zombies.
func running(pids ...int) (left []string) {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			left = append(left, string(stat))
		}
	}
	return left
}
