//go:build unix

package spent

import (
	"syscall"
	"time"
)

// CPU returns the time that this process was on a CPU so far, its children's not
// counted. Other goroutines' is in it.
func CPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // of a process there is: cannot be
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
