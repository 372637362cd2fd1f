//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// Socket is what socket(2) is asked for.
type Socket struct {
	Family   int // AF_*
	Type     int // SOCK_*, without SOCK_NONBLOCK and SOCK_CLOEXEC
	Protocol int
}

// Sockets is every socket that a cell may make, and there are no others.
//
// Left out on purpose: AF_VSOCK, which no network namespace holds back;
// AF_ALG, AF_PACKET, AF_XDP and the many families whose code is large and
// seldom used; raw sockets; SCTP, MPTCP, UDP-Lite, ping and SMC, which are
// protocols of the allowed families; all of netlink: replies that nobody reads
// are memory that no group counts, and getifaddrs alone misses it.
func Sockets() []Socket { return append(unixSockets(), inetSockets()...) }

// inetSockets are TCP and UDP, over both versions of IP.
func inetSockets() []Socket {
	var out []Socket
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		out = append(out,
			Socket{family, unix.SOCK_STREAM, 0}, Socket{family, unix.SOCK_STREAM, unix.IPPROTO_TCP},
			Socket{family, unix.SOCK_DGRAM, 0}, Socket{family, unix.SOCK_DGRAM, unix.IPPROTO_UDP})
	}
	return out
}

// unixSockets is the part of Sockets that socketpair(2) may make too. The
// kernel takes the family's own number as the protocol, and some programs
// give it.
func unixSockets() []Socket {
	var out []Socket
	for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		out = append(out, Socket{unix.AF_UNIX, typ, 0}, Socket{unix.AF_UNIX, typ, unix.AF_UNIX})
	}
	return out
}

// narrowedSocket: family, type and protocol are int.
//
// What else is asked for gets the answer that programs know how to take: a
// raw socket that of a process without CAP_NET_RAW; a protocol or type of an
// allowed family that of a kernel without it, on which libaudit and the Go
// runtime (MPTCP) carry on; a family that of a kernel without it.
func narrowedSocket() Rule {
	cases := allowSockets(Sockets())
	unsupported := func(family uint32) Case {
		return Case{When: []Cond{int32Is(0, family)}, Then: Errno(unix.EPROTONOSUPPORT)}
	}
	return Rule{
		Name:   "socket",
		Action: Errno(unix.EAFNOSUPPORT),
		Cases: append(cases,
			Case{When: []Cond{int32Is(0, unix.AF_NETLINK)}, Then: Errno(unix.EAFNOSUPPORT)}, // before raw: its usual type
			Case{When: []Cond{typeIs(unix.SOCK_RAW)}, Then: eperm},
			Case{When: []Cond{typeIs(unix.SOCK_PACKET)}, Then: eperm},
			unsupported(unix.AF_UNIX),
			unsupported(unix.AF_INET),
			unsupported(unix.AF_INET6),
		),
		Args: "AF_UNIX; AF_INET and AF_INET6 with TCP or UDP",
		Why:  "a family or protocol is kernel code to attack, and AF_VSOCK reaches past every network namespace",
	}
}

// narrowedSocketpair: family, type and protocol are int. The kernel makes
// both sockets before it finds that a family has no pairs.
func narrowedSocketpair() Rule {
	return Rule{
		Name:   "socketpair",
		Action: Errno(unix.EOPNOTSUPP),
		Cases:  allowSockets(unixSockets()),
		Args:   "AF_UNIX",
		Why:    "the kernel makes sockets of any family before it refuses to pair them; the answer is what it says then",
	}
}

// allowSockets is one case for each.
func allowSockets(sockets []Socket) []Case {
	cases := make([]Case, 0, len(sockets))
	for _, s := range sockets {
		cases = append(cases, Case{
			When: []Cond{int32Is(0, uint32(s.Family)), typeIs(uint32(s.Type)), int32Is(2, uint32(s.Protocol))},
			Then: Allow,
		})
	}
	return cases
}

// typeIs holds if the type argument is typ, with or without its two flags.
// Bits that are neither must be clear, as the kernel wants them.
func typeIs(typ uint32) Cond {
	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	return Cond{Arg: 1, Mask: low32 &^ flags, Value: uint64(typ)}
}
