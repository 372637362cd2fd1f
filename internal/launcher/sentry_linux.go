package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// A cell of LevelUserkernel is one process of gVisor's, the sentry, with the
// processes that it makes to run programs in (its stubs). It is built by a list
// of its own (sentryPlan), from a thread whose root is a few texts: it sees no
// file of the host but by descriptor, and those are images and our own binaries.
//
//	build    uid lease, reaper's note, group, network namespace, channel; the
//	         list runs, and the sandbox boots by itself
//	start    the clocks begin; the command goes over the channel, from front to
//	         guest, and we never see it
//	met      a ceiling of time is met: the front hears it, and ends the program by
//	         the guest, so that the files stay; a moment later we kill the sandbox
//	count    the front has heard of the program's end: the clocks stop
//	end      the sandbox's, however it came; its pipe says what it had to report

// sentries are what all cells of LevelUserkernel of this launcher share, made
// when the first one is.
type sentries struct {
	once  sync.Once
	child *thread // its root is the sentries'
	err   error
}

// thread returns the thread that sentries are cloned from.
func (h *host) sentryThread() (*thread, error) {
	s := &h.sentries
	s.once.Do(func() {
		var texts []template.Text
		if texts, s.err = template.Texts(); s.err != nil {
			return
		}
		s.child = newThread()
		s.err = s.child.do(func() error {
			if err := template.BuildSentry(h.conf.RunDir, texts); err != nil {
				return err
			}
			dropBounding()
			return nil
		})
	})
	return s.child, s.err
}

// A sentry is what a cell of LevelUserkernel has beside what any has.
type sentry struct {
	locks   []int         // of the trees in the store
	channel int           // the front's end, until it is handed over; -1 after
	reports int           // our end of the pipe; -1 once it was read
	begun   chan struct{} // closed when the clocks have begun
	ceiling chan struct{} // closed when a ceiling of time was met
	hard    *time.Timer   // guarded by the cell's lock: between ceiling and kill; nil before
	counted bool          // guarded by the cell's lock: the clocks stand
	base    time.Duration // CPU time of the boot
	over    time.Time     // of the sandbox; set before the cell's end
	said    string        // what it had reported by then
	stop    func()        // ends the watching; nil before Start
}

// buildSentryLocked makes the cell up to a sandbox that boots. It is called with
// host.building held.
func (c *cell) buildSentryLocked() *wire.Failed {
	c.sentry = &sentry{channel: -1, reports: -1, begun: make(chan struct{}), ceiling: make(chan struct{})}
	p, f := c.sentryParts()
	if p != nil {
		defer closeAll(p.fds[:])
	}
	if f != nil {
		return f
	}
	r := &c.host.conf.Runsc
	if f := c.admitLocked(cgroup.Limits{Memory: c.spec.Memory + r.Memory, Pids: c.host.tasks(&c.spec), CPU: c.spec.CPU}); f != nil {
		return f
	}
	var err error
	if c.netns, err = c.host.netns.take(); err != nil {
		return failure(wire.KindSetup, "make the network namespace", err)
	}
	p.id, p.netns, p.pids, p.lastCap = c.lease.id, c.netns, c.host.tasks(&c.spec), c.host.lastCap
	return c.launchSentry(p)
}

// tasks is how many tasks of this host a cell may have. A process in it is a
// process here, with a thread for each CPU at most and one beside; one that has
// ended is kept for the next. The cell's own kernel holds its programs to what
// the call asked for, and dies if this is met.
func (h *host) tasks(s *wire.Spec) int64 {
	return 2*s.Pids*int64(runtime.NumCPU()+2) + h.conf.Runsc.Pids
}

// sentryParts opens what the sentry is given. What is open after a failure is in
// the plan, which is the caller's to close.
func (c *cell) sentryParts() (*sentryPlan, *wire.Failed) {
	p := &sentryPlan{args: sentryFlags(&c.spec, c.host.hostNet(&c.spec))}
	for i := range p.fds {
		p.fds[i] = -1
	}
	for _, s := range []struct {
		what string
		open func() error
	}{
		{"trace", checkTracing},
		{"open runsc", func() (err error) { p.fds[sentryBinary], _, err = c.host.openRunsc(); return err }},
		{"open the guest", func() error { return p.open(sentryGuest, c.host.helper(c.host.conf.Runsc.Guest)) }},
		{"open the image of the root", func() error { return c.openImage(p, sentryRoot, c.spec.Tree) }},
		{"open the added image", func() error { return c.openAdded(p) }},
		{"open the null device", p.openNull},
		{"make its stderr", func() error { return c.makeWords(p) }},
		{"make its config.json", func() (err error) { p.fds[sentrySpec], err = sealed("config.json", sentryConfig(&c.spec)); return err }},
		{"make its reports and the channel", func() error { return c.makePipes(p) }},
		{"number its descriptors", p.raise},
	} {
		if err := s.open(); errors.Is(err, images.ErrAbsent) {
			return p, rootFailure(err)
		} else if err != nil {
			return p, failure(wire.KindSetup, s.what, err)
		}
	}
	return p, nil
}

// openImage opens the image of a tree, which stays in the store as long as the
// cell is there; without a digest, that of the host's slice.
func (c *cell) openImage(p *sentryPlan, at int, tree string) error {
	if tree == "" {
		return p.open(at, c.host.conf.Runsc.Root)
	}
	lock, err := c.host.images.Use(tree)
	if err != nil {
		return err
	}
	c.sentry.locks = append(c.sentry.locks, lock)
	p.fds[at], _, err = c.host.images.Open(tree, wire.TreeEROFS)
	return err
}

func (c *cell) openAdded(p *sentryPlan) error {
	if c.spec.Added == "" {
		return nil
	}
	return c.openImage(p, sentryAdded, c.spec.Added)
}

func (c *cell) makeWords(p *sentryPlan) (err error) {
	if c.words, err = newWords(); err != nil {
		return err
	}
	p.fds[2], err = unix.FcntlInt(uintptr(c.words), unix.F_DUPFD_CLOEXEC, int(sentryFDs))
	return err
}

func (c *cell) makePipes(p *sentryPlan) error {
	var status [2]int
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	c.sentry.reports, p.fds[sentryStatus] = status[0], status[1]
	channel, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.sentry.channel, p.fds[sentryChannel] = channel[0], channel[1]
	return nil
}

// open opens a regular file of the host, for reading.
func (p *sentryPlan) open(at int, path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p.fds[at] = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: %w", path, errors.Join(errNotRegular, err))
	}
	return nil
}

func (p *sentryPlan) openNull() error {
	for _, i := range []int{0, 1, sentryStdin, sentryStdout, sentryStderr} {
		fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		p.fds[i] = fd
	}
	return nil
}

// raise moves the descriptors above those that they are set up on.
func (p *sentryPlan) raise() error {
	for i, fd := range p.fds {
		if fd < 0 || fd >= int(sentryFDs) {
			continue
		}
		high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, int(sentryFDs))
		if err != nil {
			return err
		}
		unix.Close(fd)
		p.fds[i] = high
	}
	return nil
}

// sealed returns a file in memory that nobody can change.
func sealed(name string, text []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if _, err = unix.Pwrite(fd, text, 0); err == nil { // of memory: it is whole, or an error
		err = unix.Fchmod(fd, 0o400)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// launchSentry clones the sentry and tells the reaper.
func (c *cell) launchSentry(p *sentryPlan) *wire.Failed {
	child, err := c.host.sentryThread()
	if err != nil {
		return failure(wire.KindSetup, "make the root of sentries", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	join := c.group.Join()
	p.join = join.Procs
	list := p.compile()
	defer list.Release()
	err = child.do(func() (err error) {
		c.pid, c.pidfd, err = list.Start(newNamespaces, join.Into)
		return err
	})
	if err != nil {
		return failure(wire.KindSetup, "start the sentry", err)
	}
	c.started = true
	if err := c.host.reaper.started(c.slot, c.pidfd); err != nil {
		c.killLocked(wire.CauseNone) // the host is going down with its reaper
	}
	go c.attendSentry()
	return nil
}

// handOver returns the front's end of the channel, once. The caller closes it.
func (c *cell) handOver() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	fd := c.sentry.channel
	c.sentry.channel = -1
	return []int{fd}
}

// closeSentry closes what there is.
func (c *cell) closeSentry() {
	if c.sentry == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fd := range []*int{&c.sentry.channel, &c.sentry.reports} {
		if *fd >= 0 && (c.reaped || !c.started || fd == &c.sentry.channel) {
			unix.Close(*fd)
			*fd = -1
		}
	}
	unlockTrees(c.sentry.locks)
	c.sentry.locks = nil
	if c.sentry.hard != nil {
		c.sentry.hard.Stop()
	}
}

// sentryDigest covers what bounds a cell of LevelUserkernel whatever its spec:
// the version of runsc, the guest, the names of the list, flags and config.json.
func (h *host) sentryDigest(s *wire.Spec) [32]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d\n", h.conf.Runsc.Version, h.conf.Runsc.Memory, h.conf.Runsc.Pids)
	p := &sentryPlan{join: make([]int, 1), args: sentryFlags(s, h.hostNet(s)), lastCap: h.lastCap}
	list := p.compile()
	defer list.Release()
	for _, l := range list.Lines() {
		fmt.Fprintf(sum, "%q\n", l.Name)
	}
	fmt.Fprintf(sum, "%q %s\n", p.args, hex.EncodeToString(sentryConfig(s)))
	return [32]byte(sum.Sum(nil))
}
