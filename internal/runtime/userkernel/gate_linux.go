package userkernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// errChanged is a launcher whose cells are made otherwise than this runtime has
// said that they are: what was decided on that word does not hold for them.
var errChanged = errors.New("runsc.network of launcher.conf is not what it was when this process started: start it anew")

// hello is what the launchers say of this host. Whose sockets those of a cell
// are is part of what the level is worth, by which calls are placed: the first
// answer stands as long as the runtime does.
func (r *Runtime) hello(ctx context.Context) (*wire.Hello, error) {
	h, err := r.launchers.Hello(ctx)
	if err != nil || h.Refused != "" || h.NoRunsc != "" {
		return h, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		r.known, r.hostNet = true, h.HostNet
	}
	if h.HostNet != r.hostNet {
		return nil, errChanged
	}
	return h, nil
}

// hosts reports whether sockets of cells are this host's kernel's.
func (r *Runtime) hosts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hostNet
}

// takeOver makes a connection of the channel that came with the slot, and a gate
// of the sockets behind it, nil where there are to be none. What came otherwise
// than hosts says is an error, and closed.
func takeOver(slot *link.Slot, spec *wire.Spec, hosts bool) (guest.Conn, *cell.Gate, error) {
	fds := slot.FDs
	slot.FDs = nil
	var sockets []wire.Socket
	if hosts {
		sockets = spec.Sockets()
	}
	if len(fds) != 1+len(sockets) {
		for _, fd := range fds {
			os.NewFile(uintptr(fd), "none").Close()
		}
		if len(fds) == 1 || len(fds) == 1+len(spec.Sockets()) {
			return nil, nil, errChanged
		}
		return nil, nil, wire.ErrMalformed
	}
	f := os.NewFile(uintptr(fds[0]), "channel")
	defer f.Close()
	gate, err := link.Gate(sockets, fds[1:])
	if err != nil {
		return nil, nil, err
	}
	conn, err := net.FileConn(f)
	if err != nil {
		if gate != nil {
			gate.Close()
		}
		return nil, nil, fmt.Errorf("channel: %w", err)
	}
	return conn, gate, nil
}

// A tunnelledCell is one in whose kernel the sockets of its programs are.
type tunnelledCell struct{ *sandboxCell }

// Tunnels implements cell.Tunnelled.
func (c tunnelledCell) Tunnels() (cell.Tunnels, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took {
		return nil, cell.ErrState
	}
	c.took = true
	if len(c.shape.Envelope.Network.Allow) == 0 {
		return nil, nil
	}
	return c.guest.Tunnels(), nil
}

// A gatedCell is one in whose network namespace they are, and ours with them.
type gatedCell struct{ *sandboxCell }

// Gate implements cell.Gated.
func (c gatedCell) Gate() (*cell.Gate, error) { return c.takeGate() }

// takeGate hands the sockets over, once.
func (c *sandboxCell) takeGate() (*cell.Gate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took {
		return nil, cell.ErrState
	}
	gate := c.gate
	c.gate, c.took = nil, true
	return gate, nil
}
