package container

import (
	"bytes"
	"net/netip"
	"os"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// network is what a cell must have of a network for its entries: each port
// once, and the addresses that are hosts by themselves.
func network(allow []envelope.Allow) (ports []uint16, addrs [][16]byte) {
	for _, a := range allow {
		for _, p := range a.Ports {
			ports = append(ports, uint16(p))
		}
		if literal, err := netip.ParseAddr(a.Host); err == nil {
			addrs = append(addrs, literal.As16())
		}
	}
	slices.Sort(ports)
	slices.SortFunc(addrs, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ports), slices.Compact(addrs)
}

// newGate takes over the sockets that came with a cell; none are no gate. On
// an error they are closed.
func newGate(sockets []wire.Socket, fds []int) (*cell.Gate, error) {
	if len(fds) != len(sockets) {
		closeAll(fds)
		return nil, wire.ErrMalformed
	}
	if len(fds) == 0 {
		return nil, nil
	}
	gate := &cell.Gate{}
	for i, s := range sockets {
		f := os.NewFile(uintptr(fds[i]), "gate")
		switch s.Use {
		case wire.UseDNS:
			gate.DNS = f
		case wire.UseDNSTCP:
			gate.DNSTCP = f
		case wire.UseProxy:
			gate.Proxy = f
		case wire.UseListen:
			gate.Listen = append(gate.Listen, cell.Listener{Port: int(s.Port), File: f})
		}
	}
	return gate, nil
}

// Gate implements cell.Gated.
func (c *containerCell) Gate() (*cell.Gate, error) { return c.takeGate() }

// takeGate hands the sockets over, once.
func (c *containerCell) takeGate() (*cell.Gate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took {
		return nil, cell.ErrState
	}
	gate := c.gate
	c.gate, c.took = nil, true
	return gate, nil
}
