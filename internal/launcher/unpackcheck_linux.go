package launcher

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// An unpacker that was taken over by its stream could leave a tree under the
// digest of another. So a second process, in the same jail, that has seen no
// stream and cannot change what it reads, finds out what trees the directory and
// the image are. The launcher itself reads nothing but the two digests.

// check holds what was unpacked to its listing, and counts what that took.
func (s *server) check(job *making, m *wire.Unpack, staging *images.Staging, to *wire.Unpacked) *wire.Failed {
	filter, err := seccomp.Unpack()
	if err != nil {
		return failure(wire.KindSetup, "filter of the tree's check", err)
	}
	slot, ok := s.reserve(s.most+egressSlots+unpackSlots, s.most+otherSlots)
	if !ok {
		return &wire.Failed{Kind: wire.KindCapacity, Step: "as many trees are being checked as can be"}
	}
	c := newCell(s.host, slot, wire.Spec{})
	c.alone = true
	p := &unpackPlan{jail: s.host.jail(filter), ceilings: s.host.conf.Image, request: *m, checks: true}
	said, f := c.buildCheck(p, staging)
	if f == nil {
		defer unix.Close(said)
		f = s.run(job, c)
	}
	if f == nil {
		started := time.Now()
		c.await(p.ceilings.Wall, func() bool { return false })
		f = c.checked(m, staging.Digest(), said)
		if u, err := c.group.Usage(); err == nil {
			to.CPU, to.Wall = to.CPU+int64(u.CPU), to.Wall+int64(time.Since(started))
		}
	}
	if report := s.end(c); f == nil && report != nil && !gone(report) {
		f = failure(wire.KindBroken, "remove the tree's check", errors.New(left(report)))
	}
	return f
}

// buildCheck makes what the process needs and starts it. What it says is on the
// descriptor, a page of memory.
func (c *cell) buildCheck(p *unpackPlan, staging *images.Staging) (said int, f *wire.Failed) {
	done, f := c.prepareAlone(&p.jail, c.host.conf.Image.Path, "the tree's check",
		cgroup.Limits{Memory: p.ceilings.Memory, Pids: p.ceilings.Pids, CPU: p.ceilings.CPU})
	defer done()
	if f != nil {
		return -1, f
	}
	said, err := newWords()
	if err != nil {
		return -1, failure(wire.KindSetup, "make its answer", err)
	}
	p.stdio[3] = said
	if p.staging, err = staging.Mount(true); err != nil {
		unix.Close(said)
		return -1, storeFailure("mount the staging", err)
	}
	defer unix.Close(p.staging)
	p.join = c.group.Join().Procs
	if f := c.launchAlone(p.compile(), unpackNamespaces, "start the tree's check"); f != nil {
		unix.Close(said)
		return -1, f
	}
	return said, nil
}

// checked says why a tree is not what its listing says; nil where it is.
func (c *cell) checked(m *wire.Unpack, digest string, said int) *wire.Failed {
	const step = "hold the tree to its listing"
	if !closed(c.ended) {
		return undead()
	}
	words := c.lastWords()
	c.mu.Lock()
	cause, exit := c.cause, c.exit
	c.mu.Unlock()
	switch {
	case cause == wire.CauseCancel:
		return &wire.Failed{Kind: wire.KindState, Step: "the tree was dropped"}
	case cause != wire.CauseNone:
		return failure(wire.KindTree, step, errors.New("it took longer than image.wall in launcher.conf"))
	case exit != 0:
		return failure(wire.KindTree, step, errors.New(words))
	}
	b := make([]byte, wordsSize)
	n, _ := unix.Pread(said, b, 0) // of memory that is ours: it does not fail
	line, _, _ := bytes.Cut(b[:max(n, 0)], []byte("\n"))
	if got, want := string(line), expected(m, digest); got != want {
		return failure(wire.KindTree, step, errors.New("it is "+clip(printable([]byte(got)))+", and not "+want))
	}
	return nil
}

// expected is what is said of a good tree.
func expected(m *wire.Unpack, digest string) string {
	forms := [2]string{"-", "-"}
	for i, is := range []bool{m.Dir, m.EROFS} {
		if is {
			forms[i] = digest
		}
	}
	return strings.Join(forms[:], " ")
}
