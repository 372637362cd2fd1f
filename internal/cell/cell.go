// Package cell is the seam between the main path and the levels: what a
// runtime must be able to do, and what a cell goes through from Open to
// Close.
//
// A cell is one sandbox for one call:
//
//	Runtime.Open -> Cell.Put* -> Cell.Exec (once) -> Cell.Stop -> Cell.Get* -> Cell.Close
//
// Close may come at any point, more than once and from any goroutine; it
// unblocks whatever else is under way and is the only way to end a cell. The
// order is a state machine (state.go) that every runtime uses, and celltest
// holds each runtime to it.
package cell

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Runtime builds cells of one level on this host. Its methods may be called
// concurrently.
type Runtime interface {
	// Level is the level of every cell it opens.
	Level() envelope.Level
	// Features says what is enforced here and what is not.
	Features() Features
	// Open builds a cell and returns it before anything of the call is in
	// it. An error is a *Error; then nothing is left behind.
	Open(ctx context.Context, shape Shape) (Cell, error)
}

// Cell is one sandbox, for one call. Close may be called concurrently with
// every other method; the others are called one after another.
type Cell interface {
	// Put hands over the files of the call. Names have passed
	// envelope.CheckName. What does not fit is an error now or at Exec.
	Put(files []envelope.File) error
	// Exec runs the command and returns when it has ended, however it ended.
	// It forwards and decides nothing. It is called once; ctx ending ends
	// the program (Exit.Cause is then CauseCancel). An error means that the
	// program has not run (ErrNotStarted, which wraps fs.ErrNotExist where
	// Argv[0] is not there) or that the cell's own machinery died
	// (ErrBroken).
	Exec(ctx context.Context, cmd Command) (Exit, error)
	// Stop ends every process of the cell. When it returns nil, none is left.
	Stop(ctx context.Context) error
	// Get collects regular files by name, only after Stop. Names that cannot
	// be taken are returned as misses, not as an error.
	Get(ctx context.Context, names []string, caps envelope.OutputCaps) ([]envelope.File, []envelope.Miss, error)
	// Close destroys the cell and reports what it looked for. It is
	// idempotent (later calls return the first report), safe to call
	// concurrently, unblocks Exec, and is bounded in time whatever ctx says.
	Close(ctx context.Context) envelope.Report
}

// Shape is what must be known to build a cell: what a warm cell was built
// for. It is the envelope's part without the call's.
type Shape struct {
	ID       string // of the call; 36 characters, for names of groups and logs
	Envelope envelope.Envelope
	Root     Root
}

// Root is what the file system of a cell is made of, by digests of trees in the
// image store (sha256:HEX). The zero value is the slice of this host.
type Root struct {
	Tree  string // the whole root; "" is the host's slice
	Added string // stands at AddedDir; "" is nothing
}

// Command is what runs in the cell. Argv[0] is looked up in the cell's own
// PATH unless it has a slash.
type Command struct {
	Argv  []string
	Env   []string // NAME=value; exactly these, nothing is added
	Stdin []byte   // nil: /dev/null
	Run   []RunFile
	// Stdout and Stderr are written by a goroutine each, and not after Exec
	// has returned; nil swallows. They return an error to end the program:
	// Exit.Cause is then CauseOutput.
	Stdout io.Writer
	Stderr io.Writer
}

// RunFile is a file of ours that a program finds below RunDir. Its name has
// passed envelope.CheckName. It counts as an input does.
type RunFile struct {
	Name string
	Data []byte
	Mode uint32 // 0o444 or 0o400
}

// Check holds the file to what a cell can be given.
func (f *RunFile) Check() error {
	if f.Mode != 0o444 && f.Mode != 0o400 {
		return fmt.Errorf("cell: %s/%s: mode %#o is neither 0444 nor 0400", RunDir, f.Name, f.Mode)
	}
	return envelope.CheckName(f.Name)
}

// The causes for which the host ends a program.
const (
	CauseWall   = "wall"   // resources.wall
	CauseCPU    = "cpu"    // resources.cpuTime
	CauseMemory = "memory" // the group's memory ran out
	CauseOutput = "output" // a writer of Command refused
	CauseCancel = "cancel" // ctx, or Close
)

// Exit is how the program ended and what the host counted.
type Exit struct {
	Code    int           // -1 where a signal ended it, or nobody knows
	Signal  int           // 0 where it exited by itself
	Cause   string        // "" or a Cause: why the host ended it
	Source  string        // who read Code and Signal: "host" or "guest"
	Wall    time.Duration // from the program's start to its end
	CPU     time.Duration // of every process of the cell
	Memory  int64         // peak, bytes; -1 unknown
	Pids    int64         // peak; -1 unknown
	Scratch int64         // bytes in use at the end; -1 unknown
	Events  []envelope.Event
	// Enforced is the digest of what was enforced, sha256:HEX.
	Enforced string
}

// Features is what a runtime enforces on this host.
type Features struct {
	Available bool
	Why       string            // where not Available: what is missing and how to get it
	Versions  map[string]string // of the kernel and of helpers
	Enforced  []Feature         // each ceiling and each wall, enforced or not
	// What makes the level worth something else than its name; see
	// placement.Traits.
	Emulated    bool // a virtual machine without hardware under it
	HostNetwork bool // its network is the host's own
	Workers     bool // engines that run in jailed worker processes
}

// Feature is one line of Features.
type Feature struct {
	Name string
	On   bool
	Note string
}
