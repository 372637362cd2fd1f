package container

import "time"

// SetPatience is how long tests wait for a launcher that they have stopped.
func (r *Runtime) SetPatience(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patience, r.link.patience = d, d
}

// Launcher returns the process numbers of the launcher and its reaper.
func (r *Runtime) Launcher() (launcher, reaper int, err error) {
	l, hello, err := r.connect()
	if err != nil {
		return 0, 0, err
	}
	return l.process.pid, int(hello.Reaper), nil
}
