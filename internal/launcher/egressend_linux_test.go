package launcher

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// closed destroys the egress process and returns the report's words about its
// end.
func (p *probed) closed(t *testing.T, c *client) string {
	t.Helper()
	a := c.call(t, &wire.Close{Slot: p.slot})
	r, ok := a.body.(*wire.Closed)
	if !ok || !gone(r) {
		t.Fatalf("%+v", a.body)
	}
	var what []string
	for _, k := range r.Checks {
		what = append(what, k.What)
	}
	if !slices.Equal(what, []string{"processes", "cgroup", "uid"}) {
		t.Errorf("the report looks at %q", what)
	}
	dead(t, soon, []int{p.pid})
	noGroups(t, c)
	return r.Checks[0].Note
}

// TestEgressReport: how a process ended that we did not end, and what it said
// then.
func TestEgressReport(t *testing.T) {
	c := dial(t, withProbe(t))
	for name, tt := range map[string]struct {
		commands []string // the last of which is not answered
		want     []string // in the report; none: nothing is said
	}{
		"it runs":        {nil, nil},
		"it went well":   {[]string{"say hidden", "exit 0"}, nil},
		"an exit status": {[]string{"say \x1b[31mred\u202e\n", "exit 7"}, []string{"exit status 7", "[31mred"}},
		"a panic":        {[]string{"panic of the probe"}, []string{"exit status 2", "panic: of the probe"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.egress(t)
			for i, command := range tt.commands {
				if last := i == len(tt.commands)-1; last != (p.ask(t, command) == "") {
					t.Errorf("%q is answered: %v", command, last)
				}
			}
			if len(tt.commands) > 0 {
				eventually(t, "the process is reaped", func() bool { return procField(p.pid, "State") == "" })
			}
			note := p.closed(t, c)
			if (note == "") != (tt.want == nil) || strings.ContainsFunc(note, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q", note)
			}
			for _, want := range tt.want {
				if !strings.Contains(note, want) {
					t.Errorf("%q, want %q in it", note, want)
				}
			}
		})
	}
}

// TestEgressThatTalks: nobody reads what it says, and it does not wait.
func TestEgressThatTalks(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	refused := 0
	for range 10 {
		if got := p.ask(t, "say "+strings.Repeat("x", 1500)); strings.Contains(got, "operation not permitted") {
			refused++
		} else if got != "<nil>" {
			t.Errorf("%q", got)
		}
	}
	if refused < 7 {
		t.Errorf("%d of 10 lines were refused: more than a page was kept", refused)
	}
	p.tell(t, "exit 1")
	eventually(t, "the process is reaped", func() bool { return procField(p.pid, "State") == "" })
	if note := p.closed(t, c); len(note) > 1000 || !strings.Contains(note, "xxx") {
		t.Errorf("%d bytes: %.60q", len(note), note)
	}
}

// TestEgressEndsWithItsConversation: a front that hangs up on it needs nobody.
func TestEgressEndsWithItsConversation(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	unix.Close(p.control)
	p.control = -1
	dead(t, soon, []int{p.pid})
	if note := p.closed(t, c); note != "" {
		t.Errorf("%q", note)
	}
}

// TestEgressCeilings: what is configured is what the kernel holds.
func TestEgressCeilings(t *testing.T) {
	c := dial(t, withProbe(t, "egress.memory = 96Mi", "egress.pids = 24", "egress.cpu = 1.5", "egress.openFiles = 512"))
	p := c.egress(t)
	for file, want := range map[string]string{
		"memory.limit_in_bytes": itoa(96 << 20), "memory.max": itoa(96 << 20), "pids.max": "24",
		"cpu.cfs_quota_us": "150000", "cpu.max": "150000 100000",
	} {
		for _, dir := range groupDirs(c.parent, "*") {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.TrimSpace(string(text)) != want {
				t.Errorf("%s: %s, want %s", file, text, want)
			}
		}
	}
	if limits := strings.Join(strings.Fields(contents(t, "/proc/"+itoa(p.pid)+"/limits")), " "); !strings.Contains(limits, "Max open files 512 512 files") {
		t.Error(limits)
	}
	if got := p.ask(t, "work"); got != "done" {
		t.Errorf("%q", got)
	}
	neighbour := c.start(t, c.open(t, spec()), "sh", "-c", "echo ready; read x; echo alive")
	neighbour.says(t, "ready")
	if got := p.ask(t, "eat 200"); got != "" {
		t.Errorf("it took what it may not have: %q", got)
	}
	eventually(t, "the process is reaped", func() bool { return procField(p.pid, "State") == "" })
	a := c.call(t, &wire.Close{Slot: p.slot})
	r, ok := a.body.(*wire.Closed)
	if !ok || !gone(r) || !strings.Contains(r.Checks[0].Note, "out of memory") {
		t.Errorf("%+v", a.body)
	}
	must(t, neighbour.stdin.Close())
	neighbour.says(t, "alive")
	neighbour.exit(t)
}

// TestEgressHasItsOwnSlots: it takes none from the cells, and cells take none
// from it.
func TestEgressHasItsOwnSlots(t *testing.T) {
	c := dial(t, withProbe(t, "cells = 1", "uids.count = 8"))
	first, second := c.egress(t), c.egress(t)
	a, b, err := wire.Pair()
	must(t, err)
	defer closeAll([]int{a, b})
	c.refused(t, wire.KindCapacity, &wire.Egress{}, b)
	slot := c.open(t, spec())
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	c.close(t, first.slot)
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	third := c.egress(t)
	c.close(t, slot)
	c.close(t, second.slot)
	c.close(t, third.slot)
	noGroups(t, c)
}

// TestEgressQuarantine: what is not wholly gone keeps its slot, and the other
// is there.
func TestEgressQuarantine(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	below := groupDirs(c.parent, "*")[0] + "/below" // which the launcher does not expect
	must(t, os.Mkdir(below, 0o755))
	a := c.call(t, &wire.Close{Slot: p.slot})
	if r, ok := a.body.(*wire.Closed); !ok || gone(r) {
		t.Fatalf("%+v, want a report that is not complete", a.body)
	}
	dead(t, soon, []int{p.pid})
	next := c.egress(t)
	if got := next.ask(t, "pid"); got != "1" {
		t.Errorf("%q", got)
	}
	ours, theirs, err := wire.Pair()
	must(t, err)
	defer closeAll([]int{ours, theirs})
	c.refused(t, wire.KindCapacity, &wire.Egress{}, theirs)
	must(t, os.Remove(below))
	c.close(t, next.slot)
	c.hangUp(t) // the reaper removes the rest
	noGroups(t, c)
}

// TestEgressDies whatever dies first, like a cell: with it when nobody hears
// its conversation either.
func TestEgressDies(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(t *testing.T, c *client)
		status int
		swept  bool // without a next start
	}{
		"the front hangs up":           {func(t *testing.T, c *client) { must(t, c.conn.CloseSend()) }, 0, true},
		"the front dies":               {func(t *testing.T, c *client) { must(t, c.conn.Close()) }, 0, true},
		"the launcher is killed":       {func(t *testing.T, c *client) { kill(t, c.pid) }, -1, true},
		"the reaper is killed":         {func(t *testing.T, c *client) { kill(t, int(c.hello.Reaper)) }, 1, true},
		"launcher and reaper together": {killBoth, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			where := withProbe(t)
			c := dial(t, where)
			p := c.egress(t) // our end of its conversation stays open
			c.cling(t)
			pids := members(c.parent)
			tt.end(t, c)
			dead(t, soon, pids)
			if got := p.hears(t); got != "" {
				t.Errorf("%q", got)
			}
			dead(t, patience, []int{c.pid, int(c.hello.Reaper)})
			c.ended(t, tt.status)
			if !tt.swept {
				next := dial(t, where)
				next.close(t, next.egress(t).slot)
			}
			noGroups(t, c)
		})
	}
}

func killBoth(t *testing.T, c *client) {
	must(t, unix.Kill(int(c.hello.Reaper), unix.SIGSTOP)) // or it would see the launcher's death
	kill(t, c.pid, int(c.hello.Reaper))
}

// TestEgressHammer starts and ends processes from many sides at once, among
// cells.
func TestEgressHammer(t *testing.T) {
	c, wait := serveHere(t, withProbe(t, "cells = 4", "uids.count = 16"))
	var sides sync.WaitGroup
	sides.Go(func() { hammerServer(t, c, 2, 20) })
	for range 3 {
		sides.Go(func() {
			for range 12 {
				hammerEgress(t, c)
			}
		})
	}
	sides.Wait()
	noGroups(t, c)
	c.hangUp(t)
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func hammerEgress(t *testing.T, c *client) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(ours)
	a := <-c.ask(&wire.Egress{}, theirs)
	unix.Close(theirs)
	switch b := a.body.(type) {
	case *wire.Failed:
		if b.Kind != wire.KindCapacity {
			t.Errorf("%+v", b)
		}
	case *wire.Opened:
		closing := []<-chan answered{c.ask(&wire.Close{Slot: b.Slot}), c.ask(&wire.Stop{Slot: b.Slot}), c.ask(&wire.Close{Slot: b.Slot})}
		reports := 0
		for _, ch := range closing {
			if r, ok := (<-ch).body.(*wire.Closed); ok && gone(r) {
				reports++
			}
		}
		if reports != 1 {
			t.Errorf("slot %d was destroyed %d times", b.Slot, reports)
		}
	default:
		t.Errorf("%+v", b)
	}
}
