package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one cell's group. Its methods may be called concurrently.
type Group struct {
	tree *Tree
	name string
	// hits is 1 + the forks refused by the limit before Kill, or 0: not killed.
	hits atomic.Int64

	mu     sync.RWMutex // held shared while descriptors are in use
	closed bool
	dirs   []int // guarded by mu; per hierarchy, -1: not there
	procs  []int // guarded by mu; version 1: tasks for writing
	oom    int   // guarded by mu; version 1: eventfd, else -1
}

func newGroup(t *Tree, name string) *Group {
	return &Group{
		tree: t, name: name, oom: -1,
		dirs: slices.Repeat([]int{-1}, len(t.hierarchies)),
	}
}

func (g *Group) create(i int) error {
	h := g.tree.hierarchies[i]
	err := g.tree.kernel.mkdir(h.parent, g.name)
	if errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err != nil {
		return fmt.Errorf("in %s: %w", h, err)
	}
	return nil
}

func (g *Group) open(i int) (err error) {
	h := g.tree.hierarchies[i]
	if g.dirs[i], err = openDir(h.parent, g.name); err != nil {
		g.dirs[i] = -1
		return fmt.Errorf("open in %s: %w", h, err)
	}
	return nil
}

// dir is the group's directory in the hierarchy that carries a controller.
func (g *Group) dir(controller string) int {
	if i := g.tree.carrier(controller); i >= 0 {
		return g.dirs[i]
	}
	return -1
}

// openJoin opens what a child needs to enter and, on version 1, the event that
// stands in for memory.oom.group.
//
// A child enters as its only thread, by the file tasks: it is then a matter of
// that thread alone. By cgroup.procs the kernel would stop every fork and exit
// on the machine, for which it may wait a grace period of 10 to 20 ms.
func (g *Group) openJoin() error {
	if g.tree.version == 2 {
		return nil
	}
	for i, dir := range g.dirs {
		fd, err := open(dir, "tasks", unix.O_WRONLY)
		if err != nil {
			return fmt.Errorf("open tasks in %s: %w", g.tree.hierarchies[i], err)
		}
		g.procs = append(g.procs, fd)
	}
	return g.watchOOM()
}

func (g *Group) watchOOM() (err error) {
	dir := g.dir("memory")
	if g.oom, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		g.oom = -1
		return fmt.Errorf("eventfd: %w", err)
	}
	source, err := open(dir, "memory.oom_control", unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open memory.oom_control: %w", err)
	}
	defer unix.Close(source) // the kernel has noted the group by then
	order := strconv.Itoa(g.oom) + " " + strconv.Itoa(source)
	if err := g.tree.kernel.write(dir, "cgroup.event_control", order); err != nil {
		return &SettingError{File: "cgroup.event_control", Want: order, Err: err}
	}
	return nil
}

// Name is the name given to Make.
func (g *Group) Name() string { return g.name }

// Join tells how a child enters. One of the two is set.
type Join struct {
	// Into is a directory descriptor for clone3 with CLONE_INTO_CGROUP:
	// version 2. Otherwise -1.
	Into int
	// Procs are descriptors into each of which the child itself writes "0"
	// while it has one thread, before it allocates or starts anything:
	// version 1.
	Procs []int
}

// Join tells how a child enters. The descriptors belong to the Group and are
// valid until Close.
func (g *Group) Join() Join {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.tree.version == 2 {
		return Join{Into: g.dirs[0]}
	}
	return Join{Into: -1, Procs: slices.Clone(g.procs)}
}

// OOM returns, on version 1, an eventfd that becomes readable when the group
// runs out of memory: the kernel then kills one process, and the launcher is to
// kill the rest. It becomes readable when the group is removed, too, so that a
// waiter always wakes: OOMKills tells which it was. On version 2 the kernel
// kills the group as one, and ok is false.
//
// The descriptor belongs to the Group and is valid until Close.
func (g *Group) OOM() (fd int, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.oom, g.oom >= 0
}

// Dir is one directory of a group as another process can remove it:
// unlinkat(ParentFD, Name, AT_REMOVEDIR).
type Dir struct {
	ParentFD int
	Name     string
}

// Dirs lists the group's directories, one a hierarchy. The descriptors belong
// to the Tree.
func (g *Group) Dirs() []Dir {
	var dirs []Dir
	for _, h := range g.tree.hierarchies {
		dirs = append(dirs, Dir{ParentFD: h.parent, Name: g.name})
	}
	return dirs
}

// Removing takes a moment after the last process died: some 1.5 s of tries.
const (
	removeTries = 36
	maxPause    = 50 * time.Millisecond
)

// Remove removes the group in every hierarchy. It is tried at least once, even
// when ctx is done, and again for about 1.5 s as long as the kernel answers
// EBUSY and ctx is not done. What stays is named by a *RemainsError. A group
// that is gone already is no error: Remove may be called again, and a reaper
// may have been faster.
func (g *Group) Remove(ctx context.Context) error {
	left := g.tree.hierarchies
	pause := time.Millisecond
	for try := 1; ; try++ {
		var again bool
		var err error
		left, again, err = g.rmdir(left)
		if len(left) == 0 {
			return nil
		}
		if !again || try == removeTries || !wait(ctx, pause) {
			remains := &RemainsError{Name: g.name, Err: err}
			for _, h := range left {
				remains.Where = append(remains.Where, h.String())
			}
			return remains
		}
		pause = min(2*pause, maxPause)
	}
}

// rmdir tries each hierarchy once. It returns those in which the group remains,
// whether another try may help, and the last error.
func (g *Group) rmdir(from []hierarchy) (left []hierarchy, again bool, last error) {
	for _, h := range from {
		err := g.tree.kernel.rmdir(h.parent, g.name)
		if err == nil || gone(err) {
			continue
		}
		left, last = append(left, h), err
		again = again || errors.Is(err, unix.EBUSY)
	}
	return left, again, last
}

// wait pauses; false if ctx ended it.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close gives the group's descriptors back, and with them those lent by Join
// and OOM. It removes nothing: Remove works before and after. It waits for calls
// that are running and may be called again.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	err := errors.Join(closeAll(g.dirs...), closeAll(g.procs...), closeAll(g.oom))
	g.dirs, g.procs, g.oom = slices.Repeat([]int{-1}, len(g.dirs)), nil, -1
	return err
}
