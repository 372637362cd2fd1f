package link

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// Egress is the process that makes connections for cells:
// in the host's network, without a file, a capability or a system call that it
// has no use for. It ends with its control conversation, with the launcher, or
// by Close.
type Egress struct {
	slot *Slot

	once   sync.Once
	report envelope.Report // set by once
}

// StartEgress starts the process. control is its end of the control
// conversation, a SOCK_SEQPACKET socket of the UNIX family, which becomes its
// descriptor 3; the caller's copy stays the caller's. There may be two processes
// at once. An error is a *cell.Error; then none is left.
func (r *Launchers) StartEgress(ctx context.Context, control *os.File) (*Egress, error) {
	const step = "start the egress process"
	if err := ctx.Err(); err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	fd, err := duplicate(control)
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	defer unix.Close(fd)
	l, err := r.serving(ctx, wantEgress, step)
	if err != nil {
		return nil, err
	}
	s, err := l.open(ctx, &wire.Egress{}, step, fd)
	if err != nil {
		return nil, err
	}
	closeAll(s.FDs) // there are none
	return &Egress{slot: s}, nil
}

// duplicate returns a descriptor of the same file, whatever becomes of f.
func duplicate(f *os.File) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	if closed := conn.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); closed != nil {
		return -1, closed
	}
	return fd, err
}

// Launcher returns the process number of the launcher that has the process.
func (e *Egress) Launcher() int { return e.slot.Launcher() }

// Close ends the process, if it has not ended, and reports what was looked for
// as the teardown of a cell does; what it said last is in the report where it
// had ended badly by itself. It is idempotent, may be called concurrently, and
// is bounded in time whatever ctx says.
func (e *Egress) Close(context.Context) envelope.Report {
	e.once.Do(func() { e.report = e.slot.Destroy() })
	return envelope.Report{Complete: e.report.Complete, Checks: append([]envelope.Check(nil), e.report.Checks...)}
}
