package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Tree is the place where groups are made: the parent, open in every hierarchy.
// It is fixed after Open, so its methods may be called concurrently, save for
// Close.
type Tree struct {
	kernel      kernel
	version     int
	hierarchies []hierarchy
}

// Version is 1 or 2.
func (t *Tree) Version() int { return t.version }

// Controllers lists the controllers that groups are made in, sorted: cpu,
// memory and pids always; cpuacct on version 1 where the host has it.
func (t *Tree) Controllers() []string {
	var all []string
	for _, h := range t.hierarchies {
		all = append(all, h.controllers...)
	}
	slices.Sort(all)
	return all
}

// Make creates a group with its limits, all of them read back. name is
// [a-z0-9-]{1,64} and not in use: ErrExists. After an error nothing that Make
// created is left.
//
// The caller owns the group: Remove, then Close.
func (t *Tree) Make(name string, limits Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	page := int64(unix.Getpagesize())
	if err := limits.validate(page); err != nil {
		return nil, err
	}
	g := newGroup(t, name)
	made := 0
	err := func() error {
		for i := range t.hierarchies {
			if err := g.create(i); err != nil {
				return err
			}
			made++
			if err := g.open(i); err != nil {
				return err
			}
		}
		for _, s := range settings(t.version, limits, page) {
			if err := apply(t.kernel, g.dir(s.controller), s); err != nil {
				return err
			}
		}
		return g.openJoin()
	}()
	if err == nil {
		return g, nil
	}
	for _, h := range t.hierarchies[:made] {
		err = errors.Join(err, t.kernel.rmdir(h.parent, name))
	}
	return nil, errors.Join(fmt.Errorf("make cgroup %s: %w", name, err), g.Close())
}

// Sweep removes the groups that dead instances left behind: everything under
// the parent for which keep answers false is killed and removed. Directories
// whose names Make would refuse are nobody's of ours and stay. It returns the
// names removed; what could not be removed is in the error, and the rest is
// done all the same.
func (t *Tree) Sweep(ctx context.Context, keep func(name string) bool) ([]string, error) {
	names, err := t.names()
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	var swept []string
	var failed []error
	for _, name := range names {
		if checkName(name) != nil || keep(name) {
			continue
		}
		if err := t.destroy(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("sweep cgroup %s: %w", name, err))
			continue
		}
		swept = append(swept, name)
	}
	return swept, errors.Join(failed...)
}

// names lists the groups under the parent, in whichever hierarchy they are.
func (t *Tree) names() ([]string, error) {
	var all []string
	for _, h := range t.hierarchies {
		names, err := subdirs(h.parent)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h, err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// destroy kills and removes a group that this Tree did not make. It may be
// there in some hierarchies only.
func (t *Tree) destroy(ctx context.Context, name string) (err error) {
	g := newGroup(t, name)
	defer func() { err = errors.Join(err, g.Close()) }()
	for i := range t.hierarchies {
		if err := g.open(i); err != nil && !gone(err) {
			return err
		}
	}
	if err := g.Kill(ctx); err != nil {
		return err
	}
	return g.Remove(ctx)
}

// Close gives the parent's descriptors back. No method of the Tree or of its
// groups may be running or called after it, nor may the descriptors lent by
// Dirs be used.
func (t *Tree) Close() error {
	var fds []int
	for i := range t.hierarchies {
		fds = append(fds, t.hierarchies[i].parent)
		t.hierarchies[i].parent = -1
	}
	return closeAll(fds...)
}

// carrier is the index of the hierarchy that carries a controller, or -1.
func (t *Tree) carrier(controller string) int {
	return slices.IndexFunc(t.hierarchies, func(h hierarchy) bool {
		return slices.Contains(h.controllers, controller)
	})
}

// closeAll closes those of the descriptors that are open: not negative.
func closeAll(fds ...int) error {
	var failed error
	for _, fd := range fds {
		if fd >= 0 {
			failed = errors.Join(failed, unix.Close(fd))
		}
	}
	return failed
}
