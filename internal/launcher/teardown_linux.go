package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// Bounds of a teardown: how long the processes may take to die after SIGKILL,
// and how long the kernel may take to let go of the group.
const (
	deathTimeout  = 8 * time.Second
	removeTimeout = 3 * time.Second
)

// hurryLocked gives the processes of a cell that was killed a last bound.
func (c *cell) hurryLocked() {
	if c.death == nil {
		c.death = time.AfterFunc(deathTimeout, func() { close(c.overdue) })
	}
}

// undead says that there is a process that SIGKILL does not end: it waits in
// the kernel for something that does not come.
func undead() *wire.Failed {
	return failure(wire.KindBroken, "end the processes", fmt.Errorf("one is alive %v after SIGKILL", deathTimeout))
}

// stop ends every process and returns when none is left.
func (c *cell) stop() *wire.Failed {
	c.mu.Lock()
	started := c.started
	c.killLocked(wire.CauseCancel)
	c.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-c.ended:
		return nil
	case <-c.overdue:
	}
	if closed(c.ended) { // at last
		return nil
	}
	return undead()
}

// stopped reports whether files may be read: no process can change them.
func (c *cell) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && (c.given.IsZero() || closed(c.ended))
}

// close destroys what there is, in reverse, and looks whether it is gone.
func (c *cell) close() *wire.Closed {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	f := c.stop()
	words := c.lastWords()
	removed := c.removeGroup()
	r := &wire.Closed{}
	check := func(what string, err error) {
		k := wire.Check{What: what, Gone: err == nil}
		if err != nil {
			k.Note = err.Error()
		}
		r.Checks = append(r.Checks, k)
	}
	check("processes", c.checkProcesses(f, removed))
	r.Checks[0].Note += words
	if !c.alone {
		check("files", errors.Join(c.closeFiles(), held(f)))
		check("network", errors.Join(c.closeNetwork(), held(f)))
	}
	check("cgroup", removed)
	if gone(r) {
		check("uid", c.release())
	} else {
		check("uid", errors.New("kept from use until the rest is gone"))
	}
	return r
}

func gone(r *wire.Closed) bool {
	return !slices.ContainsFunc(r.Checks, func(k wire.Check) bool { return !k.Gone })
}

// checkProcesses says what is left of them. The kernel removes no group that
// has a member, so that there is nobody to look for in one that was.
func (c *cell) checkProcesses(f *wire.Failed, removed error) error {
	if f != nil {
		return errors.New(f.Step)
	}
	if removed == nil {
		return nil
	}
	left, err := c.group.Procs()
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d processes are still in the group", len(left))
	}
	return err
}

// held is what processes keep that do not end.
func held(f *wire.Failed) error {
	if f == nil {
		return nil
	}
	return errors.New("held by what is left of the processes")
}

func (c *cell) closeFiles() error {
	c.closeSentry()
	if c.scratch != nil {
		c.scratch.close()
	}
	return nil
}

func (c *cell) closeNetwork() error {
	if c.netns >= 0 {
		unix.Close(c.netns)
		c.netns = -1
	}
	return nil
}

// removeGroup removes the group, once there is no process. What it counted is
// gone with it. It is idempotent.
func (c *cell) removeGroup() error {
	c.removing.Lock()
	defer c.removing.Unlock()
	if c.group == nil || c.removed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := c.group.Remove(ctx); err != nil {
		return err
	}
	c.removed = true
	return c.group.Close()
}

func (c *cell) release() error {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
	if c.words >= 0 {
		unix.Close(c.words)
		c.words = -1
	}
	if c.lease != nil {
		c.lease.end()
	}
	c.host.grounds.leave(c.ground)
	c.ground = nil
	return c.host.reaper.done(c.slot)
}
