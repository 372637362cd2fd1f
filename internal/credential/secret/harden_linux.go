package secret

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden makes the process one that can hold secrets: it leaves no core dump,
// neither as a file nor by a handler of the kernel's, and no other process of
// its user can trace it or read its memory. To be called once the process has
// the user that it keeps, for the kernel forgets it when that changes. It
// holds for the whole process, not for those that it starts. After it the
// process's own files in /proc belong to root: who is not root can no longer
// read its /proc/self/environ, say.
func Harden() error {
	var faults []error
	// Of at most one byte, as what this process starts has it: from less it
	// could not get there without CAP_SYS_RESOURCE.
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		faults = append(faults, fmt.Errorf("read the limit of core dumps: %w", err))
	}
	core.Max = min(core.Max, 1)
	core.Cur = core.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		faults = append(faults, fmt.Errorf("forbid core dumps: %w", err))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		faults = append(faults, fmt.Errorf("forbid other processes to read the memory: %w", err))
	}
	return errors.Join(faults...)
}
