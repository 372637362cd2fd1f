package guest

import (
	"context"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/callcell/callcell/internal/cell"
)

// Place is the room that the guest makes for a call, before anything of it is
// there.
type Place struct {
	// Scratch and Inodes are the sizes of the writable place, bytes and
	// files: one tmpfs whose parts stand at /work, /tmp, /dev/shm and /run.
	// Both 0: what stands there already is used.
	Scratch, Inodes int64
	// Covers are texts that stand in the place of files of the root.
	Covers []Cover
	// Ports are where a connection at any local address is handed over. With
	// any, the name server and the proxy of package cell listen too.
	Ports []uint16
}

// Cover is a text in the place of a file of the root, read-only.
type Cover struct {
	Path string // absolute; a regular file that is there
	Data []byte
}

// File is a file of the call.
type File struct {
	Name string // relative; below /work, or below /run where Run is set
	Mode uint32 // 0o755, 0o644, 0o444 or 0o400
	Run  bool
	Data []byte
}

// Command is what the guest starts, as uid and gid 1000, in a session of its
// own, with exactly this environment.
type Command struct {
	Argv []string // Argv[0] is looked up in Env's PATH unless it has a slash
	Env  []string
	Dir  string // "": /work
	// Stdin is read until its end, and no longer than the program runs; nil:
	// /dev/null.
	Stdin io.Reader
	// Stdout and Stderr are written by a goroutine each, and not after Exec
	// has returned; nil swallows. One that returns an error ends the program.
	Stdout, Stderr io.Writer
	Limits         Limits
	// Started is called when the program runs; nil: nobody is told.
	Started func()
}

// Limits of each process. 0 leaves what there is.
type Limits struct {
	FileSize  int64 // bytes
	OpenFiles int64
	Processes int64 // of the program's user, threads too
}

// Exit is how the program ended. All of it is the guest's word.
type Exit struct {
	Code   int // -1 where a signal ended it
	Signal int // 0 where it exited by itself
	// Refused says that Stdout or Stderr returned an error, and that the
	// program was ended for it. It is ours.
	Refused bool
	Wall    time.Duration // from the start to the end
	CPU     time.Duration // of all processes that were waited for
	Scratch Space
}

// Space is how much of the scratch is used, and how much there was; -1: nobody
// knows.
type Space struct{ Bytes, Inodes, MaxBytes, MaxInodes int64 }

// Output is a regular file of the program's.
type Output struct {
	Data       []byte
	Executable bool
}

// Entry is one thing in a listing that is no directory.
type Entry struct {
	Name    string // relative to /work; the program's bytes
	Regular bool
}

// Host is the host's side of one guest. Its methods may be called
// concurrently, but Exec once.
type Host struct{}

// Dial takes over conn, the host's end of the channel, and waits until the
// guest has said that it is there and of this version. On an error conn is
// closed.
func Dial(ctx context.Context, conn net.Conn) (*Host, error) { panic("not yet") }

// Prepare makes the place. It is called once, before Put and Exec. When it
// returns, what listens in the place does.
func (h *Host) Prepare(ctx context.Context, p Place) error { panic("not yet") }

// Put writes files. The error of one that cannot be written is a *FileError.
func (h *Host) Put(ctx context.Context, files []File) error { panic("not yet") }

// Exec starts the program and returns when it has ended, and with it every
// other process of the place, and all that they wrote has been taken. ctx
// ending ends the program; Exec then returns its Exit. The error is a
// *StartError where the program has not run, and wraps ErrBroken where the
// channel broke.
func (h *Host) Exec(ctx context.Context, c Command) (Exit, error) { panic("not yet") }

// Signal sends a signal to every process of the place but the guest.
func (h *Host) Signal(ctx context.Context, s syscall.Signal) error { panic("not yet") }

// Stop ends every process of the place and everything that listens there. When
// it returns nil the guest has said that none is left.
func (h *Host) Stop(ctx context.Context) error { panic("not yet") }

// List returns what is below dir of /work, directories aside, at most so many,
// and whether there were more. The error of a directory that cannot be read is
// a *FileError.
func (h *Host) List(ctx context.Context, dir string, most int) (found []Entry, cut bool, err error) {
	panic("not yet")
}

// Get returns a regular file of /work of at most so many bytes; no link is
// followed on the way. The error of one that cannot be had is a *FileError,
// which wraps ErrTooLong where it is longer.
func (h *Host) Get(ctx context.Context, name string, most int64) (Output, error) { panic("not yet") }

// Tunnels returns the connections that the guest hands over.
func (h *Host) Tunnels() cell.Tunnels { panic("not yet") }

// Done is closed when the channel has broken or was closed.
func (h *Host) Done() <-chan struct{} { panic("not yet") }

// Err says why; nil before Done.
func (h *Host) Err() error { panic("not yet") }

// Close hangs up: the guest ends, and with it its place. It unblocks all
// others and is idempotent.
func (h *Host) Close() error { panic("not yet") }
