package world

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Packet is one that left near by the cable.
type Packet struct {
	Protocol string         // tcp, udp, icmp, or the number
	To       netip.AddrPort // port 0 where the protocol has none
	SYN      bool           // a TCP connection begins
}

// sent is a Packet as the capture keeps it.
type sent struct {
	Packet
	from netip.AddrPort
	bare bool // of TCP, and neither begins a connection nor says anything on it
}

// snapLength is how much of a packet is looked at.
const snapLength = 256

// A capture keeps what leaves near.
type capture struct {
	file *os.File
	raw  int // the same, for system calls; -1 once closed
	done chan struct{}

	mu      sync.Mutex // guards what follows
	packets []sent
	marks   map[uint16]chan struct{} // waiting for the packet of that port
}

// newCapture listens at near's end of the cable.
func newCapture(near *space, device string) (c *capture, err error) {
	near.do(func() { c, err = openCapture(device) })
	if err != nil {
		return nil, fmt.Errorf("world: capture: %w", err)
	}
	go c.read()
	return c, nil
}

func openCapture(device string) (*capture, error) {
	index, err := deviceIndex(device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	const ancillary, kindOfPacket = 0xfffff000, 4 // linux/filter.h: SKF_AD_OFF, SKF_AD_PKTTYPE
	leaving := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: ancillary + kindOfPacket},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_OUTGOING, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: snapLength},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(leaving)), Filter: &leaving[0]}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index}),
	)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &capture{
		file: os.NewFile(uintptr(fd), "capture"), raw: fd,
		done: make(chan struct{}), marks: map[uint16]chan struct{}{},
	}, nil
}

// deviceIndex asks in the caller's namespace: package net has a cache for all.
func deviceIndex(device string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr)
	return int(ifr.Uint32()), err
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }

// read notes packets until the socket is closed.
func (c *capture) read() {
	defer close(c.done)
	conn, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, snapLength)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil || failed != nil {
			return
		}
		if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Pkttype == unix.PACKET_OUTGOING {
			c.note(htons(at.Protocol), buf[:n])
		}
	}
}

// note keeps an IP packet, but not what the kernel itself says to its
// neighbours.
func (c *capture) note(protocol uint16, b []byte) {
	p, ok := packet(protocol, b)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if mark := c.marks[p.To.Port()]; mark != nil && p.Protocol == "udp" && p.To.Addr().String() == FarAddr {
		close(mark)
		delete(c.marks, p.To.Port())
		return
	}
	c.packets = append(c.packets, p)
}

// packet reads a packet's headers. A truncated or fragmented one has no port.
func packet(protocol uint16, b []byte) (sent, bool) {
	switch {
	case protocol == unix.ETH_P_IP && len(b) >= 20:
		from, _ := netip.AddrFromSlice(b[12:16])
		to, _ := netip.AddrFromSlice(b[16:20])
		head := min(int(b[0]&15)*4, len(b))
		return sentOf(transport(b[9], to, b[head:]), from, b[head:], int(binary.BigEndian.Uint16(b[2:]))-head), true
	case protocol == unix.ETH_P_IPV6 && len(b) >= 40:
		from, _ := netip.AddrFromSlice(b[8:24])
		to, _ := netip.AddrFromSlice(b[24:40])
		p := sentOf(transport(b[6], to, b[40:]), from, b[40:], int(binary.BigEndian.Uint16(b[4:])))
		return p, !(to.IsMulticast() || b[6] == unix.IPPROTO_ICMPV6 && len(b) > 40 && b[40] >= 133 && b[40] <= 137)
	}
	return sent{}, false
}

// sentOf adds to a packet where it is from, and whether it says anything: size
// is that of its segment, of which b is the beginning.
func sentOf(p Packet, from netip.Addr, b []byte, size int) sent {
	s := sent{Packet: p}
	if len(b) >= 2 {
		s.from = netip.AddrPortFrom(from, binary.BigEndian.Uint16(b))
	}
	s.bare = p.Protocol == "tcp" && !p.SYN && len(b) > 12 && size == int(b[12]>>4)*4
	return s
}

func transport(number byte, to netip.Addr, b []byte) Packet {
	var port uint16
	if len(b) >= 4 {
		port = binary.BigEndian.Uint16(b[2:])
	}
	switch number {
	case unix.IPPROTO_TCP:
		return Packet{Protocol: "tcp", To: netip.AddrPortFrom(to, port), SYN: len(b) > 13 && b[13]&0x12 == 0x02}
	case unix.IPPROTO_UDP:
		return Packet{Protocol: "udp", To: netip.AddrPortFrom(to, port)}
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return Packet{Protocol: "icmp", To: netip.AddrPortFrom(to, 0)}
	}
	return Packet{Protocol: fmt.Sprint(number), To: netip.AddrPortFrom(to, 0)}
}

// settle returns when everything that has left near by now is noted: it sends
// a packet of its own and waits for it.
func (c *capture) settle(near *space) error {
	mark := make(chan struct{})
	c.mu.Lock()
	port := uint16(60_000)
	for c.marks[port] != nil {
		port++
	}
	c.marks[port] = mark
	c.mu.Unlock()
	var err error
	near.do(func() { err = sendMark(netip.AddrPortFrom(netip.MustParseAddr(FarAddr), port)) })
	if err != nil {
		return fmt.Errorf("world: mark: %w", err)
	}
	select {
	case <-mark:
	case <-time.After(time.Minute):
		return errors.New("world: the capture does not see its own mark")
	}
	stats, err := unix.GetsockoptTpacketStats(c.raw, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil || stats.Drops > 0 {
		return fmt.Errorf("world: the capture lost packets: %+v, %w", stats, err)
	}
	return nil
}

func sendMark(to netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("mark"), 0, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
}

// count is how many packets are kept.
func (c *capture) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.packets)
}

// since are the packets after the first n. A connection that began among those
// is the kernel's to end: when its server comes to close it, nobody says. So what
// says nothing on it is left out.
func (c *capture) since(n int) (list []Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := map[[2]netip.AddrPort]bool{}
	for i, p := range c.packets {
		way := [2]netip.AddrPort{p.from, p.To}
		switch {
		case i < n:
			before[way] = before[way] || p.SYN
		case !p.bare || !before[way]:
			list = append(list, p.Packet)
		}
	}
	return list
}

func (c *capture) close() error {
	err := c.file.Close()
	<-c.done
	return err
}
