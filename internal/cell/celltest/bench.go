package celltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// A bench is one case and what it works with.
type bench struct {
	*testing.T
	h  Harness
	rt cell.Runtime
}

// id returns the id of a call that no other cell has.
func id() string {
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", rand.Uint32(), rand.N(1<<16), rand.N(1<<12), rand.N(1<<12), rand.Uint64N(1<<48))
}

// shape returns the shape of a cell; each of adjust changes its envelope.
func (b *bench) shape(adjust ...func(*envelope.Envelope)) cell.Shape {
	env := envelope.Default()
	env.Level = b.rt.Level()
	env.Files.Scratch = 16 * envelope.MiB
	env.Files.Inodes = 1000
	env.Resources.FileSize = 16 * envelope.MiB
	env.Resources.Wall = envelope.Duration(b.h.Patience)
	env.Resources.CPUTime = envelope.Duration(b.h.Patience)
	if b.h.Adjust != nil {
		b.h.Adjust(&env)
	}
	for _, f := range adjust {
		f(&env)
	}
	return cell.Shape{ID: id(), Envelope: env}
}

// context returns a context that bounds one step.
func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), b.h.Patience)
	b.Cleanup(cancel)
	return ctx
}

// cancelled returns a context that is over.
func (b *bench) cancelled() context.Context {
	ctx, cancel := context.WithCancel(b.context())
	cancel()
	return ctx
}

// open opens a cell and sees to it that it is destroyed completely.
func (b *bench) open(adjust ...func(*envelope.Envelope)) cell.Cell {
	b.Helper()
	return b.openShape(b.shape(adjust...))
}

func (b *bench) openShape(shape cell.Shape) cell.Cell {
	b.Helper()
	c, err := b.rt.Open(b.context(), shape)
	if err != nil {
		b.Fatalf("Open: %v", err)
	}
	b.Cleanup(func() { b.destroy(c) })
	return c
}

// destroy closes c and checks its report. It may be called more than once.
func (b *bench) destroy(c cell.Cell) {
	b.Helper()
	var report envelope.Report
	b.within("Close", func() { report = c.Close(context.Background()) })
	b.checkReport(report)
}

func (b *bench) checkReport(r envelope.Report) {
	b.Helper()
	if !r.Complete || len(r.Checks) == 0 {
		b.Errorf("the teardown is not complete: %+v", r)
	}
	for _, check := range r.Checks {
		if !check.Gone || check.What == "" {
			b.Errorf("the teardown left %+v", check)
		}
	}
}

// within fails the case where step does not return within the patience.
func (b *bench) within(what string, step func()) {
	b.Helper()
	done := make(chan struct{})
	go func() { defer close(done); step() }()
	limit := time.NewTimer(b.h.Patience + 5*time.Second)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		b.Fatalf("%s did not return within %s", what, b.h.Patience)
	}
}

// script returns the argv of a program, and skips the case where the level
// has none.
func (b *bench) script(kind Kind, args ...string) []string {
	b.Helper()
	if why, ok := b.h.Lacks[kind]; ok {
		b.Skipf("no %s at this level: %s", kind, why)
	}
	argv := b.h.Dialect.Script(kind, args...)
	if argv == nil {
		b.Fatalf("the dialect has no %s, and Lacks does not say why", kind)
	}
	return argv
}

// environment is what the main path gives every program.
func environment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + cell.WorkDir, "LANG=C.UTF-8"}
}

// A run is one Exec and what came of it.
type run struct {
	exit   cell.Exit
	err    error
	stdout *sink
	stderr *sink
}

// command returns a command and the run that its output goes to.
func (b *bench) command(kind Kind, args ...string) (cell.Command, *run) {
	b.Helper()
	r := &run{stdout: newSink(), stderr: newSink()}
	return cell.Command{Argv: b.script(kind, args...), Env: environment(), Stdout: r.stdout, Stderr: r.stderr}, r
}

// exec runs cmd in c to its end.
func (b *bench) exec(c cell.Cell, cmd cell.Command, r *run) {
	b.Helper()
	b.within("Exec", func() { r.exit, r.err = c.Exec(b.context(), cmd) })
	r.seal()
}

// seal says that Exec has returned: nothing may be written any more.
func (r *run) seal() {
	r.stdout.seal()
	r.stderr.seal()
}

// run opens a cell with files in it, runs a program to its end, and checks
// that it ended by itself with code.
func (b *bench) run(code int, files []envelope.File, kind Kind, args ...string) (cell.Cell, *run) {
	b.Helper()
	cmd, r := b.command(kind, args...)
	c := b.open()
	if len(files) > 0 {
		if err := c.Put(files); err != nil {
			b.Fatalf("Put: %v", err)
		}
	}
	b.exec(c, cmd, r)
	b.checkExit(r, code)
	return c, r
}

func (b *bench) checkExit(r *run, code int) {
	b.Helper()
	if r.err != nil {
		b.Fatalf("Exec: %v", r.err)
	}
	if e := r.exit; e.Code != code || e.Signal != 0 || e.Cause != "" {
		b.Fatalf("ended with code %d, signal %d, cause %q; want code %d by itself; stderr %q", e.Code, e.Signal, e.Cause, code, r.stderr.text())
	}
	if s := r.exit.Source; s != "host" && s != "guest" {
		b.Errorf("Exit.Source is %q, want host or guest", s)
	}
}

// checkEnded checks that the host ended the program, for cause.
func (b *bench) checkEnded(r *run, cause string) {
	b.Helper()
	if r.err != nil {
		b.Fatalf("Exec: %v, want an exit with cause %q", r.err, cause)
	}
	if e := r.exit; e.Cause != cause || e.Code != -1 || e.Signal == 0 {
		b.Fatalf("ended with code %d, signal %d, cause %q; want a signal and cause %q", e.Code, e.Signal, e.Cause, cause)
	}
}

// stop stops c.
func (b *bench) stop(c cell.Cell) {
	b.Helper()
	var err error
	b.within("Stop", func() { err = c.Stop(b.context()) })
	if err != nil {
		b.Fatalf("Stop: %v", err)
	}
}

// A sink is what a program writes to. It can refuse, and it notes what comes
// after Exec has returned.
type sink struct {
	first    chan struct{} // closed with the first byte
	late     chan struct{} // closed with the first byte after Exec
	noteLate func()
	limit    int // bytes after which Write refuses; negative never

	mu     sync.Mutex // guards all that follows
	data   []byte
	sealed bool
}

func newSink() *sink {
	s := &sink{first: make(chan struct{}), late: make(chan struct{}), limit: -1}
	s.noteLate = sync.OnceFunc(func() { close(s.late) })
	return s
}

var errSinkFull = errors.New("celltest: the sink takes no more")

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed && len(p) > 0 {
		s.noteLate()
	}
	if len(s.data) == 0 && len(p) > 0 {
		close(s.first)
	}
	s.data = append(s.data, p...)
	if s.limit >= 0 && len(s.data) > s.limit {
		return 0, errSinkFull
	}
	return len(p), nil
}

func (s *sink) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.data)
}
