package celltest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/testing/leak"
)

// bareRuntime runs programs of this host in a temporary directory. It isolates
// nothing: it is here to hold the suite and its shell dialect against real
// processes.
type bareRuntime struct{ base string }

func TestBareProcesses(t *testing.T) {
	leak.Check(t)
	celltest.Run(t, celltest.Harness{
		Runtime:   func(t *testing.T) cell.Runtime { return bareRuntime{t.TempDir()} },
		Dialect:   celltest.Shell{},
		Elsewhere: true,
		Slow:      true, // the fake tries all of it
		Processes: celltest.HostProcesses,
	})
}

func (bareRuntime) Level() envelope.Level { return envelope.LevelContainer }

func (bareRuntime) Features() cell.Features {
	return cell.Features{Available: true, Enforced: []cell.Feature{{Name: "isolation", Note: "none"}}}
}

func (r bareRuntime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	if err := ctx.Err(); err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "open", Err: err}
	}
	dir, err := os.MkdirTemp(r.base, "cell")
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "mkdir", Err: err}
	}
	return &bareCell{Lifecycle: cell.NewLifecycle(), dir: dir, env: shape.Envelope, ended: make(chan struct{})}, nil
}

type bareCell struct {
	*cell.Lifecycle
	dir   string
	env   envelope.Envelope
	bytes int
	files int

	once  sync.Once // guards cause
	cause string
	ended chan struct{} // closed when the host ends the program
}

func (c *bareCell) end(cause string) { c.once.Do(func() { c.cause = cause; close(c.ended) }) }

func (c *bareCell) Put(files []envelope.File) error {
	return c.Do(cell.OpPut, func() error {
		for _, f := range files {
			c.bytes, c.files = c.bytes+len(f.Data), c.files+1
			if c.bytes > int(c.env.Files.Scratch) || c.files > int(c.env.Files.Inodes) {
				return &cell.Error{Reason: envelope.ReasonSetup, Step: "put", Err: syscall.ENOSPC}
			}
			name, mode := filepath.Join(c.dir, f.Name), fs.FileMode(0o644)
			if f.Executable {
				mode = 0o755
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, mode)); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusing notes that a writer returned an error, and ends the program.
type refusing struct {
	io.Writer
	c *bareCell
}

func (w refusing) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.c.end(cell.CauseOutput)
	}
	return n, err
}

func (c *bareCell) Exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	var exit cell.Exit
	err := c.Do(cell.OpExec, func() (err error) {
		exit, err = c.exec(ctx, cmd)
		return err
	})
	return exit, err
}

func (c *bareCell) exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	if ctx.Err() != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, ctx.Err())
	}
	p := exec.Command(cmd.Argv[0], cmd.Argv[1:]...)
	p.Dir, p.Env, p.WaitDelay = c.dir, cmd.Env, time.Second // for what is in the pipes
	if cmd.Stdin != nil {
		p.Stdin = strings.NewReader(string(cmd.Stdin))
	}
	if cmd.Stdout != nil {
		p.Stdout, p.Stderr = refusing{cmd.Stdout, c}, refusing{cmd.Stderr, c}
	}
	begin := time.Now()
	if err := p.Start(); errors.Is(err, exec.ErrNotFound) {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, fs.ErrNotExist)
	} else if err != nil {
		return cell.Exit{}, fmt.Errorf("%w: %w", cell.ErrNotStarted, err)
	}
	defer context.AfterFunc(ctx, func() { c.end(cell.CauseCancel) })()
	defer time.AfterFunc(c.env.Resources.Wall.Std(), func() { c.end(cell.CauseWall) }).Stop()
	over := make(chan struct{})
	go func() {
		select {
		case <-c.ended:
			c.kill()
		case <-over:
		}
	}()
	_ = p.Wait() // what it says is in ProcessState
	close(over)
	return c.exitOf(p, time.Since(begin)), nil
}

func (c *bareCell) exitOf(p *exec.Cmd, wall time.Duration) cell.Exit {
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	e := cell.Exit{Code: status.ExitStatus(), Source: "host", Wall: wall, Memory: -1, Pids: -1, Scratch: -1}
	if status.Signaled() {
		e.Signal = int(status.Signal())
		select {
		case <-c.ended:
			e.Cause = c.cause
		default:
		}
	}
	text := fmt.Sprint(c.env.Resources, c.env.Files)
	sum := sha256.Sum256([]byte(text))
	e.Enforced = "sha256:" + hex.EncodeToString(sum[:])
	return e
}

// processes returns those whose working directory is the cell's.
func (c *bareCell) processes() []int {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	var pids []int
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == c.dir {
			var pid int
			if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// kill kills until nothing is left.
func (c *bareCell) kill() {
	for pids := c.processes(); len(pids) > 0; pids = c.processes() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (c *bareCell) Stop(context.Context) error {
	return c.Do(cell.OpStop, func() error { c.kill(); return nil })
}

func (c *bareCell) Close(context.Context) envelope.Report {
	return c.Lifecycle.Close(func() envelope.Report {
		c.end(cell.CauseCancel)
		<-c.Idle()
		c.kill()
		err := os.RemoveAll(c.dir)
		return envelope.Report{Complete: err == nil, Checks: []envelope.Check{{What: "files", Gone: err == nil}}}
	})
}

func (c *bareCell) Get(_ context.Context, names []string, caps envelope.OutputCaps) (files []envelope.File, misses []envelope.Miss, err error) {
	err = c.Do(cell.OpGet, func() error {
		var size atomic.Int64
		take := func(name string) {
			why := c.look(name, len(files), &size, caps)
			if why != "" {
				misses = append(misses, envelope.Miss{Name: name, Why: why})
				return
			}
			data, err := os.ReadFile(filepath.Join(c.dir, name))
			if err != nil {
				misses = append(misses, envelope.Miss{Name: name, Why: err.Error()})
				return
			}
			files = append(files, envelope.File{Name: name, Data: data})
		}
		for _, name := range names {
			below, why := c.below(name)
			if why != "" {
				misses = append(misses, envelope.Miss{Name: name, Why: why})
			}
			for _, one := range below {
				take(one)
			}
		}
		return nil
	})
	return files, misses, err
}

// look says why a file is not to be taken, or "" and adds its size.
func (c *bareCell) look(name string, taken int, size *atomic.Int64, caps envelope.OutputCaps) string {
	at := c.dir
	var info fs.FileInfo
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		var err error
		if info, err = os.Lstat(at); err != nil {
			return cell.MissAbsent
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return cell.MissIrregular
		}
	}
	switch {
	case !info.Mode().IsRegular():
		return cell.MissIrregular
	case taken >= int(caps.Count):
		return cell.MissCount(caps)
	case size.Load()+info.Size() > int64(caps.Bytes):
		return cell.MissBytes(caps)
	}
	size.Add(info.Size())
	return ""
}

// below returns name itself, or the names below a directory, sorted.
func (c *bareCell) below(name string) (names []string, why string) {
	dir, ok := strings.CutSuffix(name, "/")
	if !ok {
		return []string{name}, ""
	}
	if info, err := os.Lstat(filepath.Join(c.dir, dir)); err != nil || !info.IsDir() {
		return nil, cell.MissNoDir
	}
	_ = filepath.WalkDir(filepath.Join(c.dir, dir), func(at string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(c.dir, at)
			names = append(names, rel)
		}
		return nil
	})
	slices.Sort(names)
	return names, ""
}
