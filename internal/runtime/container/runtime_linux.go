package container

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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
	// up to 8. A process that gives up the right to start launchers goes on
	// with those that it has.
	Launchers int
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

// Runtime builds container cells. It is safe for concurrent use.
type Runtime struct {
	conf Config

	mu     sync.Mutex // guards the following
	bounds bounds
	links  []*link   // launchers, the oldest first; those too that retire or end
	growth time.Time // before it no launcher is started beside one that serves
	closed bool
}

// New returns a runtime and starts its launcher, without waiting for it: what
// there is to say about that, Features and Open say.
func New(conf Config) *Runtime {
	r := &Runtime{conf: conf, bounds: bounds{patience, buildPatience}}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.startLocked() // tried again, and said, by whoever needs it
	return r
}

// Close ends the launchers and every cell, and waits until they are gone. It
// is idempotent.
func (r *Runtime) Close() error { return r.close(false) }

// Leave is Close for a process that ends now: it does not wait for the
// launchers' processes to be reaped, which the kernel does as well.
func (r *Runtime) Leave() error { return r.close(true) }

func (r *Runtime) close(leave bool) error {
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
	return errors.Join(errs...)
}

// startLocked starts one more launcher.
func (r *Runtime) startLocked() (*link, error) {
	path, err := r.launcher()
	if err != nil {
		return nil, err
	}
	l, err := dial(path, r.conf.Conf, r.conf.Once, r.bounds)
	if err != nil {
		return nil, err
	}
	r.links = append(r.links, l)
	return l, nil
}

// Explain returns what makes up a cell of this level on this host: a text for
// people, each entry with its reason. The launcher's binary writes it.
func (r *Runtime) Explain(ctx context.Context) (string, error) {
	path, err := r.launcher()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, "-explain").Output()
	return string(out), err
}

// launcher returns the path of the launcher's binary.
func (r *Runtime) launcher() (string, error) {
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

// Level implements cell.Runtime.
func (r *Runtime) Level() envelope.Level { return envelope.LevelContainer }

// Open implements cell.Runtime.
func (r *Runtime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	if err := ctx.Err(); err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "build the cell", Err: err}
	}
	spec, err := specOf(shape)
	if err != nil {
		return nil, err
	}
	l, err := r.serving(ctx, wantCell, "build the cell")
	if err != nil {
		return nil, err
	}
	o, fds, err := l.open(ctx, &wire.Open{Spec: spec}, "build the cell")
	if err != nil {
		return nil, err
	}
	gate, err := newGate(spec.Sockets(), fds)
	if err != nil {
		l.destroy(o.Slot)
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "build the cell", Err: err}
	}
	return newCell(l, o, shape, gate), nil
}

// serving is take for something that is to be built: an error is a
// *cell.Error.
func (r *Runtime) serving(ctx context.Context, w want, step string) (*link, error) {
	l, hello, err := r.take(ctx, w)
	switch {
	case errors.Is(err, errFull):
		return nil, opened(&wire.Failed{Kind: wire.KindCapacity, Step: errFull.Error()}, step)
	case err != nil:
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "start the launcher", Err: err}
	case hello.Refused != "":
		return nil, &cell.Error{Reason: envelope.ReasonIsolation, Step: "container", Err: errors.New(hello.Refused)}
	}
	return l, nil
}

// specOf is a shape in numbers. An error is a *cell.Error: the network is more
// than a cell can have.
func specOf(s cell.Shape) (wire.Spec, error) {
	e := &s.Envelope
	spec := wire.Spec{
		ID: s.ID, Image: e.Image,
		Memory: int64(e.Resources.Memory), Pids: int64(e.Resources.Pids), CPU: int64(e.Resources.CPU),
		CPUTime: int64(e.Resources.CPUTime), Wall: int64(e.Resources.Wall), StopGrace: int64(e.Cleanup.StopGrace),
		Scratch: int64(e.Files.Scratch), Inodes: int64(e.Files.Inodes),
		FileSize: int64(e.Resources.FileSize), OpenFiles: int64(e.Resources.OpenFiles),
	}
	spec.Ports, spec.Addrs = network(e.Network.Allow)
	if err := spec.CheckNetwork(); err != nil {
		return wire.Spec{}, &cell.Error{
			Reason: envelope.ReasonPolicy, Step: "network.allow", Err: err,
			Hint: fmt.Sprintf("a cell has at most %d ports and %d literal addresses, and none of its own loopback; name hosts instead", wire.MaxPorts, wire.MaxAddrs),
		}
	}
	return spec, nil
}

// Features implements cell.Runtime. It waits for a launcher's start.
func (r *Runtime) Features() cell.Features {
	_, h, err := r.take(context.Background(), wantHello)
	if err != nil {
		return cell.Features{Why: err.Error()}
	}
	if h.Refused != "" {
		return cell.Features{Why: h.Refused, Versions: map[string]string{"kernel": h.Kernel}}
	}
	f := cell.Features{
		Available: true,
		Versions: map[string]string{
			"kernel": h.Kernel, "cgroup": fmt.Sprintf("v%d", h.Cgroup), "landlock": fmt.Sprintf("ABI %d", h.Landlock),
			"enforced": hex.EncodeToString(h.Filter[:8]),
		},
		Enforced: []cell.Feature{
			{Name: "memory", On: true, Note: "control group; the cell dies as one"},
			{Name: "pids", On: true, Note: "control group"},
			{Name: "cpu", On: true, Note: "control group, quota"},
			{Name: "wall", On: true, Note: "the launcher's clock"},
			{Name: "scratch and inodes", On: true, Note: "tmpfs of its own"},
			{Name: "file size, open files", On: true, Note: "rlimits"},
			{Name: "output", On: true, Note: "counted while it is read"},
			{Name: "system calls", On: true, Note: "seccomp"},
			{Name: "landlock", On: h.Landlock > 0, Note: "a second wall behind the mounts"},
			{Name: "host kernel bugs", On: false, Note: "not held back at this level: userkernel and microvm are for that"},
		},
	}
	for _, m := range h.Missing {
		f.Enforced = append(f.Enforced, cell.Feature{Name: "weaker here", Note: m})
	}
	return f
}

// Warnings returns what is weaker on this host than elsewhere, a sentence
// each; nil where the level is not available.
func (r *Runtime) Warnings() []string {
	_, hello, err := r.take(context.Background(), wantHello)
	if err != nil {
		return nil
	}
	return hello.Missing
}
