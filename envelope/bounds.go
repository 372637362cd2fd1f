package envelope

import (
	"fmt"
	"strconv"
	"time"
)

// Bound is the range of one ceiling of an envelope, as text with units.
type Bound struct {
	Field string // dotted
	Least string
	Most  string
	Loud  string // more than this is said in Warnings
}

// Bounds returns the bounds of every ceiling. They keep an envelope sane; a
// host has narrower ones.
func Bounds() []Bound {
	var out []Bound
	for _, b := range bounds() {
		out = append(out, Bound{Field: b.field, Least: b.text(b.least), Most: b.text(b.most), Loud: b.text(b.loud)})
	}
	return out
}

// A bound is a Bound that can be used.
type bound struct {
	field             string
	get               func(*Envelope) int64
	least, most, loud int64
	text              func(int64) string
}

// quantity is a number with a text of its own.
type quantity interface {
	~int64
	fmt.Stringer
}

func newBound[T quantity](field string, least, most, loud T, get func(*Envelope) T) bound {
	return bound{
		field: field, least: int64(least), most: int64(most), loud: int64(loud),
		get:  func(e *Envelope) int64 { return int64(get(e)) },
		text: func(n int64) string { return T(n).String() },
	}
}

// bounds is the one table of all ceilings.
func bounds() []bound {
	const (
		ms     = Duration(time.Millisecond)
		minute = Duration(time.Minute)
		day    = 24 * 60 * minute
	)
	return []bound{
		newBound("files.scratch", 64*KiB, 64*GiB, 16*GiB, func(e *Envelope) Size { return e.Files.Scratch }),
		newBound("files.inodes", 16, 10_000_000, 1_000_000, func(e *Envelope) Count { return e.Files.Inodes }),
		newBound("files.outputs.count", 0, 16_384, 4_096, func(e *Envelope) Count { return e.Files.Outputs.Count }),
		newBound("files.outputs.bytes", 0, 4*GiB, 1*GiB, func(e *Envelope) Size { return e.Files.Outputs.Bytes }),
		newBound("files.tree.count", 0, MaxTreeFiles, 32_768, func(e *Envelope) Count { return e.Files.Tree.Count }),
		newBound("files.tree.bytes", 0, MaxTreeBytes, 512*MiB, func(e *Envelope) Size { return e.Files.Tree.Bytes }),
		newBound("files.tree.changes.count", 0, MaxTreeFiles, 16_384, func(e *Envelope) Count { return e.Files.Tree.Changes.Count }),
		newBound("files.tree.changes.bytes", 0, MaxTreeBytes, 512*MiB, func(e *Envelope) Size { return e.Files.Tree.Changes.Bytes }),
		newBound("resources.cpu", CPU(10), 1_024_000, 16_000, func(e *Envelope) CPU { return e.Resources.CPU }),
		newBound("resources.cpuTime", ms, 30*day, 60*4*minute, func(e *Envelope) Duration { return e.Resources.CPUTime }),
		newBound("resources.wall", ms, day, 60*minute, func(e *Envelope) Duration { return e.Resources.Wall }),
		newBound("resources.memory", 1*MiB, 1*TiB, 16*GiB, func(e *Envelope) Size { return e.Resources.Memory }),
		newBound("resources.pids", 1, 65_536, 4_096, func(e *Envelope) Count { return e.Resources.Pids }),
		newBound("resources.fileSize", 1*KiB, 64*GiB, 16*GiB, func(e *Envelope) Size { return e.Resources.FileSize }),
		newBound("resources.openFiles", 16, 1_048_576, 16_384, func(e *Envelope) Count { return e.Resources.OpenFiles }),
		newBound("resources.output.keep", 1*Byte, 64*MiB, 8*MiB, func(e *Envelope) Size { return e.Resources.Output.Keep }),
		newBound("resources.output.total", 1*Byte, 64*GiB, 1*GiB, func(e *Envelope) Size { return e.Resources.Output.Total }),
		newBound("cleanup.stopGrace", 0, minute, 10_000*ms, func(e *Envelope) Duration { return e.Cleanup.StopGrace }),
		newBound("task.calls", 1, 1_000_000, 10_000, func(e *Envelope) Count { return e.Task.Calls }),
		newBound("task.cpuTime", ms, 365*day, day, func(e *Envelope) Duration { return e.Task.CPUTime }),
		newBound("task.tokens", 1, 1_000_000_000, 10_000_000, func(e *Envelope) Count { return e.Task.Tokens }),
		newBound("task.wall", ms, 365*day, day, func(e *Envelope) Duration { return e.Task.Wall }),
	}
}

func checkBounds(e *Envelope) *FieldError {
	for _, b := range bounds() {
		switch n := b.get(e); {
		case n < b.least:
			return fault(b.field, b.text(n)+" is less than "+b.text(b.least), "write "+b.text(b.least)+" to "+b.text(b.most))
		case n > b.most:
			return fault(b.field, b.text(n)+" is more than "+b.text(b.most)+": there is no unlimited", "write "+b.text(b.least)+" to "+b.text(b.most))
		}
	}
	return nil
}

func checkOutput(e *Envelope) *FieldError {
	o := e.Resources.Output
	if o.Keep <= o.Total {
		return nil
	}
	return fault("resources.output.keep", o.Keep.String()+" is more than resources.output.total, "+o.Total.String(),
		"write a keep of at most "+o.Total.String()+", or a larger total")
}

// at is the dotted name of an element of a list.
func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
