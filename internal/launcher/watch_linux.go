package launcher

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// watch ends the program when it has met a ceiling that is not the kernel's
// to hold: wall time, and CPU time over all processes. The function it returns
// stops watching.
func (c *cell) watch() (stop func()) {
	wall := time.AfterFunc(time.Duration(c.spec.Wall), func() { c.over(wire.CauseWall) })
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { c.watchCPU(over) })
	return func() {
		wall.Stop()
		close(over)
		watching.Wait()
	}
}

// over is what follows on a ceiling of time.
func (c *cell) over(cause wire.Cause) {
	if c.sentry != nil {
		c.meet(cause)
		return
	}
	c.kill(cause)
}

// watchMemory ends the cell when it has met its ceiling of memory, where the
// kernel would kill one process only. The function it returns stops watching.
func (c *cell) watchMemory() (stop func()) {
	oom := c.oomEvents()
	if oom == nil {
		return func() {}
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		var b [8]byte
		if _, err := oom.Read(b[:]); err == nil {
			c.kill(wire.CauseMemory)
		}
	})
	return func() {
		oom.Close()
		watching.Wait()
	}
}

// watchCPU reads the group's counter, seldom while the ceiling is far.
func (c *cell) watchCPU(over <-chan struct{}) {
	next := time.NewTimer(c.cpuWait(0))
	defer next.Stop()
	for {
		select {
		case <-over:
			return
		case <-next.C:
		}
		u, err := c.group.Usage()
		if err != nil || u.CPU < 0 {
			c.kill(wire.CauseNone) // what cannot be counted does not run
			return
		}
		used := u.CPU
		if c.sentry != nil {
			used -= c.sentry.base
		}
		if used >= time.Duration(c.spec.CPUTime) {
			c.over(wire.CauseCPU)
			return
		}
		next.Reset(c.cpuWait(used))
	}
}

// Bounds of the wait between two looks at the counter. In one period a group
// may use its share ahead of time.
const (
	leastCPUWait = 10 * time.Millisecond
	mostCPUWait  = time.Minute
	cpuPeriod    = 100 * time.Millisecond
)

// cpuWait is how long the group takes at least, on all the CPUs it may have,
// to use up what is left of its time.
func (c *cell) cpuWait(used time.Duration) time.Duration {
	cpus := min(float64(c.spec.CPU)/1000, float64(runtime.NumCPU()))
	left := float64(time.Duration(c.spec.CPUTime)-used) / cpus
	wait := time.Duration(min(left, float64(mostCPUWait))) - cpuPeriod
	return max(wait, leastCPUWait)
}

// oomEvents returns what becomes readable when the group runs out of memory;
// nil where the kernel itself then kills the group as one.
func (c *cell) oomEvents() *os.File {
	fd, ok := c.group.OOM()
	if !ok {
		return nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, stdioFDs)
	if err == nil {
		err = unix.SetNonblock(own, true)
	}
	if err != nil {
		c.kill(wire.CauseNone) // what cannot be watched does not run
		return nil
	}
	return os.NewFile(uintptr(own), "oom")
}
