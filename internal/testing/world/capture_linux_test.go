package world

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatTheKernelOwesIsNoPacket: what is left to be acknowledged of a connection
// of before a mark leaves when its server gets to it. It is nobody's; what is said
// on such a connection is, and so is what only looks like it.
func TestWhatTheKernelOwesIsNoPacket(t *testing.T) {
	from, to := netip.MustParseAddrPort("11.0.0.2:40000"), netip.MustParseAddrPort("93.184.216.10:443")
	elsewhere := netip.MustParseAddrPort("93.184.216.11:443")
	tcp := func(from, to netip.AddrPort, flags byte, bytes int) sent {
		b := make([]byte, 40+bytes)
		b[0], b[9], b[32], b[33] = 0x45, unix.IPPROTO_TCP, 0x50, flags
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[20:], from.Port())
		binary.BigEndian.PutUint16(b[22:], to.Port())
		copy(b[12:], from.Addr().AsSlice())
		copy(b[16:], to.Addr().AsSlice())
		p, ok := packet(unix.ETH_P_IP, b)
		if !ok {
			t.Fatal("no packet")
		}
		return p
	}
	const syn, ack = 0x02, 0x10
	c := &capture{packets: []sent{
		tcp(from, to, syn, 0), tcp(from, to, ack, 10), // the mark is here
		tcp(from, to, ack, 0), tcp(from, to, ack, 1), tcp(from, elsewhere, ack, 0), tcp(netip.AddrPortFrom(from.Addr(), 40001), to, ack, 0), tcp(from, to, syn, 0), tcp(from, to, ack, 0),
	}}
	want := []Packet{{"tcp", to, false}, {"tcp", elsewhere, false}, {"tcp", to, false}, {"tcp", to, true}}
	if got := c.since(2); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := c.since(0); len(got) != 8 {
		t.Errorf("all of them: %+v", got)
	}
}

// FuzzPacket: whatever lies on the wire, reading it does not fail, and an
// address is one of the packet's own bytes.
func FuzzPacket(f *testing.F) {
	f.Add(uint16(unix.ETH_P_IP), []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 11, 0, 0, 2, 93, 184, 216, 10, 0, 1, 1, 187, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2})
	f.Add(uint16(unix.ETH_P_IP), []byte{0x4f, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 11, 0, 0, 2, 93, 184, 216, 10})
	f.Add(uint16(unix.ETH_P_IPV6), append([]byte{0x60, 0, 0, 0, 0, 8, 58, 64}, make([]byte, 40)...))
	f.Add(uint16(unix.ETH_P_ARP), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, protocol uint16, b []byte) {
		p, ok := packet(protocol, b)
		if ok && (!p.To.Addr().IsValid() || !bytes.Contains(b, p.To.Addr().AsSlice())) {
			t.Errorf("%+v of %x", p, b)
		}
	})
}
