package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Usage reads the counters. They stay readable after the last process has died,
// until the group is removed. After an error it is zero.
func (g *Group) Usage() (Usage, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return Usage{}, ErrClosed
	}
	u, err := g.usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of cgroup %s: %w", g.name, err)
	}
	return u, nil
}

// usage leaves -1 where the host lacks the controller (cpuacct) or the kernel
// the file or the key.
func (g *Group) usage() (Usage, error) {
	var u Usage
	var file, text string
	for _, c := range counters(g.tree.version, &u) {
		*c.into = -1
		dir := g.dir(c.controller)
		if dir < 0 {
			continue
		}
		if c.file != file { // consecutive counters share a read
			next, err := g.tree.kernel.read(dir, c.file, smallFile)
			if c.optional && errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return Usage{}, fmt.Errorf("%s: %w", c.file, err)
			}
			file, text = c.file, next
		}
		n, err := c.parse(text)
		if err != nil {
			return Usage{}, fmt.Errorf("%s: %w", c.file, err)
		}
		*c.into = n
	}
	if noted := g.hits.Load(); noted > 0 {
		u.PidsHits = noted - 1
	}
	return u, nil
}
