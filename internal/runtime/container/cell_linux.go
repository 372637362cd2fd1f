package container

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// A containerCell is one cell as the front sees it.
type containerCell struct {
	*cell.Lifecycle
	slot     *link.Slot
	shape    cell.Shape
	enforced string
	files    []envelope.File

	mu   sync.Mutex // guards the following
	gate *cell.Gate // nil: there is none, or it was taken
	took bool       // Gate was called
}

// newCell takes over the sockets of a cell with a network; nil is none.
func newCell(slot *link.Slot, shape cell.Shape, gate *cell.Gate) *containerCell {
	return &containerCell{
		Lifecycle: cell.NewLifecycle(), slot: slot, shape: shape, gate: gate,
		enforced: "sha256:" + hex.EncodeToString(slot.Enforced[:]),
	}
}

// Put implements cell.Cell. The files are kept here until Exec hands them to
// init, which writes them: their memory then counts in the cell.
func (c *containerCell) Put(files []envelope.File) error {
	return c.Do(cell.OpPut, func() error {
		for _, f := range files {
			if err := envelope.CheckName(f.Name); err != nil {
				return err
			}
		}
		c.files = append(c.files, files...)
		return nil
	})
}

// Exec implements cell.Cell.
func (c *containerCell) Exec(ctx context.Context, cmd cell.Command) (exit cell.Exit, err error) {
	err = c.Do(cell.OpExec, func() error {
		exit, err = c.exec(ctx, cmd)
		return err
	})
	return exit, err
}

func (c *containerCell) exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	if err := ctx.Err(); err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
	}
	payload, err := c.payload(cmd)
	if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
	}
	defer unix.Close(payload)
	streams, err := newStdio(cmd, func() { c.slot.Kill(wire.CauseOutput) })
	if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
	}
	defer streams.close()
	answers, err := c.slot.Ask(&wire.Start{Slot: c.slot.Number}, append(slices.Clone(streams.ends), payload)...)
	if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, err)
	}
	streams.start()
	a, ok := c.slot.Await(ctx, c.Closing(), answers, c.shape.Envelope.Cleanup.StopGrace.Std())
	if !ok {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, link.ErrLauncher)
	}
	a.Close()
	switch b := a.Body.(type) {
	case *wire.Exited:
		streams.drain(0) // every process is gone: the pipes end
		return c.exit(b), nil
	case *wire.Failed:
		streams.drain(lastOutput)
		return cell.Exit{}, exited(b, cmd, c.files)
	}
	return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, wire.ErrMalformed)
}

// lastOutput bounds the reading of what a program has written whose end was not
// a good one: it may be there yet, and cannot be ended.
const lastOutput = time.Second

// payload makes the sealed file that init reads.
func (c *containerCell) payload(cmd cell.Command) (int, error) {
	files := make([]wire.PayloadFile, len(c.files))
	for i, f := range c.files {
		files[i] = wire.PayloadFile{Name: f.Name, Data: f.Data, Executable: f.Executable}
	}
	for _, f := range cmd.Run {
		if err := f.Check(); err != nil {
			return -1, err
		}
		files = append(files, wire.PayloadFile{Name: f.Name, Data: f.Data, Run: true, Private: f.Mode == 0o400})
	}
	b, err := wire.Payload(cmd.Argv, cmd.Env, files)
	if err != nil {
		return -1, err
	}
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("payload: %w", err)
	}
	for at := 0; at < len(b) && err == nil; {
		var n int
		n, err = unix.Write(fd, b[at:])
		at += max(n, 0)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("payload: %w", err)
	}
	return fd, nil
}

// exit translates what the launcher counted.
func (c *containerCell) exit(e *wire.Exited) cell.Exit {
	x := cell.Exit{
		Code: -1, Cause: causeWord(e.Cause), Source: "host", Wall: time.Duration(e.Wall), CPU: time.Duration(e.CPU),
		Memory: e.MemoryPeak, Pids: e.PidsPeak, Scratch: e.ScratchUse, Enforced: c.enforced,
	}
	if e.Known {
		ws := syscall.WaitStatus(e.Status)
		if ws.Signaled() {
			x.Signal = int(ws.Signal())
		} else {
			x.Code = ws.ExitStatus()
		}
	} else {
		x.Signal = int(unix.SIGKILL)
	}
	event := func(kind string, n int64, detail string) {
		if n > 0 {
			x.Events = append(x.Events, envelope.Event{Kind: kind, Count: n, Source: "host", Detail: detail})
		}
	}
	if e.Cause == wire.CauseMemory {
		e.OOMKills = max(e.OOMKills, 1) // we may have been faster than the kernel's killer
	}
	event("memory", e.OOMKills, "processes killed for want of memory")
	event("processes", e.PidsHits, "forks refused")
	if e.ScratchMax > 0 && e.ScratchUse >= e.ScratchMax {
		event("disk", 1, "files.scratch is full")
	} else if e.InodesMax > 0 && e.InodesUse >= e.InodesMax {
		event("disk", 1, "files.inodes are used up")
	}
	if x.Signal == int(unix.SIGXFSZ) {
		event("file_size", 1, "SIGXFSZ")
	} else if limit := int64(c.shape.Envelope.Resources.FileSize); limit > 0 && e.ScratchUse >= limit && c.hasFull(limit) {
		event("file_size", 1, cell.DetailFullFile)
	}
	return x
}

// hasFull reports whether a file of the working directory has that size. The
// signal that a child of the program's gets is seen by nobody but its parent.
func (c *containerCell) hasFull(size int64) bool {
	found, _, err := c.list(cell.MostLooked) // what cannot be listed is not told of
	return err == nil && cell.HasFull(found, size)
}

func causeWord(c wire.Cause) string {
	switch c {
	case wire.CauseWall:
		return cell.CauseWall
	case wire.CauseCPU:
		return cell.CauseCPU
	case wire.CauseMemory:
		return cell.CauseMemory
	case wire.CauseOutput:
		return cell.CauseOutput
	case wire.CauseCancel:
		return cell.CauseCancel
	}
	return ""
}

// Stop implements cell.Cell. The launcher answers Start when no process is
// left, so this is a look.
func (c *containerCell) Stop(ctx context.Context) error {
	return c.Do(cell.OpStop, func() error {
		a, err := c.slot.Call(&wire.Stop{Slot: c.slot.Number})
		if err != nil {
			return fmt.Errorf("%w: %w", cell.ErrBroken, err)
		}
		a.Close()
		if f, ok := a.Body.(*wire.Failed); ok {
			return fmt.Errorf("%w: %w", cell.ErrBroken, link.Cause(f))
		}
		return nil
	})
}

// Timings implements cell.Timed.
func (c *containerCell) Timings() cell.Timings { return c.slot.Timings() }

// Close implements cell.Cell.
func (c *containerCell) Close(ctx context.Context) envelope.Report {
	return c.Lifecycle.Close(func() envelope.Report {
		if gate, _ := c.takeGate(); gate != nil {
			gate.Close()
		}
		return c.slot.Destroy()
	})
}
