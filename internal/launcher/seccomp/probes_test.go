//go:build linux && (amd64 || arm64)

package seccomp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// allowedProbes are calls that the filter lets through.
func allowedProbes() []probe {
	var out []probe
	for _, s := range Sockets() {
		for _, flags := range []int{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
			out = append(out, probe{
				label: fmt.Sprintf("socket %+v flags %#x", s, flags), nr: unix.SYS_SOCKET,
				args: [arguments]uintptr{uintptr(s.Family), uintptr(s.Type | flags), uintptr(s.Protocol)},
			})
		}
	}
	return append(out,
		probe{label: "socket with high bits", nr: unix.SYS_SOCKET, args: [arguments]uintptr{unix.AF_UNIX | high, unix.SOCK_STREAM | high, high}},
		probe{label: "personality query", nr: unix.SYS_PERSONALITY, args: [arguments]uintptr{0xffffffff}},
		probe{label: "prctl PDEATHSIG SIGKILL", nr: unix.SYS_PRCTL, args: [arguments]uintptr{unix.PR_SET_PDEATHSIG, 9}},
		probe{label: "prctl PDEATHSIG 1<<32", nr: unix.SYS_PRCTL, args: [arguments]uintptr{unix.PR_SET_PDEATHSIG, high}},
		probe{label: "ioctl TIOCGWINSZ", nr: unix.SYS_IOCTL, args: [arguments]uintptr{^uintptr(0), unix.TIOCGWINSZ}},
		probe{label: "madvise", nr: unix.SYS_MADVISE, args: [arguments]uintptr{0, 0, unix.MADV_DONTNEED}},
	)
}

// refusedProbes are calls that it does not.
func refusedProbes() []probe {
	return slices.Concat(refusedNumbers(CellPolicy), refusedSockets(Sockets(), socketError), refusedArguments())
}

// refusedNumbers are the numbers that a policy refuses whatever their arguments
// are, and those between and after them that nothing has.
func refusedNumbers(policy func() (Policy, error)) []probe {
	p, err := policy()
	if err != nil {
		panic(err) // there is a profile where this file is built
	}
	narrowed := make(map[uint32]bool)
	for _, r := range p.Rules {
		narrowed[r.Nr] = r.Cases != nil
	}
	var out []probe
	ones := ^uintptr(0)
	for nr := range uint32(600) {
		a := naive(p, call{arch: p.Arch, nr: nr})
		if a == Allow || narrowed[nr] || unfiltered(nr) {
			continue
		}
		out = append(out, probe{
			label: fmt.Sprint("number ", nr), nr: uintptr(nr),
			args: [arguments]uintptr{ones, ones, ones, ones, ones, ones}, want: unix.Errno(a & unix.SECCOMP_RET_DATA),
		})
	}
	return out
}

// probes are gathered one after another.
type probes []probe

// refused adds a call, as it is and with the bits set that the kernel does not
// read.
func (out *probes) refused(label string, nr uintptr, want unix.Errno, args ...uintptr) {
	for _, bits := range []uintptr{0, high, highWord} {
		p := probe{label: fmt.Sprintf("%s %#x|%#x", label, args, bits), nr: nr, want: want}
		for i, a := range args {
			p.args[i] = a | bits
		}
		*out = append(*out, p)
	}
}

// refusedArguments are the ways to get past a narrowed call.
func refusedArguments() []probe {
	var out probes
	noFile := ^uintptr(0)
	for _, cmd := range []uintptr{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS, unix.TIOCSETD} {
		out.refused("ioctl", unix.SYS_IOCTL, unix.EPERM, noFile, cmd)
	}
	for _, flag := range namespaceFlags() {
		out.refused("clone", unix.SYS_CLONE, unix.EPERM, flag|uintptr(unix.SIGCHLD))
	}
	for _, option := range []uintptr{unix.PR_SET_PTRACER, unix.PR_SCHED_CORE, unix.PR_SET_MEMORY_MERGE} {
		out.refused("prctl", unix.SYS_PRCTL, unix.EINVAL, option)
	}
	out.refused("prctl MM", unix.SYS_PRCTL, unix.EPERM, unix.PR_SET_MM)
	out.refused("personality", unix.SYS_PERSONALITY, unix.EPERM, 0x0040000)
	out.refused("madvise", unix.SYS_MADVISE, unix.EINVAL, 0, 0, unix.MADV_MERGEABLE)
	out.refused("setsockopt", unix.SYS_SETSOCKOPT, unix.ENOENT, noFile, unix.IPPROTO_TCP, unix.TCP_ULP)
	out.refused("socketpair", unix.SYS_SOCKETPAIR, unix.EOPNOTSUPP, unix.AF_INET, unix.SOCK_STREAM)
	return append(out,
		probe{"prctl PDEATHSIG 0", unix.SYS_PRCTL, [arguments]uintptr{unix.PR_SET_PDEATHSIG, 0}, unix.EPERM},
		probe{"prctl PDEATHSIG|high 0", unix.SYS_PRCTL, [arguments]uintptr{unix.PR_SET_PDEATHSIG | high, 0}, unix.EPERM},
		probe{"prctl SPECULATION", unix.SYS_PRCTL, [arguments]uintptr{unix.PR_SET_SPECULATION_CTRL | high, 0, unix.PR_SPEC_ENABLE}, unix.EPERM},
	)
}

// unfiltered reports whether nr is one of uprobe's two calls, which newer
// kernels take without asking a filter.
func unfiltered(nr uint32) bool {
	return auditArch == unix.AUDIT_ARCH_X86_64 && (nr == 335 || nr == 336)
}

func namespaceFlags() []uintptr {
	return []uintptr{
		unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
		unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET, cloneNewTime,
	}
}

// refusedSockets are the families 0 to 45 with every type that are not allowed.
func refusedSockets(allowed []Socket, want func(Socket) unix.Errno) []probe {
	var out []probe
	for family := range 46 {
		for typ := range 11 {
			for _, protocol := range []int{0, unix.IPPROTO_ICMP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, unix.IPPROTO_MPTCP, unix.NETLINK_AUDIT} {
				if s := (Socket{family, typ, protocol}); !slices.Contains(allowed, s) {
					out = append(out, probe{
						label: fmt.Sprintf("socket %+v", s), nr: unix.SYS_SOCKET,
						args: [arguments]uintptr{uintptr(family), uintptr(typ), uintptr(protocol)}, want: want(s),
					})
				}
			}
		}
	}
	return out
}

// socketError is the documented answer to a socket that is not allowed.
func socketError(s Socket) unix.Errno {
	switch {
	case s.Family == unix.AF_NETLINK:
		return unix.EAFNOSUPPORT
	case s.Type == unix.SOCK_RAW || s.Type == unix.SOCK_PACKET:
		return unix.EPERM
	case s.Family == unix.AF_UNIX || s.Family == unix.AF_INET || s.Family == unix.AF_INET6:
		return unix.EPROTONOSUPPORT
	default:
		return unix.EAFNOSUPPORT
	}
}
