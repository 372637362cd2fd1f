//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Unpack returns the filter of the unpacker for the architecture that the
// program was built for: what the Go runtime needs, reading a stream, and
// making files, directories and links in the one place that is there, or reading
// them.
//
// Its errors are those of Cell.
func Unpack() ([]unix.SockFilter, error) {
	policy, err := UnpackPolicy()
	if err != nil {
		return nil, err
	}
	return Compile(policy)
}

// UnpackPolicy returns what Unpack compiles, as EgressPolicy does. The caller
// owns it.
//
// Its errors are those of Cell.
func UnpackPolicy() (Policy, error) {
	if len(profile) == 0 {
		return Policy{}, fmt.Errorf("seccomp: no profile for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	return admit(auditArch, profile, profileNewest, unpackLists()), nil
}

// UnpackRules returns the rules of UnpackPolicy that allow something, or none
// on an architecture that has no profile. The caller owns them.
func UnpackRules() []Rule { return allowing(UnpackPolicy()) }

func unpackLists() lists {
	return lists{
		allowed: []allowance{
			{[]string{"munmap", "madvise"}, "the heap gives memory back"},
			{[]string{"exit", "exit_group", "gettid", "getpid", "tgkill", "sched_yield", "sched_getaffinity", "nanosleep"},
				"threads, and goroutines that run too long; nobody but the process itself is in its namespace"},
			{[]string{"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"}, "handlers of signals"},
			{[]string{"clock_gettime", "gettimeofday"}, "where the clock cannot be read without a call"},
			{[]string{"getrandom"}, "seeds of the runtime's"},
			{[]string{"read", "write", "pread64", "pwrite64", "close", "fstat", "lseek"}, "the stream, and files that it makes"},
			{[]string{"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2"}, "the poller"},
			{[]string{"openat", "openat2", "mkdirat", "symlinkat", "linkat", "unlinkat", "utimensat", "newfstatat"},
				"its work; it sees one directory, of which it is the owner, and nothing in it is executed or a device"},
			{[]string{"getdents64", "readlinkat"}, "who checks its work lists that directory, which it cannot change, and reads its links"},
		},
		narrowed: []Rule{
			egressThread(),
			egressExec(),
			egressFutex(),
			egressMemory("mmap"),
			egressMemory("mprotect"),
			egressLimits(),
			egressArchPrctl(),
			unpackFcntl(),
			unpackMode("fchmod", 1),
			unpackMode("fchmodat", 2),
		},
		whyNot: "the process makes files of a stream and does nothing else",
	}
}

// unpackFcntl: the command is unsigned int.
func unpackFcntl() Rule {
	rule := Rule{Name: "fcntl", Action: eperm, Args: "F_GETFD, F_SETFD, F_GETFL, F_SETFL", Why: "the runtime looks whether its streams wait"}
	for _, cmd := range []uint32{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL} {
		rule.Cases = append(rule.Cases, Case{When: []Cond{int32Is(1, cmd)}, Then: Allow})
	}
	return rule
}

// unpackMode: the kernel reads the low 16 bits of the mode.
func unpackMode(name string, arg int) Rule {
	return Rule{
		Name:   name,
		Action: eperm,
		Cases:  []Case{{When: []Cond{noneOf(arg, unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX)}, Then: Allow}},
		Args:   "no set-uid, set-gid or sticky bit",
		Why:    "modes of what it makes",
	}
}
