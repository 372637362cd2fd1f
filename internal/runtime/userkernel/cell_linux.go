package userkernel

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// A sandboxCell is one cell as the front sees it.
type sandboxCell struct {
	*cell.Lifecycle
	slot     *link.Slot
	guest    *guest.Host
	shape    cell.Shape
	enforced string
	files    []envelope.File

	mu   sync.Mutex // guards the following
	gate *cell.Gate // nil: there is none, or it was taken
	took bool       // Tunnels or Gate was called
	gone bool       // the sandbox is
}

// newCell takes over the sockets of a cell that has this host's; nil is none.
func newCell(slot *link.Slot, g *guest.Host, shape cell.Shape, gate *cell.Gate) *sandboxCell {
	return &sandboxCell{
		Lifecycle: cell.NewLifecycle(), slot: slot, guest: g, shape: shape, gate: gate,
		enforced: "sha256:" + hex.EncodeToString(slot.Enforced[:]),
	}
}

// Put implements cell.Cell. The files are kept here until Exec, which hands them
// to the guest: the time that takes counts as the program's.
func (c *sandboxCell) Put(files []envelope.File) error {
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
func (c *sandboxCell) Exec(ctx context.Context, cmd cell.Command) (exit cell.Exit, err error) {
	err = c.Do(cell.OpExec, func() error {
		exit, err = c.exec(ctx, cmd)
		return err
	})
	return exit, err
}

func (c *sandboxCell) exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	if err := ctx.Err(); err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
	}
	for _, f := range cmd.Run {
		if err := f.Check(); err != nil {
			return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
		}
	}
	answers, err := c.slot.Ask(&wire.Start{Slot: c.slot.Number})
	if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, err)
	}
	r := &run{cell: c, answers: answers}
	r.begin(ctx)
	x, err := r.guest(cmd)
	r.end()
	return r.result(x, err, cmd)
}

// Stop implements cell.Cell. Exec has returned when the guest had ended every
// process; it is asked once more, and a sandbox whose guest does not say so is
// killed.
func (c *sandboxCell) Stop(ctx context.Context) error {
	return c.Do(cell.OpStop, func() error {
		ctx, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		if !c.isGone() && c.guest.Stop(ctx) == nil {
			return nil
		}
		return c.kill()
	})
}

// stopPatience is how long a guest may take to end what runs in its cell.
const stopPatience = 10 * time.Second

// kill ends the sandbox, and returns when it is gone.
func (c *sandboxCell) kill() error {
	a, err := c.slot.Call(&wire.Stop{Slot: c.slot.Number})
	if err != nil {
		return fmt.Errorf("%w: %w", cell.ErrBroken, err)
	}
	a.Close()
	if f, ok := a.Body.(*wire.Failed); ok {
		return fmt.Errorf("%w: %w", cell.ErrBroken, link.Cause(f))
	}
	c.setGone()
	return nil
}

func (c *sandboxCell) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *sandboxCell) setGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

// Timings implements cell.Timed.
func (c *sandboxCell) Timings() cell.Timings { return c.slot.Timings() }

// Close implements cell.Cell.
func (c *sandboxCell) Close(context.Context) envelope.Report {
	return c.Lifecycle.Close(func() envelope.Report {
		if gate, _ := c.takeGate(); gate != nil {
			gate.Close()
		}
		report := c.slot.Destroy()
		_ = c.guest.Close() // whoever is in it hears of it
		return report
	})
}

// A run is one Exec under way.
type run struct {
	cell    *sandboxCell
	answers <-chan link.Answer

	stop     context.Context // ends when the guest is to end the program
	cancel   context.CancelFunc
	finished chan struct{} // closed when the guest has answered
	watching sync.WaitGroup

	// The following are set by the watcher, and read after it.
	cause  string       // why we ended the program; "" where we did not
	answer *link.Answer // of the launcher; nil: none has come
	dead   bool         // the launcher died
}

// begin watches over the program: until end, whatever asks for its end is passed
// on to the guest.
func (r *run) begin(ctx context.Context) {
	r.stop, r.cancel = context.WithCancel(context.Background())
	r.finished = make(chan struct{})
	r.watching.Go(func() {
		grace := r.cell.shape.Envelope.Cleanup.StopGrace.Std()
		select {
		case <-r.finished:
			return
		case a, ok := <-r.answers:
			r.take(a, ok)
			if r.cause != cell.CauseWall {
				grace = 0
			}
		case <-ctx.Done():
			r.cause = cell.CauseCancel
		case <-r.cell.Closing():
			r.cause = cell.CauseCancel
		}
		r.terminate(grace)
	})
}

// take keeps the launcher's answer to Start.
func (r *run) take(a link.Answer, ok bool) {
	r.dead = !ok
	if !ok {
		return
	}
	a.Close()
	r.answer = &a
	if e, met := a.Body.(*wire.Exited); met && r.cause == "" {
		r.cause = causeWord(e.Cause)
	}
}

// terminate has the guest end the program, which has so long to do so itself.
func (r *run) terminate(grace time.Duration) {
	defer r.cancel()
	if grace <= 0 {
		return
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	_ = r.cell.guest.Signal(r.stop, syscall.SIGTERM) // else it is killed below
	select {
	case <-late.C:
	case <-r.finished:
	case <-r.cell.guest.Done():
	}
}

// end ends the watching. The guest has answered.
func (r *run) end() {
	close(r.finished)
	r.watching.Wait()
	r.cancel()
}

// guest hands over files and command, and waits for the program's end.
func (r *run) guest(cmd cell.Command) (guest.Exit, error) {
	if files := payload(r.cell.files, cmd.Run); len(files) > 0 {
		if err := r.cell.guest.Put(r.stop, files); err != nil {
			return guest.Exit{}, err
		}
	}
	e := &r.cell.shape.Envelope.Resources
	// gVisor does not count the first process of a user that was another's: it
	// is the one that the guest starts.
	return r.cell.guest.Exec(r.stop, guest.Command{
		Argv: cmd.Argv, Env: cmd.Env, Dir: cell.WorkDir, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		Limits: guest.Limits{FileSize: int64(e.FileSize), OpenFiles: int64(e.OpenFiles), Processes: max(int64(e.Pids)-1, 1)},
	})
}

// payload are the files that the guest writes.
func payload(inputs []envelope.File, run []cell.RunFile) []guest.File {
	var files []guest.File
	for _, f := range inputs {
		mode := uint32(0o644)
		if f.Executable {
			mode = 0o755
		}
		files = append(files, guest.File{Name: f.Name, Mode: mode, Data: f.Data})
	}
	for _, f := range run {
		files = append(files, guest.File{Name: f.Name, Mode: f.Mode, Run: true, Data: f.Data})
	}
	return files
}

// result says how it ended, whoever ended it.
func (r *run) result(x guest.Exit, err error, cmd cell.Command) (cell.Exit, error) {
	if r.dead {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, link.ErrLauncher)
	}
	if err == nil {
		return r.counted(x)
	}
	if refused := notStarted(err, cmd); refused != nil && r.cause == "" {
		return cell.Exit{}, refused
	}
	return r.fallen(err)
}

// counted is the end of a program that the guest has told of.
func (r *run) counted(x guest.Exit) (cell.Exit, error) {
	a, err := r.cell.slot.Call(&wire.Count{Slot: r.cell.slot.Number})
	if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, err)
	}
	a.Close()
	e, ok := a.Body.(*wire.Exited)
	if !ok {
		return r.fallen(guest.ErrBroken) // the sandbox has ended since
	}
	if r.cause == "" {
		r.cause = causeWord(e.Cause) // a ceiling was met on the way
	}
	if x.Refused {
		r.cause = cell.CauseOutput
	}
	exit := r.exit(e)
	exit.Code, exit.Signal, exit.Source = x.Code, x.Signal, "guest"
	exit.Scratch = x.Scratch.Bytes
	exit.Events = append(exit.Events, guestEvents(&x, int64(r.cell.shape.Envelope.Resources.Pids))...)
	limit := int64(r.cell.shape.Envelope.Resources.FileSize)
	if x.Signal != int(unix.SIGXFSZ) && limit > 0 && x.Scratch.Bytes >= limit && r.cell.hasFull(limit) {
		exit.Events = append(exit.Events, envelope.Event{Kind: "file_size", Count: 1, Source: "guest", Detail: cell.DetailFullFile})
	}
	return exit, nil
}

// hasFull reports whether a file of the working directory has that size, by the
// guest's word: the signal that a child of the program's gets is seen by nobody
// but its parent.
func (c *sandboxCell) hasFull(size int64) bool {
	bounded, cancel := context.WithTimeout(context.Background(), getPatience)
	defer cancel()
	entries, _, err := c.guest.List(bounded, ".", cell.MostLooked)
	if err != nil {
		return false // what cannot be listed is not told of
	}
	found := make([]cell.Entry, len(entries))
	for i, e := range entries {
		found[i] = cell.Entry(e)
	}
	return cell.HasFull(found, size)
}

// fallen is the end of a program whose guest does not answer: the sandbox is
// gone, or is killed now.
func (r *run) fallen(err error) (cell.Exit, error) {
	defer r.cell.setGone()
	if r.answer == nil || !final(r.answer) {
		r.await()
	}
	if r.answer == nil {
		return cell.Exit{}, fmt.Errorf("%w: %w: %w", cell.ErrBroken, link.ErrLauncher, err)
	}
	switch b := r.answer.Body.(type) {
	case *wire.Exited:
		if r.cause == "" {
			break // we killed it because of what the guest did
		}
		x := r.exit(b)
		x.Code, x.Signal, x.Source = -1, int(unix.SIGKILL), "host"
		return x, nil
	case *wire.Failed:
		if r.cause != "" {
			return cell.Exit{Code: -1, Signal: int(unix.SIGKILL), Cause: r.cause, Source: "host", Memory: -1, Pids: -1, Scratch: -1, Enforced: r.cell.enforced}, nil
		}
		return cell.Exit{}, fmt.Errorf("%w: %w: %w", cell.ErrBroken, link.Cause(b), err)
	}
	if guest.Breach(err) {
		err = fmt.Errorf("%w: %w", cell.ErrBreach, err)
	}
	return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrBroken, err)
}

// final reports whether an answer to Start says that the sandbox is gone.
func final(a *link.Answer) bool {
	_, met := a.Body.(*wire.Exited)
	return !met
}

// await waits for the sandbox's end, which it brings about where it does not
// come by itself.
func (r *run) await() {
	if r.answer != nil { // a ceiling was met: the sandbox has a moment left, and needs none
		_ = r.cell.kill() // Close says what is left
		return
	}
	late := time.AfterFunc(endPatience, func() { r.cell.slot.Kill(wire.CauseNone) })
	defer late.Stop()
	a, ok := r.cell.slot.Await(context.Background(), r.cell.Closing(), r.answers, 0)
	r.take(a, ok)
}

// exit translates what the launcher counted.
func (r *run) exit(e *wire.Exited) cell.Exit {
	x := cell.Exit{
		Cause: r.cause, Wall: time.Duration(e.Wall), CPU: time.Duration(e.CPU), Memory: e.MemoryPeak,
		Pids: -1, Scratch: -1, Enforced: r.cell.enforced,
	}
	if r.cause == cell.CauseMemory {
		e.OOMKills = max(e.OOMKills, 1) // we may have been faster than the kernel's killer
	}
	for _, n := range []struct {
		kind   string
		count  int64
		detail string
	}{{"memory", e.OOMKills, "processes killed for want of memory"}, {"processes", e.PidsHits, "processes of the sandbox refused"}} {
		if n.count > 0 {
			x.Events = append(x.Events, envelope.Event{Kind: n.kind, Count: n.count, Source: "host", Detail: n.detail})
		}
	}
	return x
}

// guestEvents are the ceilings that the guest says were met.
func guestEvents(x *guest.Exit, pids int64) (events []envelope.Event) {
	s := &x.Scratch
	event := func(kind, detail string) {
		events = append(events, envelope.Event{Kind: kind, Count: 1, Source: "guest", Detail: detail})
	}
	switch {
	case s.MaxBytes > 0 && s.Bytes >= s.MaxBytes:
		event("disk", "files.scratch is full")
	case s.MaxInodes > 0 && s.Inodes >= s.MaxInodes:
		event("disk", "files.inodes are used up")
	}
	if x.Tasks >= pids && x.Tasks > 1 {
		event("processes", "as many as there may be")
	}
	if x.Signal == int(unix.SIGXFSZ) {
		event("file_size", "SIGXFSZ")
	}
	return events
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
