package launcher

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/lineage"
)

// reservedInodes are the scratch's root and its parts, which the call does
// not pay for.
const reservedInodes = 5

// A cell is one slot's life.
type cell struct {
	host   *host
	alone  bool   // it is a process of ours and no cell: no spec, no scratch, no namespace of the network that is kept
	slot   int    // the reaper's and ours; used again
	number uint32 // the front's; not used again
	spec   wire.Spec
	lease  *lease
	group  *cgroup.Group

	ground  *ground // what its root is; nil: it has none yet, or not any more
	scratch *scratch
	netns   int
	words   int           // of a process of ours: its stderr
	sentry  *sentry       // of a cell of LevelUserkernel alone
	ended   chan struct{} // closed when no process is left and all is counted
	answer  wire.Body     // set before: to Start, where that came
	overdue chan struct{} // closed when a process is left that should be dead

	removing sync.Mutex // serialises the removal of the group, and guards
	removed  bool       // it is

	mu      sync.Mutex // guards the following
	started bool       // the process is there: init, or the one of ours
	given   time.Time  // when init got the command
	reaped  bool       // no process is left
	closed  bool
	killed  bool               // by us, while it ran
	exit    syscall.WaitStatus // of the process, where reaped
	pid     int                // of the process, 0 before start
	pidfd   int                // of the process, -1 before start
	status  int                // our end of the conversation with init; -1 where there is none
	cause   wire.Cause
	grace   *time.Timer // between TERM and KILL; nil before TERM
	death   *time.Timer // between KILL, or init's end, and overdue; nil before
}

func newCell(h *host, slot int, spec wire.Spec) *cell {
	return &cell{host: h, slot: slot, spec: spec, netns: -1, words: -1, pidfd: -1, status: -1, ended: make(chan struct{}), overdue: make(chan struct{})}
}

// buildLocked makes the cell up to its init, which waits for the command. What
// is there after a failure is close's to remove. It is called with host.building
// held.
func (c *cell) buildLocked(m *makings) *wire.Failed {
	if c.spec.Level == wire.LevelUserkernel {
		return c.buildSentryLocked()
	}
	ground, f := c.host.groundFor(m)
	if f != nil {
		return f
	}
	c.ground = ground
	limits := cgroup.Limits{Memory: c.spec.Memory, Pids: c.spec.Pids + 1, CPU: c.spec.CPU} // init is one
	if f := c.admitLocked(limits); f != nil {
		return f
	}
	var err error
	if c.scratch, err = newScratch(c.spec.Scratch, c.spec.Inodes+reservedInodes, c.lease.id); err != nil {
		return failure(wire.KindSetup, "make the scratch", err)
	}
	if c.netns, err = c.host.netns.take(); err != nil {
		return failure(wire.KindSetup, "make the network namespace", err)
	}
	return c.launch()
}

// admit leases a uid and makes the group.
func (c *cell) admit(limits cgroup.Limits) *wire.Failed {
	c.host.building.Lock() // uids are handed out one by one
	defer c.host.building.Unlock()
	return c.admitLocked(limits)
}

func (c *cell) admitLocked(limits cgroup.Limits) *wire.Failed {
	for {
		var err error
		if c.lease, err = c.host.uids.take(); err != nil {
			kind := wire.KindSetup
			if errors.Is(err, errNoUID) {
				kind = wire.KindCapacity
			}
			return failure(kind, "lease a uid", err)
		}
		group := groupName(c.lease)
		if err = c.host.reaper.open(c.slot, group, c.lease); err != nil { // before there is anything to remove
			return failure(wire.KindBroken, "tell the reaper", err)
		}
		c.group, err = c.host.makeGroup(group, limits)
		if errors.Is(err, cgroup.ErrExists) { // there may be processes with that uid
			c.host.kept = append(c.host.kept, c.lease)
			continue
		}
		if err != nil {
			return failure(wire.KindSetup, "make the cell's group", err)
		}
		return nil
	}
}

// start hands init the command, and returns when no process of the cell is left,
// or one is that should be dead. fds are stdin, stdout, stderr and the payload;
// they are closed in any case.
func (c *cell) start(fds []int) wire.Body {
	defer closeAll(fds)
	if f := checkGiven(fds); f != nil {
		return f
	}
	if !c.give(fds) {
		return &wire.Failed{Kind: wire.KindState, Step: "start"}
	}
	stopWatching := c.watch()
	defer stopWatching()
	closeAll(fds) // or the ends of the program's streams would not be seen
	select {
	case <-c.ended:
	case <-c.overdue:
	}
	if !closed(c.ended) {
		return undead()
	}
	if c.answer == nil { // it had ended before
		return c.result(status{}, 0)
	}
	return c.answer
}

// give hands init the command, the first time. An init that is dead does not
// hear it: its end says of what.
func (c *cell) give(fds []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started || !c.given.IsZero() || c.closed {
		return false
	}
	c.given = time.Now()
	if c.status >= 0 {
		_ = sendFDs(c.status, fds)
	}
	return true
}

// attend waits for the end of init, and with it of every process of the cell.
func (c *cell) attend() {
	stopWatching := c.watchMemory()
	c.reap()
	over := time.Now()
	stopWatching()
	c.mu.Lock()
	record, given := readStatus(c.status), c.given
	unix.Close(c.status)
	c.status = -1
	c.mu.Unlock()
	if !given.IsZero() {
		c.answer = c.result(record, over.Sub(given))
	}
	close(c.ended)
}

// givenFDs are the descriptors that come with Start.
const givenFDs = 4

// checkGiven holds what a program is to be given to what a program needs:
// three streams that are pipes or the null device, and a payload that nobody
// can change any more. What else a front may hold (a directory, a device, a
// file that it serves itself and that would block whoever closes it) comes
// into no cell.
func checkGiven(fds []int) *wire.Failed {
	if len(fds) != givenFDs {
		return failure(wire.KindSpec, fmt.Sprintf("not %d descriptors", givenFDs), nil)
	}
	for i, fd := range fds[:3] {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		pipe := st.Mode&unix.S_IFMT == unix.S_IFIFO
		null := st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
		if err != nil || !pipe && !null {
			return failure(wire.KindSpec, fmt.Sprintf("descriptor %d is neither a pipe nor the null device", i), err)
		}
	}
	const sealed = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if seals, err := unix.FcntlInt(uintptr(fds[3]), unix.F_GET_SEALS, 0); err != nil || seals&sealed != sealed {
		return failure(wire.KindSpec, "the payload is not a sealed memfd", err)
	}
	return nil
}

// launch clones the cell's init and tells the reaper.
func (c *cell) launch() *wire.Failed {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure(wire.KindSetup, "conversation with init", err)
	}
	defer unix.Close(pair[1])
	join := c.group.Join()
	p := parts{id: c.lease.id, join: join.Procs, netns: c.netns, scratch: c.scratch.root, status: pair[1]}
	if c.pid, c.pidfd, err = c.ground.start(c.host, boundsOf(&c.spec), p, join.Into); err != nil {
		unix.Close(pair[0])
		return failure(wire.KindSetup, "start the cell", err)
	}
	c.started, c.status = true, pair[0]
	if err := c.host.reaper.started(c.slot, c.pidfd); err != nil {
		c.killLocked(wire.CauseNone) // the host is going down with its reaper
	}
	go c.attend()
	return nil
}

// kill ends the program for a cause; the first cause stands. Requests overtake
// each other: a kill that comes before the start ends the cell at once, and the
// start says of what. A program that has a grace is asked to end first, once,
// where there is no haste.
func (c *cell) kill(cause wire.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	patient := c.sentry == nil && !c.given.IsZero() && c.spec.StopGrace > 0 && (cause == wire.CauseWall || cause == wire.CauseCancel)
	if !patient || !c.running() {
		c.killLocked(cause)
		return
	}
	if c.cause == wire.CauseNone {
		c.cause = cause
	}
	if c.grace == nil {
		c.terminate()
		c.grace = time.AfterFunc(time.Duration(c.spec.StopGrace), func() { c.kill(wire.CauseNone) })
	}
}

func (c *cell) running() bool { return c.started && !c.reaped }

func (c *cell) killLocked(cause wire.Cause) {
	if !c.running() {
		return
	}
	if c.cause == wire.CauseNone {
		c.cause = cause
	}
	c.killed = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) == nil || c.killed // ESRCH: it is dead already
	c.hurryLocked()
}

// terminateAtOnce is how many processes of a cell are pinned at once. There may be
// thousands, and the descriptors are those of all cells.
const terminateAtOnce = 16

// terminate sends SIGTERM to every process of the cell but init, the eldest first.
func (c *cell) terminate() {
	all, err := c.group.Procs()
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(pid int) bool { return pid == c.pid })
	for some := range slices.Chunk(lineage.EldestFirst(all), terminateAtOnce) {
		c.terminateSome(some)
	}
}

// terminateSome pins each process before its membership is looked at again, so that
// a number that was used anew is never hit.
func (c *cell) terminateSome(pids []int) {
	pinned := map[int]int{}
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			pinned[pid] = fd
		}
	}
	now, _ := c.group.Procs()
	for _, pid := range pids {
		fd, there := pinned[pid]
		if !there {
			continue
		}
		if slices.Contains(now, pid) {
			unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
		}
		unix.Close(fd)
	}
}

// reap waits for init, which the kernel lets go only when every process of
// its namespace is gone.
func (c *cell) reap() {
	init := newChild(c.pid, c.pidfd)
	defer init.close() // when nobody signals it any more
	status := init.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped, c.exit, c.pidfd = true, status, -1
	for _, t := range []*time.Timer{c.grace, c.death} {
		if t != nil {
			t.Stop()
		}
	}
}

// result says how the program ended, and counts.
func (c *cell) result(s status, took time.Duration) wire.Body {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if f := s.failed(); f != nil && cause == wire.CauseNone {
		return f
	}
	e := &wire.Exited{Cause: cause, Wall: int64(max(took, 0)), Status: s.value, Known: s.stage == stageExited}
	u, err := c.group.Usage()
	if err != nil {
		return failure(wire.KindBroken, "read the group's counters", err)
	}
	e.CPU, e.MemoryPeak, e.PidsPeak = int64(u.CPU), u.MemoryPeak, u.PidsPeak
	e.OOMKills, e.PidsHits = max(u.OOMKills, 0), max(u.PidsHits, 0)
	sp := c.scratch.space()
	e.ScratchUse, e.InodesUse, e.ScratchMax, e.InodesMax = sp.bytes, sp.inodes-reservedInodes, sp.maxBytes, sp.maxInodes-reservedInodes
	killed := !e.Known || syscall.WaitStatus(e.Status).Signaled() && syscall.WaitStatus(e.Status).Signal() == syscall.SIGKILL
	if e.OOMKills > 0 && cause == wire.CauseNone && killed {
		e.Cause = wire.CauseMemory // the kernel was faster than our watch, or killed the group as one
	}
	if !e.Known && e.Cause == wire.CauseNone {
		return failure(wire.KindBroken, "init ended without a word", nil)
	}
	return e
}

func closed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func closeAll(fds []int) {
	for i, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
			fds[i] = -1
		}
	}
}
