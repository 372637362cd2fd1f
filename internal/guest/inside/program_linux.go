package inside

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/wire"
	"github.com/callcell/callcell/internal/lineage"
)

// program is the one that the guest starts, and all that come of it.
type program struct {
	ended chan struct{} // closed when the program has ended; status and wall are set
	none  chan struct{} // closed when no process but the guest is left; cpu is set

	status syscall.WaitStatus
	wall   time.Duration
	cpu    time.Duration // of those that were waited for

	mu     sync.Mutex // guards what follows
	tried  bool       // to be started
	pid    int        // 0: it does not run, or not yet
	killed bool       // before it was started
	most   int64      // processes and threads of the program's user that were seen at once
}

func newProgram() *program {
	return &program{ended: make(chan struct{}), none: make(chan struct{})}
}

// start starts the program; the streams are its own.
func (p *program) start(c *wire.Command, streams [3]int) *wire.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.tried:
		return failed(wire.StepExec, 0, wire.ErrMalformed)
	case p.killed:
		return failed(wire.StepCancelled, 0, unix.ECANCELED)
	}
	p.tried = true
	restore, err := limit(c)
	if err != nil {
		return failed(wire.StepLimits, 0, err)
	}
	pid, err := spawn(c, streams)
	restore()
	if pid > 0 {
		p.pid = pid
		go p.reap(pid, time.Now())
	}
	return failed(wire.StepExec, 0, err)
}

// limit sets what bounds the program, which it has from us, and returns what
// undoes it where it would bind us. Where it cannot be undone, fewer connections
// are handed over at once.
func limit(c *wire.Command) (restore func(), err error) {
	for _, l := range []struct {
		which int
		value int64
	}{{unix.RLIMIT_FSIZE, c.FileSize}, {unix.RLIMIT_NPROC, c.Processes}} {
		if l.value > 0 {
			if err := setLimit(l.which, uint64(l.value)); err != nil {
				return nil, err
			}
		}
	}
	if err := setLimit(unix.RLIMIT_CORE, 0); err != nil {
		return nil, err
	}
	_ = setLimit(unix.RLIMIT_MEMLOCK, 64<<10) // memory is bounded from outside
	_ = setLimit(unix.RLIMIT_STACK, 8<<20)    // the usual
	var files syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, err
	}
	if c.OpenFiles <= 0 {
		return func() {}, nil
	}
	return func() { _ = syscall.Setrlimit(unix.RLIMIT_NOFILE, &files) }, setLimit(unix.RLIMIT_NOFILE, uint64(c.OpenFiles))
}

// setLimit sets both limits. It is package syscall's, which then leaves the
// limit of open files to whoever it starts as it is.
func setLimit(which int, value uint64) error {
	return syscall.Setrlimit(which, &syscall.Rlimit{Cur: value, Max: value})
}

// reap waits for whatever ends, until nothing is left.
func (p *program) reap(program int, began time.Time) {
	var others <-chan struct{}
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, 0, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			if others != nil {
				<-others
			}
			close(p.none)
			return
		}
		p.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		if pid == program {
			p.status, p.wall = ws, time.Since(began)
			p.see(tasks() + 1) // itself
			others = p.sweep()
			close(p.ended)
		}
	}
}

// see notes how many processes and threads there were.
func (p *program) see(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = max(p.most, n)
}

// seen is how many there were at most, of those that were counted.
func (p *program) seen() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// sweepEvery is how often those that are left are killed: one may have come
// into being while the others were.
const sweepEvery = 10 * time.Millisecond

// sweep kills all that is left, until none is.
func (p *program) sweep() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for unix.Kill(-1, unix.SIGKILL) != unix.ESRCH {
			<-tick.C
		}
	}()
	return done
}

// signal sends a signal to all processes but the guest. One that can be heard goes
// to the eldest first.
func (p *program) signal(s unix.Signal) *wire.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		p.killed = p.killed || s == unix.SIGKILL
		return &wire.Status{}
	}
	p.most = max(p.most, tasks())
	if err := send(s); err != nil && err != unix.ESRCH {
		return failed(wire.StepNone, 0, err)
	}
	return &wire.Status{}
}

func send(s unix.Signal) error {
	if s == unix.SIGKILL {
		return unix.Kill(-1, s)
	}
	pids, err := others()
	if err != nil {
		return unix.Kill(-1, s) // in what order it likes
	}
	for _, pid := range lineage.EldestFirst(pids) {
		if failed := unix.Kill(pid, s); failed != unix.ESRCH && failed != nil {
			err = failed
		}
	}
	return err
}

// end ends all there is, and waits until nothing is left.
func (p *program) end() *wire.Status {
	st := p.signal(unix.SIGKILL)
	p.mu.Lock()
	runs := p.pid != 0
	p.mu.Unlock()
	if runs {
		<-p.none
	}
	return st
}
