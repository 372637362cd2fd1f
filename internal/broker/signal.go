package broker

import "strconv"

// signalName returns the name of a signal of Linux, where every cell runs
// whatever the host is; "" for 0.
func signalName(n int) string {
	names := [...]string{"", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
		"SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD",
		"SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM",
		"SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"}
	if n < 0 || n >= len(names) {
		return "SIG" + strconv.Itoa(n)
	}
	return names[n]
}
