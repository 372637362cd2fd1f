package launcher

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// The egress process makes connections for the cells that may have any. It has
// a slot, a uid and a group as a cell has, ends by what ends a cell, and is
// built by a list of its own: unlike a cell it is in the host's network, and it
// sees no file at all.

// Slots beyond those of cells: one egress process, and one that is being ended,
// or could not be removed; and two unpackers, and as many checks of their work.
const (
	egressSlots = 2
	unpackSlots = 2
	otherSlots  = egressSlots + 2*unpackSlots
)

// startEgress answers Egress. fds is the control conversation; it is closed by
// the caller.
func (s *server) startEgress(fds []int) wire.Body {
	if err := checkControl(fds); err != nil {
		return failure(wire.KindSpec, err.Error(), nil)
	}
	filter, err := seccomp.Egress()
	if err != nil {
		return failure(wire.KindSetup, "filter of the egress process", err)
	}
	slot, ok := s.reserve(s.most, s.most+egressSlots)
	if !ok {
		return &wire.Failed{Kind: wire.KindCapacity, Step: "the egress processes there may be are there"}
	}
	c := newCell(s.host, slot, wire.Spec{})
	c.alone = true
	p := &egressPlan{jail: s.host.jail(filter), ceilings: s.host.egressLimits()}
	f := c.buildEgress(p, fds[0])
	if f == nil {
		s.work.Go(func() {
			defer close(c.ended)
			c.reap()
		})
	}
	if f == nil && !s.register(c) {
		f = &wire.Failed{Kind: wire.KindState, Step: "the launcher is going down"}
	}
	if f != nil {
		s.destroy(c)
		return f
	}
	return &wire.Opened{Slot: c.number, Enforced: p.digest()}
}

// checkControl: what the process gets of the front is one end of a
// conversation, and nothing else that a front may hold.
func checkControl(fds []int) error {
	if len(fds) != 1 {
		return fmt.Errorf("%d descriptors, not 1", len(fds))
	}
	domain, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_TYPE)
	listens, err3 := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if errors.Join(err, err2, err3) != nil || domain != unix.AF_UNIX || kind != unix.SOCK_SEQPACKET || listens != 0 {
		return errors.New("the descriptor is not an end of a conversation")
	}
	return nil
}

// egressLimits are the configured ones, as far as this host goes.
func (h *host) egressLimits() conf.Egress {
	limits := h.conf.Egress
	limits.OpenFiles = min(limits.OpenFiles, hardNoFile())
	return limits
}

// jail is what processes of ours have of this host.
func (h *host) jail(filter []unix.SockFilter) jail {
	return jail{filter: filter, landlock: h.landlock, lastCap: h.lastCap}
}

// beside is where a binary is: a path, or a name beside us.
func (h *host) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.helpers, name)
}

// buildEgress makes what the process needs and starts it. What is there after
// a failure is close's to remove.
func (c *cell) buildEgress(p *egressPlan, control int) *wire.Failed {
	done, f := c.prepareAlone(&p.jail, c.host.conf.Egress.Path, "the egress process",
		cgroup.Limits{Memory: p.ceilings.Memory, Pids: p.ceilings.Pids, CPU: p.ceilings.CPU})
	defer done()
	if f != nil {
		return f
	}
	p.stdio[3] = control
	return c.launchEgress(p)
}

// prepareAlone makes what every process of ours has: a uid, a group, its binary,
// null devices and a page for its words. What is open for its start only is
// closed by done.
func (c *cell) prepareAlone(j *jail, path, what string, limits cgroup.Limits) (done func(), f *wire.Failed) {
	var open []int
	done = func() { closeAll(open) }
	name := filepath.Base(path)
	binary, err := unix.Open(c.host.beside(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return done, failure(wire.KindSetup, fmt.Sprintf("open the binary of %s (make build puts %s beside callcell-launcher; launcher.conf may name another)", what, name), err)
	}
	open = append(open, binary)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return done, failure(wire.KindSetup, "open the null device", err)
	}
	open = append(open, null)
	if c.words, err = newWords(); err != nil {
		return done, failure(wire.KindSetup, "make its stderr", err)
	}
	if f := c.admit(limits); f != nil {
		return done, f
	}
	j.id, j.stdio = c.lease.id, [5]int{null, null, c.words, null, binary}
	return done, nil
}

// launchEgress clones the process and tells the reaper.
func (c *cell) launchEgress(p *egressPlan) *wire.Failed {
	p.join = c.group.Join().Procs
	return c.launchAlone(p.compile(), newNamespaces, "start the egress process")
}

// launchAlone clones a process of ours and tells the reaper. It releases the
// list.
func (c *cell) launchAlone(list *vfork.Program, namespaces uint64, step string) *wire.Failed {
	defer list.Release()
	c.host.building.Lock()
	defer c.host.building.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.host.slice.thread.do(func() (err error) {
		c.pid, c.pidfd, err = list.Start(namespaces, c.group.Join().Into)
		return err
	})
	if err != nil {
		return failure(wire.KindSetup, step, err)
	}
	c.started = true
	if err := c.host.reaper.started(c.slot, c.pidfd); err != nil {
		c.killLocked(wire.CauseNone) // the host is going down with its reaper
	}
	return nil
}

// newWords makes the process's stderr: a page that is ours already, so that it
// is charged to us, that cannot grow, and that cannot be executed. Whoever
// writes beyond it is told so and never waits.
func newWords() (int, error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if _, err = unix.Pwrite(fd, make([]byte, wordsSize), 0); err == nil {
		err = unix.Fchmod(fd, 0o600)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lastWords says how a process ended that was not ended by us, and what it said
// then; "" where there is nothing to say. What it said is a stranger's, and
// made of printable characters alone.
func (c *cell) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alone || !c.reaped || c.exit.Exited() && c.exit.ExitStatus() == 0 {
		return ""
	}
	u, err := c.group.Usage()
	hungry := err == nil && u.OOMKills > 0
	text := fmt.Sprintf("it had ended by itself, exit status %d", c.exit.ExitStatus())
	switch {
	case c.exit.Signaled() && hungry:
		text = "it had ended out of memory"
	case c.exit.Signaled() && c.killed && c.exit.Signal() == unix.SIGKILL:
		return ""
	case c.exit.Signaled():
		text = fmt.Sprintf("it had ended by itself, signal %d", c.exit.Signal())
	}
	if said := c.said(); said != "" {
		text += ": " + said
	}
	return clip(text)
}

// said is what a process wrote on its stderr; "" is nothing.
func (c *cell) said() string {
	if c.words < 0 {
		return ""
	}
	b := make([]byte, wordsSize)
	n, _ := unix.Pread(c.words, b, 0) // of memory that is ours: it does not fail
	said, _, _ := bytes.Cut(b[:max(n, 0)], []byte{0})
	return printable(said)
}

// printable replaces what is no printable ASCII by spaces.
func printable(b []byte) string {
	return strings.TrimSpace(string(bytes.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, b)))
}

// digest covers what bounds the process: its limits, the names of its list, and
// its filter.
func (p *egressPlan) digest() [32]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %d %d %d\n", p.ceilings.Memory, p.ceilings.Pids, p.ceilings.CPU, p.ceilings.OpenFiles)
	filter := seccomp.Digest(p.filter)
	sum.Write(filter[:])
	list := p.compile()
	defer list.Release()
	for _, l := range list.Lines() {
		fmt.Fprintf(sum, "%q\n", l.Name)
	}
	return [32]byte(sum.Sum(nil))
}
