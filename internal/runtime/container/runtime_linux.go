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
	spec, err := link.Spec(&shape, wire.LevelContainer)
	if err != nil {
		return nil, err
	}
	if err := mount(&spec, &shape); err != nil {
		return nil, err
	}
	slot, err := r.launchers.Open(ctx, spec, step)
	var refused *link.MountError
	if e, ok := err.(*cell.Error); ok && errors.As(err, &refused) {
		e.Hint = mountHint(&shape, &spec, refused)
	}
	if err != nil {
		return nil, err
	}
	gate, err := link.Gate(spec.Sockets(), slot.FDs)
	if err != nil {
		slot.Destroy()
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	return newCell(slot, shape, gate), nil
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
			{Name: "cpuTime", On: true, Note: "the group's counter, of all processes together"},
			{Name: "wall", On: true, Note: "the launcher's clock"},
			{Name: "scratch and inodes", On: true, Note: "tmpfs of its own"},
			{Name: "file size, open files", On: true, Note: "rlimits"},
			{Name: "output", On: true, Note: "counted while it is read"},
			{Name: "system calls", On: true, Note: "seccomp"},
			{Name: "roots", On: true, Note: "the slice of this host, or a tree of the launcher's store by its digest; read-only, nosuid, nodev. " +
				"The slice has nothing of home, opt, srv and var: what pyenv, nvm, conda and the like installed there is not seen"},
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
