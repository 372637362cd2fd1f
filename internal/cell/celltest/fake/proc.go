package fake

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/callcell/callcell/internal/cell"
)

// Program is what runs in a cell. It must return soon after Proc.Done is
// closed; a function cannot be killed.
type Program func(p *Proc) Status

// Status is how a program ends.
type Status struct {
	Code   int
	Signal int // not 0: by this signal, and Code is -1
	cause  string
}

// Exit returns the status of a program that exits with code.
func Exit(code int) Status { return Status{Code: code} }

// Signal returns the status of a program that a signal ends.
func Signal(n int) Status { return Status{Code: -1, Signal: n} }

// Proc is what a program sees of its cell. It is used by that program alone.
type Proc struct {
	Args   []string // after the program's name
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer // an error means that the program is to return
	Stderr io.Writer
	Files  *Files
	all    *group
}

func newProc(c *fakeCell, cmd cell.Command, stdout, stderr io.Writer) *Proc {
	return &Proc{
		Args: cmd.Argv[1:], Env: cmd.Env, Stdin: bytes.NewReader(cmd.Stdin),
		Stdout: stdout, Stderr: stderr, Files: c.files, all: c.all,
	}
}

// Done is closed when the cell ends its programs.
func (p *Proc) Done() <-chan struct{} { return p.all.over }

// Start starts a second program in the cell, which does not end with the
// first.
func (p *Proc) Start(program func()) { p.all.start(program) }

var (
	errKilled = errors.New("fake: the program is being ended")
	errShut   = errors.New("fake: the other end of the pipe is closed")
)

// A group is all programs of a cell. It ends once, for one cause.
type group struct {
	over chan struct{} // closed when the group ends
	gone chan struct{} // closed when it has ended and no program is left

	mu    sync.Mutex // guards all that follows
	ended bool
	cause string
	live  int
}

func newGroup() *group {
	return &group{over: make(chan struct{}), gone: make(chan struct{})}
}

// start runs program as a member, and reports whether the group still takes
// one.
func (g *group) start(program func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.live++
	go func() {
		defer g.leave()
		program()
	}()
	return true
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live--
	g.goneLocked()
}

// end ends the group. The first cause is the one that counts.
func (g *group) end(cause string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ended, g.cause = true, cause
	close(g.over)
	g.goneLocked()
}

func (g *group) goneLocked() {
	if g.ended && g.live == 0 {
		close(g.gone)
	}
}

// settle turns what a program returned into how it ended: by itself, or by
// SIGKILL where the group was ended before it returned.
func (g *group) settle(s Status) Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return Status{Code: -1, Signal: 9, cause: g.cause}
	}
	return s
}

// A pipe carries what programs write until Exec returns. As at the end of a
// real pipe, there is one reader: writes go out one after another.
type pipe struct {
	all *group

	mu     sync.Mutex // guards closed and the use of w
	w      io.Writer  // nil swallows
	closed bool
}

func (p *pipe) Write(data []byte) (int, error) {
	select {
	case <-p.all.over:
		return 0, errKilled
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, errShut
	}
	if p.w == nil {
		return len(data), nil
	}
	n, err := p.w.Write(data)
	if err != nil {
		p.all.end(cell.CauseOutput)
	}
	return n, err
}

// shut waits for a write that is under way and lets no other through.
func (p *pipe) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
