package launcher

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// maxReports bounds what a sentry reports.
const maxReports = 4 << 10

// softEnd is how long after a ceiling is met the sandbox is killed, where the
// front has not said by then that the program has ended. With the sandbox its files
// are lost, so that it is as long as the front waits for the guest.
const softEnd = 10 * time.Second

// attendSentry waits for the end of the sandbox.
func (c *cell) attendSentry() {
	stopWatching := c.watchMemory()
	c.reap()
	c.mu.Lock()
	c.sentry.over = time.Now()
	c.readReports()
	c.mu.Unlock()
	stopWatching()
	close(c.ended)
}

// readReports reads what the sentry has reported; it is dead. The cell's lock is
// held.
func (c *cell) readReports() {
	if c.sentry.reports < 0 {
		return
	}
	b := make([]byte, maxReports)
	_ = unix.SetNonblock(c.sentry.reports, true)
	n, _ := unix.Read(c.sentry.reports, b) // nothing is an empty report
	unix.Close(c.sentry.reports)
	c.sentry.reports = -1
	c.sentry.said = printable(bytes.ReplaceAll(b[:max(n, 0)], []byte("\n"), []byte(";")))
}

// sentryResult is the answer to Start where the sandbox has ended.
func (c *cell) sentryResult() wire.Body {
	e, f := c.sentryCount(c.sentry.over.Sub(c.given))
	if f != nil {
		return f
	}
	if e.OOMKills > 0 && e.Cause == wire.CauseNone {
		e.Cause = wire.CauseMemory
	}
	if e.Cause != wire.CauseNone {
		return e
	}
	return sentryFailure(c.sentry.said, c.said())
}

// sentryFailure is the end of a sandbox that we did not end. It was not set up only
// where its sentry has said so: the guest runs a moment before the sentry reports
// that it does, so that one that is silent may have run everything.
func sentryFailure(report, words string) *wire.Failed {
	text := "the sandbox ended by itself"
	if report != "" {
		text += ": " + report
	}
	if words != "" {
		text += ": " + words
	}
	kind := wire.KindBroken
	if strings.HasPrefix(report, "failed") {
		kind = wire.KindSetup
	}
	return failure(kind, text, nil)
}

// sentryCount counts. A program has what the group has used since it began.
func (c *cell) sentryCount(took time.Duration) (*wire.Exited, *wire.Failed) {
	u, err := c.group.Usage()
	if err != nil {
		return nil, failure(wire.KindBroken, "read the group's counters", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &wire.Exited{
		Cause: c.cause, Wall: int64(max(took, 0)), CPU: int64(max(u.CPU-c.sentry.base, 0)), MemoryPeak: u.MemoryPeak,
		PidsPeak: -1, OOMKills: max(u.OOMKills, 0), PidsHits: max(u.PidsHits, 0), ScratchUse: -1, InodesUse: -1,
	}, nil
}

// startSentry begins the clocks, and returns when a ceiling is met or the
// sandbox has ended.
func (c *cell) startSentry() wire.Body {
	u, err := c.group.Usage()
	if err != nil {
		return failure(wire.KindBroken, "read the group's counters", err)
	}
	c.mu.Lock()
	if !c.started || !c.given.IsZero() || c.closed {
		c.mu.Unlock()
		return &wire.Failed{Kind: wire.KindState, Step: "start"}
	}
	c.given, c.sentry.base = time.Now(), u.CPU
	given := c.given
	c.sentry.stop = sync.OnceFunc(c.watch())
	stop := c.sentry.stop
	close(c.sentry.begun)
	c.mu.Unlock()
	defer stop()
	select {
	case <-c.ended:
	case <-c.overdue:
	case <-c.sentry.ceiling:
		if e, f := c.sentryCount(time.Since(given)); f == nil {
			return e
		}
	}
	if !closed(c.ended) {
		return undead()
	}
	return c.sentryResult()
}

// meet ends the clocks' part of a ceiling: the front is told, and has a moment.
func (c *cell) meet(cause wire.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sentry.counted || c.cause != wire.CauseNone || !c.running() {
		return
	}
	c.cause = cause
	close(c.sentry.ceiling)
	c.sentry.hard = time.AfterFunc(softEnd+time.Duration(c.spec.StopGrace), func() { c.kill(wire.CauseNone) })
}

// startPatience is how long Count waits for a Start that it has overtaken.
const startPatience = 5 * time.Second

// What a sandbox may use when its guest has said that the program has ended:
// that is the guest's word alone. It collects files then.
const (
	tailCPU  = 5 * time.Second // beyond resources.cpuTime
	tailTick = 200 * time.Millisecond
)

// watchTail ends a sandbox that uses more, until it has ended.
func (c *cell) watchTail() {
	tick := time.NewTicker(tailTick)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-tick.C:
		}
		u, err := c.group.Usage()
		if err != nil || u.CPU < 0 || u.CPU-c.sentry.base >= time.Duration(c.spec.CPUTime)+tailCPU {
			c.kill(wire.CauseNone) // what cannot be counted does not run; one that has ended is not met
			return
		}
	}
}

// count stops the clocks and answers what was counted. From then on watchTail
// has the sandbox.
func (c *cell) count() wire.Body {
	if c.sentry == nil {
		return &wire.Failed{Kind: wire.KindState, Step: "count"}
	}
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case <-c.sentry.begun:
	case <-c.ended:
	case <-patience.C:
	}
	c.mu.Lock()
	if c.given.IsZero() || c.sentry.counted || c.reaped {
		c.mu.Unlock()
		return &wire.Failed{Kind: wire.KindState, Step: "count"}
	}
	c.sentry.counted = true
	if c.sentry.hard != nil {
		c.sentry.hard.Stop()
	}
	took, stop := time.Since(c.given), c.sentry.stop
	c.mu.Unlock()
	stop()
	go c.watchTail()
	e, f := c.sentryCount(took)
	if f != nil {
		return f
	}
	return e
}
