package wire

import (
	"bytes"
	"fmt"
)

// The bounds of a cell's network.
const (
	MaxPorts = 32
	MaxAddrs = 64
)

// The ports of the sockets that every cell with a network has. Both are at
// 127.0.0.53.
const (
	PortDNS   = 53
	PortProxy = 3128
)

// Use says what one of the sockets is for that come with Opened. The zero
// value is invalid.
type Use uint8

// The uses of a socket.
const (
	UseDNS    Use = iota + 1 // UDP, 127.0.0.53:53
	UseDNSTCP                // TCP, there too
	UseProxy                 // TCP, 127.0.0.53:3128
	UseListen                // TCP, every address of a family, one port of Spec.Ports
)

// Socket is one socket in a cell's network namespace.
type Socket struct {
	Use  Use
	Port uint16
	V6   bool // UseListen: of IPv6 alone; else of IPv4 alone
}

// Sockets lists the sockets of a cell in the order in which their descriptors
// come with Opened: names over UDP, names over TCP, the proxy, a listener for
// each port, and, where an address is one of IPv6, a second one for each port.
// Without ports there are none.
func (s *Spec) Sockets() []Socket {
	if len(s.Ports) == 0 {
		return nil
	}
	all := []Socket{{UseDNS, PortDNS, false}, {UseDNSTCP, PortDNS, false}, {UseProxy, PortProxy, false}}
	for _, v6 := range []bool{false, true} {
		if v6 && !s.hasV6() {
			break
		}
		for _, p := range s.Ports {
			all = append(all, Socket{UseListen, p, v6})
		}
	}
	return all
}

func (s *Spec) hasV6() bool {
	for _, a := range s.Addrs {
		if _, ok := Addr4(a); !ok {
			return true
		}
	}
	return false
}

// CheckNetwork returns an error unless ports and addresses are what a cell can
// be given. The error names field and value.
func (s *Spec) CheckNetwork() error {
	if len(s.Ports) > MaxPorts {
		return fmt.Errorf("ports: %d, at most %d", len(s.Ports), MaxPorts)
	}
	for i, p := range s.Ports {
		if p == 0 || i > 0 && p <= s.Ports[i-1] {
			return fmt.Errorf("ports: %d is none, or not above the one before", p)
		}
	}
	if len(s.Addrs) > MaxAddrs || len(s.Addrs) > 0 && len(s.Ports) == 0 {
		return fmt.Errorf("addrs: %d with %d ports, at most %d", len(s.Addrs), len(s.Ports), MaxAddrs)
	}
	for i, a := range s.Addrs {
		if why := unfit(a); why != "" {
			return fmt.Errorf("addrs: %x is %s", a, why)
		}
		if i > 0 && bytes.Compare(a[:], s.Addrs[i-1][:]) <= 0 {
			return fmt.Errorf("addrs: %x is not above the one before", a)
		}
	}
	return nil
}

// Addr4 returns the IPv4 address that is mapped into a, if one is.
func Addr4(a [16]byte) (b [4]byte, ok bool) {
	prefix := [12]byte{10: 0xff, 11: 0xff}
	return [4]byte(a[12:]), [12]byte(a[:12]) == prefix
}

// unfit says why a cell cannot have an address beside its own, or "".
func unfit(a [16]byte) string {
	b, v4 := Addr4(a)
	switch {
	case a == [16]byte{}, v4 && b[0] == 0:
		return "unspecified"
	case a == [16]byte{15: 1}, v4 && b[0] == 127:
		return "loopback"
	case a[0] == 0xff, v4 && b[0]&0xf0 == 0xe0, v4 && b == [4]byte{255, 255, 255, 255}:
		return "for more than one host"
	case v4 && b[0] == 198 && b[1]&0xfe == 18:
		return "within 198.18.0.0/15, out of which names get theirs"
	}
	return ""
}
