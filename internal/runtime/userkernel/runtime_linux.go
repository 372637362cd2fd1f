package userkernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// bootPatience is how long a sandbox may take to boot. It takes a thirtieth of a
// second of CPU time, of which a loaded machine gives little.
const bootPatience = 30 * time.Second

// Runtime builds userkernel cells. It is safe for concurrent use.
type Runtime struct {
	launchers *link.Launchers

	mu      sync.Mutex // guards the following
	known   bool       // a launcher that has such cells has said the following
	hostNet bool       // the sockets of a cell with a network are this host's kernel's
}

// New returns the runtime over launchers, which stay the caller's: their end is
// the end of every cell.
func New(launchers *link.Launchers) *Runtime { return &Runtime{launchers: launchers} }

// Level implements cell.Runtime.
func (r *Runtime) Level() envelope.Level { return envelope.LevelUserKernel }

// Explain returns what makes up a cell of this level on this host: a text for
// people, each entry with its reason. The launcher's binary writes it.
func (r *Runtime) Explain(ctx context.Context) (string, error) {
	return r.launchers.Explain(ctx, "userkernel")
}

// Open implements cell.Runtime. It returns when the guest has made its place.
func (r *Runtime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	const step = "build the cell"
	if len(shape.Envelope.Files.Mounts) > 0 { // placement has refused it before
		return nil, &cell.Error{Reason: envelope.ReasonUnsupported, Step: "files.mounts", Err: errors.New("a cell of this level has none"), Hint: "level container has them"}
	}
	spec, err := link.Spec(&shape, wire.LevelUserkernel)
	if err != nil {
		return nil, err
	}
	if err := r.available(ctx); err != nil {
		return nil, err
	}
	slot, err := r.launchers.Open(ctx, spec, step)
	if err != nil {
		return nil, err
	}
	hosts := r.hosts()
	g, gate, err := meet(ctx, slot, &spec, hosts)
	if err != nil {
		err = &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: errors.Join(err, ctx.Err())}
		slot.Destroy()
		return nil, err
	}
	c := newCell(slot, g, shape, gate)
	if hosts {
		return gatedCell{c}, nil
	}
	return tunnelledCell{c}, nil
}

// available is a *cell.Error where this host has no such cells.
func (r *Runtime) available(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &cell.Error{Reason: envelope.ReasonSetup, Step: "build the cell", Err: err}
	}
	hello, err := r.hello(ctx)
	if err != nil {
		return &cell.Error{Reason: envelope.ReasonSetup, Step: "start the launcher", Err: err}
	}
	if hello.Refused == "" && hello.NoRunsc != "" {
		return &cell.Error{Reason: envelope.ReasonIsolation, Step: "userkernel", Err: errors.New(hello.NoRunsc)}
	}
	return nil // what is refused altogether, Launchers.Open says
}

// meet takes over what came with the slot, waits for the guest, and has it make
// its place. On an error the slot is still the caller's.
func meet(ctx context.Context, slot *link.Slot, spec *wire.Spec, hosts bool) (*guest.Host, *cell.Gate, error) {
	conn, gate, err := takeOver(slot, spec, hosts)
	if err != nil {
		return nil, nil, err
	}
	g, err := prepared(ctx, slot, conn, place(spec, hosts))
	if err != nil && gate != nil {
		gate.Close()
	}
	return g, gate, err
}

// prepared is the guest at the other end of the channel, once it has made its
// place.
func prepared(ctx context.Context, slot *link.Slot, conn guest.Conn, p guest.Place) (*guest.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	g, err := guest.Dial(ctx, conn)
	if err != nil {
		return nil, ended(ctx, slot, err)
	}
	if err := g.Prepare(ctx, p); err != nil {
		_ = g.Close() // it is of no use
		return nil, err
	}
	return g, nil
}

// endPatience is how long a sandbox whose channel ended may take to be gone.
const endPatience = 5 * time.Second

// ended is err, and what the launcher knows of a sandbox that did not come to
// life.
func ended(ctx context.Context, slot *link.Slot, err error) error {
	if ctx.Err() != nil {
		return err
	}
	answers, askErr := slot.Ask(&wire.Start{Slot: slot.Number})
	if askErr != nil {
		return errors.Join(err, askErr)
	}
	late := time.NewTimer(endPatience)
	defer late.Stop()
	select {
	case a := <-answers:
		a.Close()
		if f, ok := a.Body.(*wire.Failed); ok {
			return fmt.Errorf("%w; %w", link.Cause(f), err)
		}
	case <-late.C: // Destroy kills it
	}
	return err
}

// place is what the guest makes of a shape. It listens nowhere where the sockets
// are this host's: ours are there already.
func place(spec *wire.Spec, hosts bool) guest.Place {
	p := guest.Place{Scratch: spec.Scratch, Inodes: spec.Inodes + reservedInodes}
	if !hosts {
		p.Ports = spec.Ports
		for _, a := range spec.Addrs {
			p.Six = p.Six || !netip.AddrFrom16(a).Is4In6()
		}
	}
	for _, f := range etc(len(spec.Ports) > 0) {
		p.Covers = append(p.Covers, guest.Cover{Path: f.path, Data: []byte(f.text)})
	}
	return p
}

// reservedInodes are the scratch's root and its parts, which the call does not
// pay for.
const reservedInodes = 5

// Features implements cell.Runtime. It waits for a launcher's start.
func (r *Runtime) Features() cell.Features {
	h, err := r.hello(context.Background())
	switch {
	case err != nil:
		return cell.Features{Why: err.Error()}
	case h.Refused != "":
		return cell.Features{Why: h.Refused}
	case h.NoRunsc != "":
		return cell.Features{Why: h.NoRunsc}
	}
	f := cell.Features{
		Available: true, HostNetwork: h.HostNet,
		Versions: map[string]string{"runsc": h.Runsc, "kernel": "gVisor's; this host's is " + h.Kernel, "cgroup": fmt.Sprintf("v%d", h.Cgroup)},
		Enforced: []cell.Feature{
			{Name: "host kernel bugs", On: true, Note: "no system call of the program is the host's; gVisor's own process has a few dozen"},
			{Name: "memory", On: true, Note: "control group around the whole sandbox, with 96Mi (runsc.memory) beside for its kernel; the cell dies as one, its files too"},
			{Name: "cpu", On: true, Note: "control group, quota; the cell's kernel is in it"},
			{Name: "cpuTime", On: true, Note: "the group's counter, from the program's start; the cell's kernel is in it"},
			{Name: "wall", On: true, Note: "the launcher's clock; the program is ended by the guest, the sandbox by the launcher if it is not"},
			{Name: "pids", On: true, Note: "limit of the cell's own kernel, threads too; processes in the host's group behind it"},
			{Name: "scratch and inodes", On: true, Note: "tmpfs in the cell's own kernel, its memory in the group"},
			{Name: "file size, open files", On: true, Note: "rlimits of the cell's own kernel"},
			{Name: "output", On: true, Note: "counted while it is read"},
			{Name: "peak of processes, forks refused", On: false, Note: "gVisor counts neither: the guest says how many there were when the program ended, or was to end"},
		},
	}
	if h.HostNet {
		f.Enforced = append(f.Enforced, hostNetwork()...)
		f.Enforced[0].Note = "no system call of the program is the host's, but those of sockets: see host network bugs"
	}
	return f
}

// hostNetwork is what an operator has given up, and what for.
func hostNetwork() []cell.Feature {
	return []cell.Feature{
		{Name: "host network bugs", On: false, Note: "runsc.network = host: the sockets of a cell with a network are this host's kernel's, in an empty network namespace. " +
			"The level is worth no more than container for that: auto never takes it, and neither model's nor third-party code runs here by the default floors"},
	}
}
