package guest

import "github.com/callcell/callcell/internal/guest/wire"

// Place is the room that the guest makes for a call, before anything of it is
// there.
type Place struct {
	// Scratch and Inodes are the sizes of the writable place, bytes and
	// files: one tmpfs whose parts stand at /work, /tmp, /dev/shm and /run.
	// Both 0: what stands there already is used.
	Scratch, Inodes int64
	// Covers are texts that stand in the place of files of the root.
	Covers []Cover
	// Ports are where a connection at any local address is handed over; at
	// most wire.MaxPorts. With any, the name server and the proxy of package
	// cell listen too. Six: those of IPv6 too.
	Ports []uint16
	Six   bool
}

// Cover is a text in the place of a file of the root, read-only.
type Cover struct {
	Path string // absolute; a regular file that is there
	Data []byte
}

func (p *Place) message() *wire.Place {
	m := &wire.Place{Scratch: p.Scratch, Inodes: p.Inodes, Ports: p.Ports, Six: p.Six}
	for _, c := range p.Covers {
		m.Covers = append(m.Covers, wire.Cover{Path: c.Path, Data: c.Data})
	}
	return m
}

// File is a file of the call.
type File struct {
	Name string // relative; below /work, or below /run where Run is set
	Mode uint32 // 0o755, 0o644, 0o444 or 0o400
	Run  bool
	Data []byte
}
