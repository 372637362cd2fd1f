package image

import (
	"time"

	"github.com/callcell/callcell/envelope"
)

// Tool is the name of the program of ours that pulls and packs inside of cells.
const Tool = "callcell-image"

// A Plan is one image that is to be made: the call that makes it, and what the
// call may touch.
type Plan struct {
	Name     string
	Call     *envelope.Call
	Envelope envelope.Envelope
	Forms    Forms

	// record makes the record of what came out.
	record func(r *envelope.Result) (*Record, error)
	added  bool   // the tree goes on top of a base
	base   string // Record.Digest of the base; "" for the host's slice
}

// making is the envelope of a call that makes an image, before its network: of
// a program of ours where own is true, else of everybody's.
func making(own bool, network envelope.Network, most int64) envelope.Envelope {
	e := envelope.Default()
	e.Trust = envelope.TrustThirdParty
	e.Files.Scratch, e.Files.Inodes, e.Resources.Memory = 3*envelope.GiB, 500_000, 4*envelope.GiB
	if own {
		e.Trust, e.Level = envelope.TrustReviewed, envelope.LevelContainer
		e.Files.Scratch, e.Files.Inodes, e.Resources.Memory = 128*envelope.MiB, 4096, envelope.GiB
	}
	e.Files.Outputs = envelope.OutputCaps{Count: 16, Bytes: 32 * envelope.MiB}
	e.Network = network
	e.Resources.CPU = 2000
	e.Resources.CPUTime = envelope.Duration(time.Hour)
	e.Resources.Wall = envelope.Duration(time.Hour)
	e.Resources.Pids = 512
	e.Resources.FileSize = 2 * envelope.GiB
	e.Resources.OpenFiles = 1024
	// A task may make several, each of which may take the time above.
	e.Task = envelope.Task{Calls: 10_000, CPUTime: envelope.Duration(24 * time.Hour), Tokens: 10_000_000, Wall: envelope.Duration(24 * time.Hour)}
	e.Resources.Output = envelope.OutputCap{Keep: envelope.MiB, Total: min(envelope.Size(most)+most8(most), 64*envelope.GiB)}
	return e
}

// most8 is what the stream of a tree may have beside its contents: headers.
func most8(most int64) envelope.Size { return envelope.Size(most/8) + 64*envelope.MiB }

// Allow is an entry of a network for a host that speaks TLS at a port.
func Allow(host string, port int) envelope.Allow {
	return envelope.Allow{Host: host, Ports: []int{port}, Protocol: "tls"}
}

// output finds an output of a call by name.
func output(r *envelope.Result, name string) []byte {
	for _, f := range r.Outputs {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}
