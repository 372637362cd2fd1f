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

// Config says where the helpers are.
type Config struct {
	Helpers string // directory of callcell-launcher and callcell-init; "" is that of the running program
	Conf    string // the launcher's configuration; "" is its own default place
	// Once is for a process that makes one cell: the launcher is hung up on
	// when that is closed, and winds down beside what else is to be done.
	Once bool
}

// patience is how long a launcher may take over a request.
const patience = 15 * time.Second

// Runtime builds container cells. It is safe for concurrent use.
type Runtime struct {
	conf     Config
	patience time.Duration

	mu     sync.Mutex // guards the following
	link   *link      // nil until a launcher could be started
	closed bool
}

// New returns a runtime and starts its launcher, without waiting for it: what
// there is to say about that, Features and Open say.
func New(conf Config) *Runtime {
	r := &Runtime{conf: conf, patience: patience}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.startLocked() // tried again, and said, by whoever needs it
	return r
}

// Close ends the launcher and every cell, and waits until they are gone. It
// is idempotent.
func (r *Runtime) Close() error { return r.close(false) }

// Leave is Close for a process that ends now: it does not wait for the
// launcher's process to be reaped, which the kernel does as well.
func (r *Runtime) Leave() error { return r.close(true) }

func (r *Runtime) close(leave bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.link == nil {
		return nil
	}
	err := r.link.close(leave)
	r.link = nil
	return err
}

// connect returns the link to a launcher that has said hello; it starts one
// where there is none.
func (r *Runtime) connect() (*link, *wire.Hello, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, cell.ErrClosed
	}
	if r.link == nil || !r.link.alive() {
		if err := r.startLocked(); err != nil {
			return nil, nil, err
		}
	}
	hello, err := r.link.greet()
	if err != nil {
		return nil, nil, err
	}
	return r.link, hello, nil
}

func (r *Runtime) startLocked() error {
	path, err := r.launcher()
	if err != nil {
		return err
	}
	r.link, err = dial(path, r.conf.Conf, r.conf.Once, r.patience)
	return err
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
	l, hello, err := r.connect()
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "start the launcher", Err: err}
	}
	if hello.Refused != "" {
		return nil, &cell.Error{Reason: envelope.ReasonIsolation, Step: "container", Err: errors.New(hello.Refused)}
	}
	spec, err := specOf(shape)
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

// open asks for a cell or an egress process, and gives back one that comes when
// nobody waits for it any more. What it returns is held, and is closed by
// destroy; the descriptors are the caller's. An error is a *cell.Error.
func (l *link) open(ctx context.Context, body wire.Body, step string, fds ...int) (*wire.Opened, []int, error) {
	l.hold()
	a, err := l.await(ctx, body, fds)
	if errors.Is(err, errGivenBack) {
		return nil, nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: ctx.Err()}
	}
	if err == nil {
		switch b := a.body.(type) {
		case *wire.Opened:
			return b, a.fds, nil
		case *wire.Failed:
			err = opened(b, step)
		default:
			err = &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
		}
	} else {
		err = &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	closeAll(a.fds)
	l.release(false)
	return nil, nil, err
}

// errGivenBack means that nobody waits for the answer but giveBack.
var errGivenBack = errors.New("container: given up")

func (l *link) await(ctx context.Context, body wire.Body, fds []int) (answer, error) {
	defer l.bound(0)()
	ch, err := l.ask(body, fds...)
	if err != nil {
		return answer{}, err
	}
	select {
	case a, ok := <-ch:
		if !ok {
			return answer{}, errLauncher
		}
		return a, nil
	case <-ctx.Done():
		go l.giveBack(ch)
		return answer{}, errGivenBack
	}
}

func (l *link) giveBack(ch <-chan answer) {
	defer l.bound(0)()
	a := <-ch // the zero value where the launcher has died
	closeAll(a.fds)
	if o, ok := a.body.(*wire.Opened); ok {
		l.destroy(o.Slot) // nobody is left to tell; a launcher that goes sweeps
		return
	}
	l.release(false)
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

// Features implements cell.Runtime. It waits for the launcher's start.
func (r *Runtime) Features() cell.Features {
	_, h, err := r.connect()
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
	_, hello, err := r.connect()
	if err != nil {
		return nil
	}
	return hello.Missing
}
