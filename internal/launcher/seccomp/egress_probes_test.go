//go:build linux && (amd64 || arm64)

package seccomp

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func egressFiltered() error {
	if err := installEverywhere(Egress); err != nil {
		return err
	}
	return askAll(slices.Concat(egressAllowedProbes(), egressRefusedProbes()))
}

// egressAllowedProbes are calls that the filter of the egress process lets
// through.
func egressAllowedProbes() []probe {
	var out []probe
	for _, s := range EgressSockets() {
		out = append(out, probe{
			label: fmt.Sprintf("socket %+v", s), nr: unix.SYS_SOCKET,
			args: [arguments]uintptr{uintptr(s.Family), uintptr(s.Type | unix.SOCK_CLOEXEC), uintptr(s.Protocol)},
		})
	}
	noFile := ^uintptr(0)
	return append(out,
		probe{label: "bind as for netlink", nr: unix.SYS_BIND, args: [arguments]uintptr{noFile, 0, unix.SizeofSockaddrNetlink}},
		probe{label: "setsockopt", nr: unix.SYS_SETSOCKOPT, args: [arguments]uintptr{noFile, unix.IPPROTO_TCP, unix.TCP_NODELAY}},
		probe{label: "getsockopt", nr: unix.SYS_GETSOCKOPT, args: [arguments]uintptr{noFile, unix.SOL_SOCKET, unix.SO_ERROR}},
		probe{label: "execveat of no file", nr: unix.SYS_EXECVEAT, args: [arguments]uintptr{EgressBinary, 1, 0, 0, unix.AT_EMPTY_PATH}},
		probe{label: "mprotect of nothing", nr: unix.SYS_MPROTECT, args: [arguments]uintptr{0, 0, unix.PROT_READ}},
		probe{label: "connect", nr: unix.SYS_CONNECT, args: [arguments]uintptr{noFile}},
		probe{label: "accept4", nr: unix.SYS_ACCEPT4, args: [arguments]uintptr{noFile}},
	)
}

// egressRefusedProbes are calls that it does not: every number without a rule
// of its own, every other socket, and the ways past the narrowed ones.
func egressRefusedProbes() []probe {
	noFamily := func(Socket) unix.Errno { return unix.EAFNOSUPPORT }
	return slices.Concat(refusedNumbers(EgressPolicy), refusedSockets(EgressSockets(), noFamily), egressRefusedArguments())
}

// egressRefusedArguments are the ways to get past a call that the egress process
// has in part.
func egressRefusedArguments() []probe {
	var out probes
	noFile := ^uintptr(0)
	out.refused("clone of a process", unix.SYS_CLONE, unix.EPERM, uintptr(unix.SIGCHLD))
	for _, flag := range namespaceFlags() {
		out.refused("clone", unix.SYS_CLONE, unix.EPERM, flag|threadFlags)
	}
	for _, fd := range []uintptr{0, 1, 2, 3, 5, noFile} {
		out.refused("execveat", unix.SYS_EXECVEAT, unix.EPERM, fd, 1, 0, 0, unix.AT_EMPTY_PATH)
	}
	out.refused("execveat of a path", unix.SYS_EXECVEAT, unix.EPERM, EgressBinary, 1, 0, 0, 0)
	out.refused("bind IPv4", unix.SYS_BIND, unix.EPERM, noFile, 0, unix.SizeofSockaddrInet4)
	out.refused("bind IPv6", unix.SYS_BIND, unix.EPERM, noFile, 0, unix.SizeofSockaddrInet6)
	out.refused("setsockopt ULP", unix.SYS_SETSOCKOPT, unix.ENOPROTOOPT, noFile, unix.IPPROTO_TCP, unix.TCP_ULP)
	out.refused("getsockopt PEERCRED", unix.SYS_GETSOCKOPT, unix.ENOPROTOOPT, noFile, unix.SOL_SOCKET, unix.SO_PEERCRED)
	out.refused("fcntl SETOWN", unix.SYS_FCNTL, unix.EPERM, noFile, unix.F_SETOWN)
	out.refused("prctl PDEATHSIG", unix.SYS_PRCTL, unix.EPERM, unix.PR_SET_PDEATHSIG, 0)
	out.refused("mprotect EXEC", unix.SYS_MPROTECT, unix.EPERM, 0, 0, unix.PROT_EXEC)
	out.refused("prlimit of another", unix.SYS_PRLIMIT64, unix.EPERM, 1<<31-1, 0, 0, 0)
	return append(out,
		probe{"mmap EXEC", unix.SYS_MMAP, [arguments]uintptr{0, 0, unix.PROT_EXEC}, unix.EPERM},
		probe{"prlimit with new ones", unix.SYS_PRLIMIT64, [arguments]uintptr{0, 99, 1}, unix.EPERM},
		probe{"futex LOCK_PI", unix.SYS_FUTEX, [arguments]uintptr{0, 6 | futexPrivate}, unix.EPERM},
	)
}

// The process goes on to live behind the filter: it prints what came.
func TestKernelEnforcesTheEgressPolicy(t *testing.T) {
	kernelEnforces(t, egressAllowedProbes(), egressRefusedProbes(), runChild(t, "egress bare"), runChild(t, "egress filtered"))
}
