//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// allowance is a row of names that the egress process may call with whatever
// arguments.
type allowance struct {
	names []string
	why   string
}

func egressAllowed() []allowance {
	return []allowance{
		{[]string{"munmap", "madvise"}, "the heap gives memory back"},
		{[]string{"exit", "exit_group", "gettid", "getpid", "tgkill", "sched_yield", "sched_getaffinity", "nanosleep"},
			"threads, and goroutines that run too long; nobody but the process itself is in its namespace"},
		{[]string{"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"}, "handlers of signals"},
		{[]string{"clock_gettime", "gettimeofday"}, "where the clock cannot be read without a call"},
		{[]string{"getrandom"}, "keys of TLS"},
		{[]string{"uname"}, "the net package asks how old the kernel is"},
		{[]string{"read", "write", "readv", "writev", "pread64", "close", "fstat", "lseek"}, "on descriptors that it holds; it can open none"},
		{[]string{"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2"}, "the poller"},
		{[]string{"pipe2", "splice"}, "bytes pass from one connection to the other without a copy"},
		{[]string{"connect"}, "its work"},
		{[]string{"accept4"}, "on the sockets that come with a call; it can bind and listen on none of its own"},
		{[]string{"getsockname", "getpeername", "shutdown", "sendto", "recvfrom", "sendmsg", "recvmsg"}, "connections and their messages"},
	}
}

// egressNarrowed are the calls that depend on their arguments. Nr is filled in
// for the architecture.
func egressNarrowed() []Rule {
	return []Rule{
		egressThread(),
		egressExec(),
		egressFutex(),
		egressMemory("mmap"),
		egressMemory("mprotect"),
		egressLimits(),
		egressArchPrctl(),
		egressPrctl(),
		egressFcntl(),
		egressSocket(),
		egressBind(),
		egressSetsockopt(),
		egressGetsockopt(),
	}
}

// threadFlags are those with which the Go runtime makes a thread. On amd64
// SETTLS is among them too.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD

// egressThread: the kernel reads the low 32 bits of an unsigned long.
func egressThread() Rule {
	return Rule{
		Name:   "clone",
		Action: eperm,
		Cases:  []Case{{When: []Cond{{Arg: 0, Mask: low32 &^ unix.CLONE_SETTLS, Value: threadFlags}}, Then: Allow}},
		Args:   "the flags of a thread, exactly",
		Why:    "threads, and no process",
	}
}

// egressExec: descriptor and flags are int.
func egressExec() Rule {
	return Rule{
		Name:   "execveat",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(0, EgressBinary), int32Is(4, unix.AT_EMPTY_PATH)}, Then: Allow}},
		Args:   "the binary's descriptor, with AT_EMPTY_PATH",
		Why:    "the start, which the filter is in force for; after it the descriptor is closed, and no file can be opened or made to take its place",
	}
}

// egressFutex: the operation is int.
func egressFutex() Rule {
	const wait, wake = 0 | futexPrivate, 1 | futexPrivate
	return Rule{
		Name:   "futex",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(1, wait)}, Then: Allow}, {When: []Cond{int32Is(1, wake)}, Then: Allow}},
		Args:   "FUTEX_WAIT and FUTEX_WAKE, private",
		Why:    "locks of the runtime; the other operations have a history",
	}
}

// egressMemory: the protection is an unsigned long.
func egressMemory(name string) Rule {
	return Rule{
		Name:   name,
		Action: eperm,
		Cases:  []Case{{When: []Cond{noneOf(2, unix.PROT_EXEC)}, Then: Allow}},
		Args:   "not PROT_EXEC",
		Why:    "the heap; no code but the binary's",
	}
}

// egressLimits: the process is a pid_t, the limits are pointers.
func egressLimits() Rule {
	return Rule{
		Name:   "prlimit64",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(0, 0), int64Is(2, 0)}, Then: Allow}},
		Args:   "of itself, without new ones",
		Why:    "the runtime looks how many files may be open",
	}
}

// egressArchPrctl: the code is int.
func egressArchPrctl() Rule {
	const setFS = 0x1002
	return Rule{
		Name:   "arch_prctl",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(0, setFS)}, Then: Allow}},
		Args:   "ARCH_SET_FS",
		Why:    "the first thread's own memory",
	}
}

// egressPrctl: the option is int, the value unsigned long.
func egressPrctl() Rule {
	return Rule{
		Name:   "prctl",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(0, unix.PR_SET_DUMPABLE), int64Is(1, 0)}, Then: Allow}},
		Args:   "PR_SET_DUMPABLE with 0",
		Why:    "no picture of its memory; nothing that makes it weaker, such as another signal at the launcher's death",
	}
}

// egressFcntl: the command is unsigned int.
func egressFcntl() Rule {
	rule := Rule{
		Name:   "fcntl",
		Action: eperm,
		Args:   "F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GET_SEALS, F_SETPIPE_SZ",
		Why:    "descriptors that it is given",
	}
	for _, cmd := range []uint32{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_DUPFD_CLOEXEC, unix.F_GET_SEALS, unix.F_SETPIPE_SZ} {
		rule.Cases = append(rule.Cases, Case{When: []Cond{int32Is(1, cmd)}, Then: Allow})
	}
	return rule
}

// egressSocket: family, type and protocol are int.
func egressSocket() Rule {
	return Rule{
		Name:   "socket",
		Action: Errno(unix.EAFNOSUPPORT),
		Cases:  allowSockets(EgressSockets()),
		Args:   "AF_INET and AF_INET6 with TCP or UDP; AF_NETLINK with NETLINK_ROUTE",
		Why:    "connections, questions to name servers, and which addresses are this host's own",
	}
}

// egressBind: the length is int. A socket of another family takes none that is
// as short as netlink's.
func egressBind() Rule {
	return Rule{
		Name:   "bind",
		Action: eperm,
		Cases:  []Case{{When: []Cond{int32Is(2, unix.SizeofSockaddrNetlink)}, Then: Allow}},
		Args:   "an address as short as netlink's",
		Why:    "the net package binds its netlink socket; no address of the host is ever taken",
	}
}

// egressSetsockopt: level and option are int.
func egressSetsockopt() Rule {
	rule := Rule{
		Name:   "setsockopt",
		Action: Errno(unix.ENOPROTOOPT),
		Args: "SO_BROADCAST, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_SNDBUF; TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT; " +
			"IPV6_V6ONLY",
		Why: "what the net package sets; the answer is that of a kernel without the option",
	}
	allow := func(level uint32, options ...uint32) {
		for _, o := range options {
			rule.Cases = append(rule.Cases, Case{When: []Cond{int32Is(1, level), int32Is(2, o)}, Then: Allow})
		}
	}
	allow(unix.SOL_SOCKET, unix.SO_BROADCAST, unix.SO_KEEPALIVE, unix.SO_LINGER, unix.SO_RCVBUF, unix.SO_SNDBUF)
	allow(unix.IPPROTO_TCP, unix.TCP_NODELAY, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_USER_TIMEOUT)
	allow(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	return rule
}

// egressGetsockopt: level and option are int.
func egressGetsockopt() Rule {
	rule := Rule{
		Name:   "getsockopt",
		Action: Errno(unix.ENOPROTOOPT),
		Args:   "SO_ERROR, SO_TYPE, SO_PROTOCOL, SO_DOMAIN, SO_ACCEPTCONN, SO_RCVBUF, SO_SNDBUF",
		Why:    "how a connection went, and what kind of socket came",
	}
	for _, o := range []uint32{unix.SO_ERROR, unix.SO_TYPE, unix.SO_PROTOCOL, unix.SO_DOMAIN, unix.SO_ACCEPTCONN, unix.SO_RCVBUF, unix.SO_SNDBUF} {
		rule.Cases = append(rule.Cases, Case{When: []Cond{int32Is(1, unix.SOL_SOCKET), int32Is(2, o)}, Then: Allow})
	}
	return rule
}

// futexPrivate is FUTEX_PRIVATE_FLAG.
const futexPrivate = 128
