package container

import (
	"context"
	"time"

	"github.com/callcell/callcell/internal/cell"
)

// SetPatience is how long tests wait for a launcher that they have stopped.
func (r *Runtime) SetPatience(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounds = bounds{d, d}
	for _, l := range r.links {
		l.mu.Lock()
		l.bounds = r.bounds
		l.mu.Unlock()
	}
}

// Launcher returns the process numbers of the launcher that the next cell is
// asked of, and of its reaper.
func (r *Runtime) Launcher() (launcher, reaper int, err error) {
	l, hello, err := r.take(context.Background(), wantHello)
	if err != nil {
		return 0, 0, err
	}
	return l.process.pid, int(hello.Reaper), nil
}

// Launchers returns the process numbers of all launchers that live and have
// said hello.
func (r *Runtime) Launchers() (pids []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.alive() && closed(l.greeted) {
			pids = append(pids, l.process.pid)
		}
	}
	return pids
}

// LauncherOf returns the process number of the launcher that has the cell.
func LauncherOf(c cell.Cell) int { return c.(*containerCell).link.process.pid }

// Launcher returns the process number of the launcher that has the process.
func (e *Egress) Launcher() int { return e.link.process.pid }

// SizeGrown looks at a text of /proc/PID/status.
func SizeGrown(status string, cells int) bool { return sizeGrown(status, cells) }
