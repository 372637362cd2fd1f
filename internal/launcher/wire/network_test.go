package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// addrs are addresses as a spec has them.
func addrs(texts ...string) [][16]byte {
	var all [][16]byte
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text).As16())
	}
	return all
}

func TestSocketsAreInOrder(t *testing.T) {
	own := []Socket{{UseDNS, 53, false}, {UseDNSTCP, 53, false}, {UseProxy, 3128, false}}
	v4 := []Socket{{UseListen, 80, false}, {UseListen, 443, false}}
	v6 := []Socket{{UseListen, 80, true}, {UseListen, 443, true}}
	ports := []uint16{80, 443}
	for name, c := range map[string]struct {
		spec Spec
		want []Socket
	}{
		"no network":   {Spec{}, nil},
		"names alone":  {Spec{Ports: ports}, slices.Concat(own, v4)},
		"IPv4 address": {Spec{Ports: ports, Addrs: addrs("192.0.2.1")}, slices.Concat(own, v4)},
		"IPv6 address": {Spec{Ports: ports, Addrs: addrs("192.0.2.1", "2001:db8::1")}, slices.Concat(own, v4, v6)},
	} {
		if got := c.spec.Sockets(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestTheMostSocketsFitAMessage: and one port more would not.
func TestTheMostSocketsFitAMessage(t *testing.T) {
	s := Spec{Ports: ascending(MaxPorts), Addrs: addrs("2001:db8::1")}
	if n := 1 + len(s.Sockets()); n != MaxFDs || s.CheckNetwork() != nil {
		t.Errorf("%d sockets of %d descriptors, %v", n, MaxFDs, s.CheckNetwork())
	}
}

func ascending(n int) []uint16 {
	ports := make([]uint16, n)
	for i := range ports {
		ports[i] = uint16(i + 1)
	}
	return ports
}

func TestCheckNetwork(t *testing.T) {
	var many [][16]byte
	for i := range MaxAddrs + 1 {
		many = append(many, netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i)).As16())
	}
	web := []uint16{443}
	for _, c := range []struct {
		name string
		spec Spec
		want string // in the error; "" none
	}{
		{"nothing", Spec{}, ""},
		{"the highest and the lowest port", Spec{Ports: []uint16{1, 65535}}, ""},
		{"the ports of our own sockets", Spec{Ports: []uint16{53, 3128}}, ""},
		{"the most ports", Spec{Ports: ascending(MaxPorts)}, ""},
		{"one more", Spec{Ports: ascending(MaxPorts + 1)}, "ports: 33"},
		{"port 0", Spec{Ports: []uint16{0, 1}}, "ports: 0"},
		{"a port twice", Spec{Ports: []uint16{80, 80}}, "ports: 80"},
		{"ports out of order", Spec{Ports: []uint16{443, 80}}, "ports: 80"},
		{"addresses without ports", Spec{Addrs: addrs("192.0.2.1")}, "addrs: 1 with 0 ports"},
		{"the most addresses", Spec{Ports: web, Addrs: many[:MaxAddrs]}, ""},
		{"an address more", Spec{Ports: web, Addrs: many}, "addrs: 65"},
		{"an address twice", Spec{Ports: web, Addrs: addrs("192.0.2.1", "192.0.2.1")}, "not above"},
		{"addresses out of order", Spec{Ports: web, Addrs: addrs("2001:db8::1", "192.0.2.1")}, "not above"},
		{"both families", Spec{Ports: web, Addrs: addrs("192.0.2.1", "2001:db8::1")}, ""},
		{"beside the range of names", Spec{Ports: web, Addrs: addrs("198.17.255.255", "198.20.0.0")}, ""},
	} {
		err := c.spec.CheckNetwork()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAddressesThatNoCellGets(t *testing.T) {
	for text, want := range map[string]string{
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"127.0.0.1": "loopback", "127.0.0.53": "loopback", "127.255.255.255": "loopback", "::1": "loopback",
		"224.0.0.1": "more than one", "239.255.255.255": "more than one", "255.255.255.255": "more than one", "ff02::1": "more than one", "ffff::": "more than one",
		"198.18.0.0": "198.18.0.0/15", "198.18.0.1": "198.18.0.0/15", "198.19.255.255": "198.18.0.0/15",
	} {
		s := Spec{Ports: []uint16{443}, Addrs: addrs(text)}
		if err := s.CheckNetwork(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzCheckNetwork: what is accepted is within the bounds that the launcher
// builds on, judged by another library.
func FuzzCheckNetwork(f *testing.F) {
	for _, text := range []string{"127.0.0.1", "198.18.0.1", "2001:db8::1", "::ffff:7f00:1", "::7f00:1"} {
		a := netip.MustParseAddr(text).As16()
		f.Add(uint16(80), uint16(443), a[:], a[:])
	}
	names := netip.MustParsePrefix("198.18.0.0/15")
	f.Fuzz(func(t *testing.T, p, q uint16, a, b []byte) {
		s := Spec{Ports: []uint16{p, q}}
		for _, text := range [][]byte{a, b} {
			if len(text) == 16 {
				s.Addrs = append(s.Addrs, [16]byte(text))
			}
		}
		if s.CheckNetwork() != nil {
			return
		}
		if p == 0 || p >= q || len(s.Addrs) == 2 && s.Addrs[0] == s.Addrs[1] {
			t.Fatalf("%v", s)
		}
		for _, a := range s.Addrs {
			if at := netip.AddrFrom16(a).Unmap(); at.IsUnspecified() || at.IsLoopback() || at.IsMulticast() || names.Contains(at) {
				t.Fatalf("%v", at)
			}
		}
		if n := len(s.Sockets()); n < 5 || n >= MaxFDs {
			t.Fatalf("%d sockets", n)
		}
	})
}
