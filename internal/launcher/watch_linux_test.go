package launcher

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// endsBy runs a command in a cell until a ceiling ends it.
func endsBy(t *testing.T, c *client, s wire.Spec, cause wire.Cause, argv ...string) *wire.Exited {
	t.Helper()
	slot := c.open(t, s)
	e := c.start(t, slot, argv...).exit(t)
	if e.Cause != cause {
		t.Errorf("%v ended by cause %d, want %d: %+v", argv, e.Cause, cause, e)
	}
	c.close(t, slot)
	return e
}

func TestWallTime(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Wall = int64(200 * time.Millisecond)
	e := endsBy(t, c, s, wire.CauseWall, "sleep", "1000")
	if e.Wall < s.Wall || e.Wall > s.Wall+int64(20*time.Second) || e.Known && !syscall.WaitStatus(e.Status).Signaled() {
		t.Errorf("%+v", e)
	}
	endsBy(t, c, s, wire.CauseWall, "./cling")
	s.Wall = int64(patience) // one that ends before is not ended, however slow the machine
	if e := endsBy(t, c, s, wire.CauseNone, "true"); !e.Known || e.Status != 0 {
		t.Errorf("%+v", e)
	}
}

// TestCPUTime: it is that of all processes together, and of what they did
// before they ended.
func TestCPUTime(t *testing.T) {
	c := dial(t, newPlace(t))
	for name, v := range map[string]struct {
		cpu    int64
		script string
	}{
		"one process":         {2000, "while :; do :; done"},
		"several":             {2000, "(while :; do :; done) & (while :; do :; done) & wait"},
		"one after another":   {2000, "while :; do (i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done); done"},
		"a fraction of a CPU": {300, "while :; do :; done"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.CPUTime, s.CPU = int64(300*time.Millisecond), v.cpu
			e := endsBy(t, c, s, wire.CauseCPU, "sh", "-c", v.script)
			if e.CPU < s.CPUTime || e.CPU > s.CPUTime+int64(20*time.Second) {
				t.Errorf("%v of CPU time, want %v and little more", time.Duration(e.CPU), time.Duration(s.CPUTime))
			}
		})
	}
	s := spec()
	s.CPUTime = int64(time.Second) // much more than it takes to start a program
	if os.Getenv("CALLCELL_TEST_SLOW") != "" {
		s.CPUTime *= 2
	}
	if e := endsBy(t, c, s, wire.CauseNone, "sleep", "2.5"); !e.Known || e.Status != 0 {
		t.Errorf("a program that waits: %+v", e)
	}
}

func TestCPUWait(t *testing.T) {
	for _, v := range []struct {
		cpu, limit int64
		used, want time.Duration
	}{
		{1000, int64(20 * time.Second), 0, 20*time.Second - cpuPeriod},
		{500, int64(10 * time.Second), 5 * time.Second, 10*time.Second - cpuPeriod},
		{1000, int64(time.Second), 990 * time.Millisecond, leastCPUWait},
		{1000, int64(time.Second), 2 * time.Second, leastCPUWait},
		{10, 1 << 62, 0, mostCPUWait - cpuPeriod},
		{10, 1, 0, leastCPUWait},
	} {
		c := &cell{spec: wire.Spec{CPU: v.cpu, CPUTime: v.limit}}
		if got := c.cpuWait(v.used); got != v.want {
			t.Errorf("cpu %d, %v of %v used: %v, want %v", v.cpu, v.used, time.Duration(v.limit), got, v.want)
		}
	}
}

func TestMemory(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Memory = 16 << 20
	for name, argv := range map[string][]string{
		"the program itself":       {"tail", "/dev/zero"},
		"a child of it":            {"sh", "-c", "tail /dev/zero & sleep 1000"},
		"its files":                {"sh", "-c", "cat /dev/zero > file"},
		"what a child left":        {"sh", "-c", "(cat /dev/zero > file & :); sleep 1000"},
		"a child that it outlives": {"sh", "-c", "tail /dev/zero; sleep 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Scratch, s.FileSize = 64<<20, 64<<20
			e := endsBy(t, c, s, wire.CauseMemory, argv...)
			if e.MemoryPeak < s.Memory/2 || e.MemoryPeak > s.Memory*3/2 { // the kernel may overstep by a little
				t.Errorf("peak %d of %d", e.MemoryPeak, s.Memory)
			}
		})
	}
}

func TestGrace(t *testing.T) {
	c := dial(t, newPlace(t))
	polite := `trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`
	s := spec()
	s.StopGrace = int64(patience)

	slot := c.open(t, s)
	p := c.start(t, slot, "sh", "-c", polite)
	p.says(t, "ready")
	c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseCancel})
	if e := p.exit(t); !e.Known || syscall.WaitStatus(e.Status).ExitStatus() != 7 || e.Cause != wire.CauseCancel || e.Wall > s.StopGrace {
		t.Errorf("a program that ends when asked: %+v", e)
	}
	c.close(t, slot)

	s.StopGrace = int64(300 * time.Millisecond)
	for name, causes := range map[string][]wire.Cause{
		"cancelled":       {wire.CauseCancel},
		"again and again": {wire.CauseCancel, wire.CauseCancel, wire.CauseWall, wire.CauseCancel}, // no second grace, and no less of the first
	} {
		slot := c.open(t, s)
		p := c.start(t, slot, "./cling")
		p.says(t, "ready")
		began := time.Now()
		for _, cause := range causes {
			c.call(t, &wire.Kill{Slot: slot, Cause: cause})
		}
		e := p.exit(t)
		if took := time.Since(began); e.Cause != wire.CauseCancel || took < time.Duration(s.StopGrace) || took > time.Duration(s.StopGrace)+20*time.Second {
			t.Errorf("%s: %+v after %v", name, e, took)
		}
		c.close(t, slot)
	}

	s.StopGrace = int64(time.Hour)
	for name, hasten := range map[string]wire.Body{
		"output": &wire.Kill{Cause: wire.CauseOutput}, "no cause": &wire.Kill{}, "stop": &wire.Stop{}, "close": &wire.Close{},
	} {
		slot := c.open(t, s)
		p := c.start(t, slot, "./cling")
		p.says(t, "ready")
		c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseWall})
		switch b := hasten.(type) {
		case *wire.Kill:
			b.Slot = slot
		case *wire.Stop:
			b.Slot = slot
		case *wire.Close:
			b.Slot = slot
		}
		c.call(t, hasten)
		if e := p.exit(t); e.Cause != wire.CauseWall { // the first stands
			t.Errorf("%s within the grace: %+v", name, e)
		}
		if _, closed := hasten.(*wire.Close); !closed {
			c.close(t, slot)
		}
	}
}

// TestParentsAreAskedFirst: a program that waits for its children is asked to end
// before they are, and not told of their death.
func TestParentsAreAskedFirst(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.StopGrace, s.Pids = int64(patience), 128
	for range 10 {
		slot := c.open(t, s)
		p := c.start(t, slot, "./brood")
		p.says(t, "ready")
		c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseCancel})
		if e := p.exit(t); !e.Known || syscall.WaitStatus(e.Status).ExitStatus() != 7 {
			t.Fatalf("%+v", e)
		}
		c.close(t, slot)
	}
}

// TestKillMeetsTheStart: a front that gives up at once is heard, whichever of
// its two requests is worked on first.
func TestKillMeetsTheStart(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.StopGrace = int64(time.Hour) // for a program that runs; this one does not yet
	slot := c.open(t, s)
	c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseOutput})
	c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseCancel})
	if e := c.start(t, slot, "./cling").exit(t); e.Cause != wire.CauseOutput {
		t.Errorf("%+v", e)
	}
	c.close(t, slot)
	for range 50 {
		slot := c.open(t, spec())
		p := c.start(t, slot, "sleep", "1000")
		c.ask(&wire.Kill{Slot: slot, Cause: wire.CauseCancel})
		if e := p.exit(t); e.Cause != wire.CauseCancel {
			t.Fatalf("%+v", e)
		}
		c.close(t, slot)
	}
}

// TestKillsLeaveNothing: a front may ask for an end as often as it likes.
func TestKillsLeaveNothing(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.StopGrace = int64(time.Hour)
	slot := c.open(t, s)
	p := c.start(t, slot, "./cling")
	p.says(t, "ready")
	c.call(t, &wire.Kill{Slot: slot, Cause: wire.CauseCancel})
	const kills = 2000
	before := len(fdsOf(t, c.pid))
	var answers []<-chan answered
	for range kills {
		answers = append(answers, c.ask(&wire.Kill{Slot: slot, Cause: wire.CauseCancel}))
	}
	for _, ch := range answers {
		await(t, "an answer to Kill", ch)
	}
	if after := fdsOf(t, c.pid); len(after) > before+kills/10 { // others may come beside
		t.Errorf("%d descriptors before, and now %v", before, after)
	}
	c.close(t, slot)
	if e := p.exit(t); e.Cause != wire.CauseCancel {
		t.Errorf("%+v", e)
	}
}

// TestCloseWhileItRuns: the answer to Start comes, with what was counted.
func TestCloseWhileItRuns(t *testing.T) {
	c := dial(t, newPlace(t))
	for range 20 {
		p := c.cling(t)
		c.close(t, p.slot)
		if e := p.exit(t); e.Cause != wire.CauseCancel || e.ScratchMax != spec().Scratch || e.CPU <= 0 {
			t.Fatalf("%+v", e)
		}
	}
}
