package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killTime  = 3 * time.Second       // then Kill gives up
	roundTime = 50 * time.Millisecond // then it looks again who is left
	pinBatch  = 512                   // processes struck in one round: a descriptor each
)

// Procs lists the members in all hierarchies, sorted. Members outside our pid
// namespace are not among them.
func (g *Group) Procs() ([]int, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return nil, ErrClosed
	}
	pids, _, err := g.members()
	return pids, err
}

// members is Procs, and how many more there are that we cannot name.
func (g *Group) members() (pids []int, hidden int, err error) {
	for i, dir := range g.dirs {
		if dir < 0 {
			continue
		}
		text, err := g.tree.kernel.read(dir, "cgroup.procs", procsFile)
		if gone(err) {
			continue
		}
		var some []int
		var more int
		if err == nil {
			some, more, err = parsePids(text)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("members in %s: %w", g.tree.hierarchies[i], err)
		}
		pids, hidden = append(pids, some...), hidden+more
	}
	slices.Sort(pids)
	return slices.Compact(pids), hidden, nil
}

// Kill kills every member and returns when none is left. When some are left
// after 3 s, or when ctx is done, it is ErrNotEmpty; even then each was sent
// SIGKILL. It does not kill the process it runs in, should a thread of that be
// a member. No fork succeeds in the group after it.
func (g *Group) Kill(ctx context.Context) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := g.kill(limited); err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g.name, errors.Join(err, ctx.Err()))
	}
	return nil
}

func (g *Group) kill(ctx context.Context) error {
	if err := g.stopForks(); err != nil {
		return err
	}
	pids, _, err := g.members()
	if err != nil {
		return err
	}
	if g.tree.version == 2 && !slices.Contains(pids, os.Getpid()) {
		err := g.tree.kernel.write(g.dirs[0], "cgroup.kill", "1")
		switch {
		case err == nil:
			return g.awaitEmpty(ctx)
		case !gone(err): // the file: since 5.14
			return fmt.Errorf("cgroup.kill: %w", err)
		}
	}
	return g.killMembers(ctx)
}

// stopForks sets pids.max to 0: from then on no fork succeeds, so the list of
// members can only get shorter. Before that it notes the count of refused forks,
// since those refused from now on are not the cell's doing.
//
// The version 1 freezer would hold forks back, too, but SIGKILL does not reach
// what is frozen: were the launcher to die before it thaws, nothing could end
// the cell.
func (g *Group) stopForks() error {
	dir := g.dir("pids")
	if dir < 0 {
		return nil
	}
	if text, err := g.tree.kernel.read(dir, "pids.events", smallFile); err == nil {
		if n, err := lookup(text, "max"); err == nil {
			g.hits.CompareAndSwap(0, n+1)
		}
	}
	if err := g.tree.kernel.write(dir, "pids.max", "0"); err != nil && !gone(err) {
		return fmt.Errorf("pids.max: %w", err)
	}
	return nil
}

// awaitEmpty waits, on version 2, until the kernel has seen the last one off.
func (g *Group) awaitEmpty(ctx context.Context) error {
	events, err := open(g.dirs[0], "cgroup.events", unix.O_RDONLY)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup.events: %w", err)
	}
	defer unix.Close(events)
	for {
		text, err := readAll(events, smallFile)
		if gone(err) {
			return nil
		}
		var populated int64
		if err == nil {
			populated, err = lookup(text, "populated")
		}
		if err != nil {
			return fmt.Errorf("cgroup.events: %w", err)
		}
		if populated == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ErrNotEmpty
		}
		await(events, unix.POLLPRI, roundTime)
	}
}

// killMembers kills by signal, round by round.
func (g *Group) killMembers(ctx context.Context) error {
	for {
		pids, hidden, err := g.members()
		if err != nil {
			return err
		}
		if len(pids)+hidden == 0 {
			return nil
		}
		reached, err := g.strike(pids)
		if ctx.Err() != nil {
			return errors.Join(ErrNotEmpty, err)
		}
		if !reached {
			wait(ctx, time.Millisecond)
		}
	}
}

// strike sends SIGKILL to members and gives them a moment to die. A number may
// have passed to a stranger since it was read, so each process is pinned first,
// and struck only if its number is a member's even then. It tells whether there
// was anyone to wait for.
func (g *Group) strike(pids []int) (reached bool, err error) {
	pinned, err := pin(pids)
	defer func() {
		for _, fd := range pinned {
			_ = unix.Close(fd)
		}
	}()
	still, _, again := g.members()
	if again != nil {
		return false, again
	}
	var struck []int
	for pid, fd := range pinned {
		if !slices.Contains(still, pid) {
			continue
		}
		struck = append(struck, fd)
		sent := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		if sent != nil && !errors.Is(sent, unix.ESRCH) {
			err = fmt.Errorf("kill process %d: %w", pid, sent)
		}
	}
	end := time.Now().Add(roundTime)
	for _, fd := range struck {
		await(fd, unix.POLLIN, time.Until(end))
	}
	return len(struck) > 0, err
}

// pin opens processes, our own aside, so that their numbers cannot change
// hands. It returns those it has along with the last error.
func pin(pids []int) (pinned map[int]int, last error) {
	pinned = make(map[int]int)
	for _, pid := range pids {
		if pid == os.Getpid() || len(pinned) == pinBatch {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			pinned[pid] = fd
		case !errors.Is(err, unix.ESRCH):
			last = fmt.Errorf("open process %d: %w", pid, err)
		}
	}
	return pinned, last
}

// await waits until a descriptor has the event, for a limited time. That it
// ended is no proof of anything: the caller looks again.
func await(fd int, event int16, limit time.Duration) {
	ms := max(0, int(limit.Milliseconds()))
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: event}}, ms)
}
