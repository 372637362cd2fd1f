// Package fake is the in-memory runtime: its programs are Go functions and its
// files are a map. It isolates nothing. It is there so that the main path can
// be tested against a runtime that passes the conformance suite, quickly and
// with every fault at will, and it lives below celltest so that nothing but a
// test can assemble it.
package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"sync/atomic"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// closeTime bounds how long Close and Stop wait for a program that does not
// heed Proc.Done.
const closeTime = 5 * time.Second

// Runtime is the in-memory runtime. It is safe for concurrent use.
type Runtime struct {
	level    envelope.Level
	programs map[string]Program
	open     atomic.Int64
}

// New returns a runtime that says it is of level. Its programs are those of
// the suite and more, by name; more wins.
func New(level envelope.Level, more map[string]Program) *Runtime {
	programs := suite()
	maps.Copy(programs, more)
	return &Runtime{level: level, programs: programs}
}

// Level implements cell.Runtime.
func (r *Runtime) Level() envelope.Level { return r.level }

// Features implements cell.Runtime.
func (r *Runtime) Features() cell.Features {
	return cell.Features{
		Available: true,
		Versions:  map[string]string{"fake": "1"},
		Enforced: []cell.Feature{
			{Name: "isolation", Note: "none: this is the in-memory runtime for tests"},
			{Name: "wall", On: true},
			{Name: "output", On: true},
			{Name: "scratch", On: true},
		},
	}
}

// Cells returns how many cells are open.
func (r *Runtime) Cells() int { return int(r.open.Load()) }

// Open implements cell.Runtime.
func (r *Runtime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	if err := ctx.Err(); err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "open", Err: err}
	}
	text, err := json.Marshal(shape.Envelope)
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "digest", Err: err}
	}
	sum := sha256.Sum256(text)
	r.open.Add(1)
	return &fakeCell{
		Lifecycle: cell.NewLifecycle(),
		runtime:   r,
		wall:      shape.Envelope.Resources.Wall.Std(),
		enforced:  "sha256:" + hex.EncodeToString(sum[:]),
		files:     newFiles(shape.Envelope),
		all:       newGroup(),
	}, nil
}

// A fakeCell is one cell.
type fakeCell struct {
	*cell.Lifecycle
	runtime  *Runtime
	wall     time.Duration
	enforced string
	files    *Files
	all      *group // every program of the cell
}

// Put implements cell.Cell.
func (c *fakeCell) Put(files []envelope.File) error {
	return c.Do(cell.OpPut, func() error {
		for _, f := range files {
			if err := c.files.Write(f.Name, f.Data, f.Executable); err != nil {
				return &cell.Error{Reason: envelope.ReasonSetup, Step: "put " + f.Name, Hint: "raise files.scratch", Err: err}
			}
		}
		return nil
	})
}

// Exec implements cell.Cell.
func (c *fakeCell) Exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	var exit cell.Exit
	err := c.Do(cell.OpExec, func() (err error) {
		exit, err = c.exec(ctx, cmd)
		return err
	})
	return exit, err
}

func (c *fakeCell) exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	if ctx.Err() != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, context.Cause(ctx))
	}
	if len(cmd.Argv) == 0 || c.runtime.programs[path.Base(cmd.Argv[0])] == nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, fs.ErrNotExist)
	}
	for _, f := range cmd.Run {
		if err := c.files.Write(path.Join(cell.RunDir, f.Name), f.Data, false); err != nil {
			return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
		}
	}
	program := c.runtime.programs[path.Base(cmd.Argv[0])]
	stdout, stderr := &pipe{w: cmd.Stdout, all: c.all}, &pipe{w: cmd.Stderr, all: c.all}
	proc := newProc(c, cmd, stdout, stderr)
	begin := time.Now()
	unwatch := context.AfterFunc(ctx, func() { c.all.end(cell.CauseCancel) })
	alarm := time.AfterFunc(c.wall, func() { c.all.end(cell.CauseWall) })
	ended := make(chan Status, 1)
	if !c.all.start(func() { ended <- c.all.settle(program(proc)) }) {
		ended <- c.all.settle(Status{})
	}
	status := <-ended
	unwatch()
	alarm.Stop()
	stdout.shut()
	stderr.shut()
	used, events := c.files.usage()
	return cell.Exit{
		Code: status.Code, Signal: status.Signal, Cause: status.cause, Source: "host",
		Wall: max(time.Since(begin), 1), Memory: -1, Pids: -1, Scratch: used,
		Events: events, Enforced: c.enforced,
	}, nil
}

// Stop implements cell.Cell.
func (c *fakeCell) Stop(ctx context.Context) error {
	return c.Do(cell.OpStop, func() error {
		c.all.end("")
		ctx, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		select {
		case <-c.all.gone:
			return nil
		case <-c.Closing():
			return cell.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Get implements cell.Cell.
func (c *fakeCell) Get(ctx context.Context, names []string, caps envelope.OutputCaps) ([]envelope.File, []envelope.Miss, error) {
	var files []envelope.File
	var misses []envelope.Miss
	err := c.Do(cell.OpGet, func() error {
		files, misses = c.files.collect(names, caps)
		return ctx.Err()
	})
	return files, misses, err
}

// Close implements cell.Cell.
func (c *fakeCell) Close(context.Context) envelope.Report {
	return c.Lifecycle.Close(func() envelope.Report {
		c.all.end(cell.CauseCancel)
		limit := time.NewTimer(closeTime)
		defer limit.Stop()
		dead := true
		for _, over := range []<-chan struct{}{c.all.gone, c.Idle()} {
			select {
			case <-over:
			case <-limit.C:
				dead = false
				limit.Reset(0)
			}
		}
		c.files.drop()
		c.runtime.open.Add(-1)
		return envelope.Report{Complete: dead, Checks: []envelope.Check{
			{What: "processes", Gone: dead}, {What: "files", Gone: true},
		}}
	})
}
