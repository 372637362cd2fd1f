package link

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// What is the same of a cell at every level that launchers build: how its shape
// is said to them, and what comes back.

// Spec is a shape in numbers and digests, for a cell of that level. Its mounts
// are left to the runtime. An error is a *cell.Error: the network is more than a
// cell can have, or no tree is named for the image.
func Spec(s *cell.Shape, level wire.Level) (wire.Spec, error) {
	e := &s.Envelope
	spec := wire.Spec{
		ID: s.ID, Level: level, Tree: digits(s.Root.Tree), Added: digits(s.Root.Added),
		Memory: int64(e.Resources.Memory), Pids: int64(e.Resources.Pids), CPU: int64(e.Resources.CPU),
		CPUTime: int64(e.Resources.CPUTime), Wall: int64(e.Resources.Wall), StopGrace: int64(e.Cleanup.StopGrace),
		Scratch: int64(e.Files.Scratch), Inodes: int64(e.Files.Inodes),
		FileSize: int64(e.Resources.FileSize), OpenFiles: int64(e.Resources.OpenFiles),
	}
	spec.Ports, spec.Addrs = network(e.Network.Allow)
	if err := spec.CheckNetwork(); err != nil {
		return wire.Spec{}, &cell.Error{
			Reason: envelope.ReasonPolicy, Step: "network.allow", Err: err,
			Hint: fmt.Sprintf("a cell has at most %d ports and %d literal addresses, and none of its own loopback; name hosts instead", wire.MaxPorts, wire.MaxAddrs),
		}
	}
	if e.Image != envelope.ImageHost && s.Root == (cell.Root{}) {
		return wire.Spec{}, &cell.Error{
			Reason: envelope.ReasonSetup, Step: "image " + e.Image, Err: errors.New("no tree is named for it"),
			Hint: "an image is made of trees of the store before a cell is",
		}
	}
	return spec, nil
}

// digits are those of a digest, sha256:HEX.
func digits(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

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

// Gate takes over the sockets that came with a cell, one for each of sockets;
// without any there is no gate. An error wraps wire.ErrMalformed; the descriptors
// are closed then.
func Gate(sockets []wire.Socket, fds []int) (*cell.Gate, error) {
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

// StartHint says what to do about a program that could not be started, "" where
// there is nothing to say. err wraps the errno.
func StartHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "no such program in the cell; PATH is /usr/local/bin:/usr/bin:/bin, and nothing of home, opt or var is there"
	case errors.Is(err, syscall.EACCES):
		return "it is not executable; an input is when its executable bit is set"
	case errors.Is(err, syscall.ENOEXEC):
		return "not a program this kernel knows; a script needs a #! line, or run it by its interpreter"
	}
	return ""
}
