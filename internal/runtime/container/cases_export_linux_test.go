package container

import (
	"context"
	"os"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/link"
)

// Start returns a runtime with launchers of its own.
func Start(config link.Config) *Runtime { return New(link.New(config)) }

// Close ends the launchers of a runtime that has its own.
func (r *Runtime) Close() error { return r.launchers.Close() }

// Own returns the launchers of a runtime that has its own.
func (r *Runtime) Own() *link.Launchers { return r.launchers }

// StartEgress starts the egress process with the runtime's launchers.
func (r *Runtime) StartEgress(ctx context.Context, control *os.File) (*link.Egress, error) {
	return r.launchers.StartEgress(ctx, control)
}

// Trees returns the store of the runtime's launchers.
func (r *Runtime) Trees() *link.Trees { return r.launchers.Trees("0a") }

// SetPatience is how long tests wait for a launcher that they have stopped.
func (r *Runtime) SetPatience(d time.Duration) { r.launchers.SetPatienceForTest(d) }

// Launcher returns the process numbers of the launcher that the next cell is
// asked of, and of its reaper.
func (r *Runtime) Launcher() (launcher, reaper int, err error) {
	return r.launchers.Next(context.Background())
}

// Launchers returns the process numbers of all launchers that live and have
// said hello.
func (r *Runtime) Launchers() []int { return r.launchers.Processes() }

// LauncherOf returns the process number of the launcher that has the cell.
func LauncherOf(c cell.Cell) int { return c.(*containerCell).slot.Launcher() }
