package guest

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// Command is what the guest starts, as uid and gid 1000, in a session of its
// own, with exactly this environment.
type Command struct {
	Argv  []string // Argv[0] is looked up in Env's PATH unless it has a slash
	Env   []string // NAME=value
	Dir   string   // "": /work
	Stdin []byte   // nil: /dev/null
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

// Exit is how the program ended. All of it but Refused is the guest's word.
type Exit struct {
	Code   int // -1 where a signal ended it
	Signal int // 0 where it exited by itself
	// Refused says that Stdout or Stderr returned an error, and that the
	// program was ended for it.
	Refused bool
	Wall    time.Duration // from the start to the end
	CPU     time.Duration // of all processes that were waited for
	// Tasks is how many processes and threads of the program were there at
	// once, when it ended or was to end. There may have been more before.
	Tasks   int64
	Scratch Space
}

// Space is how much of the scratch is used, and how much there was; -1: nobody
// knows.
type Space struct{ Bytes, Inodes, MaxBytes, MaxInodes int64 }

func (c *Command) message() *wire.Command {
	return &wire.Command{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin != nil,
		FileSize: c.Limits.FileSize, OpenFiles: c.Limits.OpenFiles, Processes: c.Limits.Processes}
}

// An execution is the one program of a guest.
type execution struct {
	h            *Host
	c            *Command
	command      []byte // as it is sent
	main, errors *mux.Stream
	doing        sync.WaitGroup // those that copy
	refused      atomic.Bool
	killing      sync.Once
	killer       sync.WaitGroup     // who asks for the program's end
	gone         context.Context    // ends with Exec
	cancel       context.CancelFunc // of gone
}

// Exec starts the program and returns when it has ended, every other process
// of the place with it, and all that they wrote has been taken. ctx ending
// ends the program; Exec then returns its Exit. The error is a *StepError where
// the program has not run, and wraps ErrBroken or is ErrClosed where the
// channel ended.
func (h *Host) Exec(ctx context.Context, c Command) (Exit, error) {
	if h.started.Swap(true) {
		return Exit{}, errors.New("guest: it runs one program")
	}
	e := &execution{h: h, c: &c}
	var err error
	if e.command, err = wire.EncodeData(c.message()); err != nil {
		return Exit{}, &StepError{wire.StepExec, ErrRequest}
	}
	if err := e.open(ctx); err != nil {
		return Exit{}, err
	}
	e.gone, e.cancel = context.WithCancel(context.Background())
	defer e.close()
	e.doing.Go(e.feed)
	e.doing.Go(func() { e.copy(c.Stdout, e.main) })
	e.doing.Go(func() { e.copy(c.Stderr, e.errors) })
	stop := context.AfterFunc(ctx, e.kill)
	defer stop()
	return e.await()
}

func (e *execution) open(ctx context.Context) (err error) {
	if e.errors, err = e.h.open(ctx, wire.Note{Op: wire.OpStderr}); err != nil {
		return err
	}
	_ = e.errors.CloseWrite() // an error ends the channel, and is seen there
	if e.main, err = e.h.open(ctx, wire.Note{Op: wire.OpExec, Number: e.errors.ID()}); err != nil {
		_ = e.errors.Close() // as above
	}
	return err
}

// close ends what is left, when the program has ended or has not run.
func (e *execution) close() {
	_ = e.main.Close() // as above; who still feeds, feeds nobody
	_ = e.errors.Close()
	e.doing.Wait()
	e.killing.Do(func() {}) // from here on nobody begins to
	e.cancel()
	e.killer.Wait()
}

// feed sends the command and the program's input. What is not taken is not
// wanted, or the channel has ended.
func (e *execution) feed() {
	_, _ = e.main.Write(e.command)
	_, _ = e.main.Write(e.c.Stdin)
	_ = e.main.CloseWrite()
}

// copy takes one stream of the program's, and ends the program where the
// writer does not take it.
func (e *execution) copy(w io.Writer, s *mux.Stream) {
	err := copyTo(w, s, func() {
		e.refused.Store(true)
		e.kill()
	})
	if err != nil && !errors.Is(err, mux.ErrClosed) {
		_ = e.h.broke(err) // ends the channel, and await says so
	}
}

// kill ends the program. A guest that does not say in time that it has ended
// breaks the channel.
func (e *execution) kill() {
	e.killing.Do(func() {
		e.killer.Go(func() {
			late := time.AfterFunc(e.h.times.end, func() { e.h.m.Fail(&mux.BrokenError{What: "it does not end the program"}) })
			defer late.Stop()
			_ = e.h.Signal(e.gone, syscall.SIGKILL) // await says what came of it
			<-e.gone.Done()
		})
	})
}

// await takes the two answers, and waits for all that was written.
func (e *execution) await() (Exit, error) {
	if err := statusOf(e.main); err != nil {
		return Exit{}, e.h.broke(err)
	}
	if e.c.Started != nil {
		e.c.Started()
	}
	var x wire.Exit
	if err := answer(e.main, &x); err != nil {
		return Exit{}, e.h.broke(err)
	}
	late := time.AfterFunc(e.h.times.end, func() {
		if !e.main.Ended() || !e.errors.Ended() { // else it is the writers that take their time
			e.h.m.Fail(&mux.BrokenError{What: "it does not end the program's streams"})
		}
	})
	defer late.Stop()
	e.doing.Wait()
	if err := e.h.Err(); err != nil {
		return Exit{}, err
	}
	return e.exit(&x), nil
}

func (e *execution) exit(x *wire.Exit) Exit {
	exit := Exit{
		Code: -1, Refused: e.refused.Load(),
		Wall: time.Duration(max(x.Wall, 0)), CPU: time.Duration(max(x.CPU, 0)), Tasks: max(x.Tasks, 0),
		Scratch: Space{max(x.Bytes, -1), max(x.Inodes, -1), max(x.MaxBytes, -1), max(x.MaxIn, -1)},
	}
	if ws := syscall.WaitStatus(x.Status); ws.Signaled() {
		exit.Signal = int(ws.Signal())
	} else {
		exit.Code = ws.ExitStatus()
	}
	return exit
}
