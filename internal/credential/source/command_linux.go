package source

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/credential/secret"
)

// pipePatience is how long a pipe is read that others than the program keep
// open.
const pipePatience = time.Second

var errOutput = errors.New("it writes more than 64 KiB")

// Fetch runs the program.
func (c *commandSource) Fetch(ctx context.Context, r Request) (*Grant, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s, err := read(Command, func(room []byte) (int, error) { return c.run(ctx, r, room) })
	if err != nil {
		return nil, err
	}
	return single(s), nil
}

// run runs the program and returns how much it wrote into room. If this process
// dies, the program does: its parent is a thread, which is kept until it has ended.
func (c *commandSource) run(ctx context.Context, r Request, room []byte) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := &intoRoom{room: room}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout = c.environment(r), "/", out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipePatience
	if err := cmd.Start(); err != nil {
		return 0, &Fault{Command, Failed, "it cannot be started", "is it a program of this machine's, and executable?"}
	}
	err := waitGroup(ctx, cmd)
	var exit *exec.ExitError
	switch {
	case out.full:
		return 0, &Fault{Command, Invalid, errOutput.Error(), "is it the secret alone?"}
	case ctx.Err() != nil:
		return 0, timeout(Command)
	case errors.As(err, &exit):
		return 0, &Fault{Command, Failed, "it ended with " + ending(exit), "run it by hand, as this process's user, to see why"}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return 0, &Fault{Command, Failed, "what it wrote cannot be read", ""}
	}
	return out.n, nil
}

// waitGroup waits for the program, or until ctx ends, and kills what there is
// of its group. That is done before the program is reaped, for until then its
// number is nobody else's.
func waitGroup(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	kill := func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	select {
	case <-ended:
	case <-ctx.Done():
		kill()
		<-ended
	}
	kill()
	return cmd.Wait()
}

func ending(exit *exec.ExitError) string {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "a signal"
	}
	return "status " + strconv.Itoa(exit.ExitCode())
}

// intoRoom is read from a pipe straight into a secret's room.
type intoRoom struct {
	room []byte
	n    int
	full bool
}

// ReadFrom is what io.Copy uses, so that there is no buffer in between.
func (o *intoRoom) ReadFrom(r io.Reader) (int64, error) {
	n, err := readFull(r, o.room)
	o.n = n
	if o.full = n > secret.MaxBytes+2; o.full {
		return int64(n), errOutput
	}
	return int64(n), err
}

// Write is there because os/exec wants it.
func (o *intoRoom) Write(p []byte) (int, error) {
	n := copy(o.room[o.n:], p)
	o.n += n
	if n < len(p) {
		o.full = true
		return n, errOutput
	}
	return n, nil
}
