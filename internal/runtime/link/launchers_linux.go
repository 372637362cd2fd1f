package link

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// Config says where the helpers are, and how many launchers there are.
type Config struct {
	Helpers string // directory of callcell-launcher and callcell-init; "" is that of the running program
	Conf    string // the launcher's configuration; "" is its own default place
	// Once is for a process that makes one cell: the launcher is hung up on
	// when that is closed, and winds down beside what else is to be done.
	Once bool
	// Launchers is how many processes build cells at once, at most: more are
	// started as more cells are built at the same time. 0 is one for each core,
	// up to 8.
	Launchers int
	// Starter is for a process that gives up the right to start launchers, and
	// lives on: another one keeps it, and starts those after the first. Without,
	// such a process goes on with the launchers that it has.
	Starter bool
	// Recycle is after how many cells a launcher is replaced; 0 is 20,000. One
	// that has grown is replaced before.
	Recycle int
}

// How long a launcher may take. patience is for what may have to wait for the
// kernel to end processes and remove their groups. buildPatience is for what
// waits for nobody: a launcher that has not made a cell by then is stuck, in a
// child that does not come to its exec or in the kernel, and the calls behind
// it wait for nothing. Building takes a few milliseconds; on a machine with a
// hundred cells in the making at once it has been seen to take one second.
const (
	patience      = 15 * time.Second
	buildPatience = 6 * time.Second
)

// Launchers are the launchers of one process, for the runtimes of every level
// that they build cells of. They are safe for concurrent use.
type Launchers struct {
	conf    Config
	starter *starter // nil: this process starts them

	mu     sync.Mutex // guards the following
	bounds bounds
	links  []*link   // launchers, the oldest first; those too that retire or end
	growth time.Time // before it no launcher is started beside one that serves
	closed bool
}

// New starts the first launcher, without waiting for it: what there is to say
// about that, Hello and Open say.
func New(conf Config) *Launchers {
	r := &Launchers{conf: conf, bounds: bounds{patience, buildPatience}}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.startLocked() // tried again, and said, by whoever needs it
	if path, err := r.launcher(); err == nil && conf.Starter {
		r.starter, _ = newStarter(path, conf.Conf) // where it is not to be had, the launcher is not
	}
	return r
}

// Close ends the launchers and every cell, and waits until they are gone. It
// is idempotent.
func (r *Launchers) Close() error { return r.close(false) }

// Leave is Close for a process that ends now: it does not wait for the
// launchers' processes to be reaped, which the kernel does as well.
func (r *Launchers) Leave() error { return r.close(true) }

func (r *Launchers) close(leave bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	errs := make([]error, len(r.links))
	var all sync.WaitGroup
	for i, l := range r.links {
		all.Go(func() { errs[i] = l.close(leave) })
	}
	all.Wait()
	r.links = nil
	if r.starter != nil {
		errs = append(errs, r.starter.close(leave))
	}
	return errors.Join(errs...)
}

// startLocked starts one more launcher.
func (r *Launchers) startLocked() (*link, error) {
	path, err := r.launcher()
	if err != nil {
		return nil, err
	}
	start := func(socket int) (*process, error) { return startProcess(argvOf(path, r.conf.Conf), socket) }
	if r.starter != nil {
		start = r.starter.start
	}
	l, err := dial(start, r.conf.Once, r.bounds)
	if err != nil {
		return nil, err
	}
	r.links = append(r.links, l)
	return l, nil
}

// Explain returns what makes up what a launcher builds on this host, a text for
// people: the launcher's binary writes it. what is one of its words; "" is a
// cell of the container level.
func (r *Launchers) Explain(ctx context.Context, what string) (string, error) {
	path, err := r.launcher()
	if err != nil {
		return "", err
	}
	args := []string{"-explain"}
	if what != "" {
		args = append(args, what)
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	return string(out), err
}

// Hello returns what a launcher says of this host. It waits for its start. A
// refusal is in it, and is no error.
func (r *Launchers) Hello(ctx context.Context) (*wire.Hello, error) {
	_, h, err := r.take(ctx, wantHello)
	return h, err
}

// Open asks the launcher with the least to do for a cell. An error is a
// *cell.Error. step says what for.
func (r *Launchers) Open(ctx context.Context, spec wire.Spec, step string) (*Slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	l, err := r.serving(ctx, wantCell, step)
	if err != nil {
		return nil, err
	}
	return l.open(ctx, &wire.Open{Spec: spec}, step)
}

// serving is take for something that is to be built: an error is a
// *cell.Error.
func (r *Launchers) serving(ctx context.Context, w want, step string) (*link, error) {
	l, hello, err := r.take(ctx, w)
	switch {
	case errors.Is(err, errFull):
		return nil, Refused(&wire.Failed{Kind: wire.KindCapacity, Step: errFull.Error()}, step)
	case err != nil:
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "start the launcher", Err: err}
	case hello.Refused != "":
		return nil, &cell.Error{Reason: envelope.ReasonIsolation, Step: step, Err: errors.New(hello.Refused)}
	}
	return l, nil
}

// launcher returns the path of the launcher's binary.
func (r *Launchers) launcher() (string, error) {
	dir := r.conf.Helpers
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Dir(self)
	}
	return filepath.Join(dir, "callcell-launcher"), nil
}

// Next returns the process numbers of the launcher that the next cell is asked
// of, and of its reaper.
func (r *Launchers) Next(ctx context.Context) (launcher, reaper int, err error) {
	l, hello, err := r.take(ctx, wantHello)
	if err != nil {
		return 0, 0, err
	}
	if l == nil {
		return 0, 0, errors.New(hello.Refused)
	}
	return l.process.pid, int(hello.Reaper), nil
}

// Processes returns the process numbers of all launchers that live and have
// said hello.
func (r *Launchers) Processes() (pids []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.alive() && closed(l.greeted) {
			pids = append(pids, l.process.pid)
		}
	}
	return pids
}

// SetPatienceForTest is how long tests wait for a launcher that they have
// stopped.
func (r *Launchers) SetPatienceForTest(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounds = bounds{d, d}
	for _, l := range r.links {
		l.mu.Lock()
		l.bounds = r.bounds
		l.mu.Unlock()
	}
}
