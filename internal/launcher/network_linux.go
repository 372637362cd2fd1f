package launcher

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// What waits in a cell's sockets until the egress process reads it is memory
// that no group counts. It is bounded by how many connections wait, and how
// much each holds.
const (
	ownBacklog   = 64  // of a program's own listeners
	gateBacklog  = 128 // of ours: programs open many connections at once
	socketBuffer = 64 << 10
)

// openGate gives a network namespace what a cell with a network has: its
// addresses, and sockets of the host in it, open, bound and listening. They are
// the caller's, in the order of Spec.Sockets.
//
// It is done on a thread that goes there and ends there: none of ours can be
// left in a cell's namespace.
func openGate(netns int, spec *wire.Spec) (fds []int, err error) {
	onOwnThread(func() {
		if err = unix.Setns(netns, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		if err = addAddresses(spec.Addrs); err == nil {
			fds, err = openSockets(spec)
		}
	})
	return fds, err
}

// openSockets opens a cell's sockets in the calling thread's namespace. On an
// error none is left.
func openSockets(spec *wire.Spec) (fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	// A program's own listeners keep the bound that they have without a
	// network.
	if err := setBacklog(gateBacklog); err != nil {
		return nil, err
	}
	for _, s := range spec.Sockets() {
		fd, err := openSocket(s)
		if err != nil {
			return fds, fmt.Errorf("socket for port %d: %w", s.Port, err)
		}
		fds = append(fds, fd)
	}
	return fds, setBacklog(ownBacklog)
}

// setBacklog bounds the backlog of what begins to listen in the calling
// thread's network namespace.
func setBacklog(n int) error {
	if err := os.WriteFile("/proc/sys/net/core/somaxconn", []byte(strconv.Itoa(n)), 0); err != nil {
		return fmt.Errorf("bound what waits to be accepted: %w", err)
	}
	return nil
}

// openSocket opens one socket, which listens where it is a stream.
func openSocket(s wire.Socket) (fd int, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if s.V6 {
		family = unix.AF_INET6
	}
	if s.Use == wire.UseDNS {
		kind = unix.SOCK_DGRAM
	}
	if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	if err = prepare(fd, s, kind); err != nil {
		return fd, err
	}
	if err = unix.Bind(fd, address(s)); err != nil {
		return fd, fmt.Errorf("bind: %w", err)
	}
	if kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, gateBacklog)
	}
	return fd, err
}

// prepare sets what must be before the bind. Buffers are inherited by what is
// accepted, and do not grow.
//
// Our own ports may be among the cell's too (another name server, another
// proxy): the listener for every address then stands beside ours at one
// address, which the kernel prefers. A program cannot join them: its uid is
// another.
func prepare(fd int, s wire.Socket, kind int) error {
	if kind != unix.SOCK_STREAM {
		return nil
	}
	options := [][3]int{{unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer / 2}, {unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer / 2}} // the kernel doubles it
	if s.V6 {
		options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1})
	} else if s.Port == wire.PortDNS || s.Port == wire.PortProxy {
		options = append(options, [3]int{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return fmt.Errorf("option %d: %w", o[1], err)
		}
	}
	return nil
}

func address(s wire.Socket) unix.Sockaddr {
	switch {
	case s.V6:
		return &unix.SockaddrInet6{Port: int(s.Port)}
	case s.Use == wire.UseListen:
		return &unix.SockaddrInet4{Port: int(s.Port)}
	}
	return &unix.SockaddrInet4{Port: int(s.Port), Addr: [4]byte{127, 0, 0, 53}}
}

// loopbackIndex is the loopback's number in every network namespace.
const loopbackIndex = 1

// addAddresses gives the loopback of the calling thread's namespace the range
// out of which names get their addresses, and the addresses that have no name.
func addAddresses(addrs [][16]byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(s)
	if err := addAddress(s, []byte{198, 18, 0, 1}, 15); err != nil {
		return err
	}
	for _, a := range addrs {
		text := a[:]
		if b, ok := wire.Addr4(a); ok {
			text = b[:]
		}
		if err := addAddress(s, text, 8*len(text)); err != nil {
			return err
		}
	}
	return nil
}

// addAddress sends one RTM_NEWADDR and takes its answer, which is there when
// the sending has returned.
func addAddress(s int, addr []byte, prefix int) error {
	if err := unix.Sendto(s, newAddress(addr, prefix), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("add address %d.../%d: %w", addr[0], prefix, err)
	}
	b := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, b, unix.MSG_DONTWAIT)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("netlink: %d bytes that are no answer: %w", n, unix.EPROTO)
	}
	if code := int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); code != 0 {
		return fmt.Errorf("add an address of %d bits to the loopback: %w", 8*len(addr), unix.Errno(-code))
	}
	return nil
}

// newAddress lays out struct nlmsghdr, struct ifaddrmsg and two attributes: the
// address, and once more as the one of the far end, as a link without one has
// it.
func newAddress(addr []byte, prefix int) []byte {
	family := uint8(unix.AF_INET)
	if len(addr) == 16 {
		family = unix.AF_INET6
	}
	attribute := unix.SizeofRtAttr + len(addr)
	size := unix.NLMSG_HDRLEN + unix.SizeofIfAddrmsg + 2*attribute
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWADDR)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b = append(b, make([]byte, 8)...) // sequence number and sender
	b = append(b, family, uint8(prefix), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE)
	b = binary.NativeEndian.AppendUint32(b, loopbackIndex)
	for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		b = binary.NativeEndian.AppendUint16(b, uint16(attribute))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, addr...)
	}
	return b
}
