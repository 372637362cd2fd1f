package container

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// Runtime builds container cells. It is safe for concurrent use.
type Runtime struct{ launchers *link.Launchers }

// New returns the runtime over launchers, which stay the caller's: their end is
// the end of every cell.
func New(launchers *link.Launchers) *Runtime { return &Runtime{launchers} }

// Explain returns what makes up a cell of this level on this host: a text for
// people, each entry with its reason. The launcher's binary writes it.
func (r *Runtime) Explain(ctx context.Context) (string, error) { return r.launchers.Explain(ctx, "") }

// Level implements cell.Runtime.
func (r *Runtime) Level() envelope.Level { return envelope.LevelContainer }

// Open implements cell.Runtime.
func (r *Runtime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	const step = "build the cell"
	spec, err := specOf(shape)
	if err != nil {
		return nil, err
	}
	slot, err := r.launchers.Open(ctx, spec, step)
	if e, ok := err.(*cell.Error); ok && errors.Is(err, link.ErrMount) {
		e.Hint = mountHint(&shape, err)
	}
	if err != nil {
		return nil, err
	}
	gate, err := newGate(spec.Sockets(), slot.FDs)
	if err != nil {
		slot.Destroy()
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	return newCell(slot, shape, gate), nil
}

// specOf is a shape in numbers, digests and names. An error is a *cell.Error:
// the network or the root is more than a cell can have.
func specOf(s cell.Shape) (wire.Spec, error) {
	e := &s.Envelope
	spec := wire.Spec{
		ID: s.ID, Level: wire.LevelContainer,
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
	return spec, rooted(&spec, &s)
}

// Features implements cell.Runtime. It waits for a launcher's start.
func (r *Runtime) Features() cell.Features {
	h, err := r.launchers.Hello(context.Background())
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
			{Name: "roots", On: true, Note: "the slice of this host, or a tree of the launcher's store by its digest; read-only, nosuid, nodev"},
			{Name: "mounts", On: true, Note: "directories that launcher.conf names, read-only, nosuid, nodev; noexec where it says so"},
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
	hello, err := r.launchers.Hello(context.Background())
	if err != nil {
		return nil
	}
	return hello.Missing
}
