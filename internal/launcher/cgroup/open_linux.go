package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted tree of groups, open at the parent.
type hierarchy struct {
	controllers []string // those of ours which it carries
	parent      int      // directory descriptor, owned by the Tree
}

func (h hierarchy) String() string { return strings.Join(h.controllers, ",") }

// needed lists what must be enforced, each with a file that only a kernel
// which can enforce it has.
func needed(version int) []struct{ controller, file string } {
	if version == 2 {
		return []struct{ controller, file string }{
			{"memory", "memory.max"}, {"pids", "pids.max"}, {"cpu", "cpu.max"},
		}
	}
	return []struct{ controller, file string }{
		{"memory", "memory.limit_in_bytes"}, {"pids", "pids.max"}, {"cpu", "cpu.cfs_quota_us"},
	}
}

// Open finds the cgroups under root, normally /sys/fs/cgroup, and makes the
// parent, a path relative to it, if it is not there. A root that is a version 2
// directory itself, be it the mount or a subtree delegated to us, makes version
// 2; otherwise version 1 hierarchies mounted below root are taken.
//
// On version 2 it enables cpu, memory and pids for the children of every
// directory from root to parent; only what is not enabled already is written.
//
// A controller that the host does not have is found before anything is changed.
// The parent is never removed: other instances may be using it.
func Open(root, parent string) (*Tree, error) {
	names, err := splitParent(parent)
	if err != nil {
		return nil, err
	}
	fd, err := openDir(unix.AT_FDCWD, root)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrUnavailable, root, err)
	}
	defer unix.Close(fd)
	v2, err := isType(fd, unix.CGROUP2_SUPER_MAGIC)
	if err != nil {
		return nil, fmt.Errorf("%w: statfs %s: %w", ErrUnavailable, root, err)
	}
	if v2 {
		return openV2(cgroupfs{}, fd, names)
	}
	text, err := readMountinfo()
	if err != nil {
		return nil, fmt.Errorf("%w: read mountinfo: %w", ErrUnavailable, err)
	}
	mounts, err := parseMounts(text, root, []string{"memory", "pids", "cpu", "cpuacct"})
	if err != nil {
		return nil, err
	}
	return openV1(cgroupfs{}, mounts, names, isV1)
}

// openV1 opens the parent in every hierarchy. genuine tells whether a
// descriptor is of a version 1 file system: a mount may have been covered.
func openV1(k kernel, mounts []mount, names []string, genuine func(fd int) error) (_ *Tree, err error) {
	t := &Tree{kernel: k, version: 1}
	defer func() {
		if err != nil {
			_ = t.Close()
		}
	}()
	if len(mounts) == 0 {
		return nil, ErrUnavailable
	}
	for _, n := range needed(1) {
		if !slices.ContainsFunc(mounts, func(m mount) bool { return slices.Contains(m.controllers, n.controller) }) {
			return nil, &ControllerError{Controller: n.controller}
		}
	}
	for _, m := range mounts {
		fd, err := openParent(k, m.point, names, genuine)
		if err != nil {
			err = fmt.Errorf("parent %s in %s: %w", strings.Join(names, "/"), m.point, err)
			return nil, &ControllerError{Controller: strings.Join(m.controllers, ","), Err: err}
		}
		t.hierarchies = append(t.hierarchies, hierarchy{controllers: m.controllers, parent: fd})
	}
	if err := t.probe(); err != nil {
		return nil, err
	}
	return t, nil
}

func openParent(k kernel, point string, names []string, genuine func(fd int) error) (int, error) {
	top, err := openDir(unix.AT_FDCWD, point)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	if err := genuine(top); err != nil {
		return -1, err
	}
	return descend(k, top, names, func(int) error { return nil })
}

func openV2(k kernel, root int, names []string) (_ *Tree, err error) {
	t := &Tree{kernel: k, version: 2}
	defer func() {
		if err != nil {
			_ = t.Close()
		}
	}()
	offered, err := k.read(root, "cgroup.controllers", smallFile)
	if err != nil {
		return nil, fmt.Errorf("%w: read cgroup.controllers: %w", ErrUnavailable, err)
	}
	var controllers []string
	for _, n := range needed(2) {
		if !slices.Contains(strings.Fields(offered), n.controller) {
			return nil, &ControllerError{Controller: n.controller}
		}
		controllers = append(controllers, n.controller)
	}
	share := func(dir int) error { return delegate(k, dir, controllers) }
	fd, err := descend(k, root, names, share)
	if err != nil {
		return nil, fmt.Errorf("parent %s: %w", strings.Join(names, "/"), err)
	}
	t.hierarchies = []hierarchy{{controllers: controllers, parent: fd}}
	if err := t.probe(); err != nil {
		return nil, err
	}
	return t, nil
}

// descend walks from top along names, making what is not there, and returns a
// descriptor of the last. visit is called for every directory on the way, top
// and last included.
func descend(k kernel, top int, names []string, visit func(dir int) error) (int, error) {
	at := top
	err := visit(top)
	for _, name := range names {
		if err != nil {
			break
		}
		next := -1
		if next, err = enter(k, at, name); err == nil {
			err = visit(next)
		}
		if at != top {
			_ = unix.Close(at)
		}
		at = next
	}
	if err != nil {
		if at != top {
			_ = closeAll(at)
		}
		return -1, err
	}
	return at, nil
}

// enter opens a directory and makes it first where it is not there. Another
// instance may be making it at the same time.
func enter(k kernel, dir int, name string) (int, error) {
	if err := k.mkdir(dir, name); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make %s: %w", name, err)
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// delegate lets the children of dir use the controllers.
func delegate(k kernel, dir int, controllers []string) error {
	const file = "cgroup.subtree_control"
	text, err := k.read(dir, file, smallFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	enabled := strings.Fields(text)
	for _, c := range controllers {
		if slices.Contains(enabled, c) {
			continue
		}
		err := k.write(dir, file, "+"+c)
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrOccupied, err)
		}
		if err != nil {
			return &ControllerError{Controller: c, Err: err}
		}
	}
	return nil
}

// probe makes sure that the kernel can enforce what it lists: a quota, say,
// needs more than a cpu controller.
func (t *Tree) probe() error {
	for _, n := range needed(t.version) {
		dir := t.hierarchies[t.carrier(n.controller)].parent
		if _, err := t.kernel.read(dir, n.file, smallFile); err != nil {
			return &ControllerError{Controller: n.controller, Err: fmt.Errorf("read %s: %w", n.file, err)}
		}
	}
	return nil
}

func isType(fd int, magic int64) (bool, error) {
	var s unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(fd, &s) })
	return int64(s.Type) == magic, err
}

func isV1(fd int) error {
	ok, err := isType(fd, unix.CGROUP_SUPER_MAGIC)
	if err == nil && !ok {
		err = ErrUnavailable
	}
	return err
}
