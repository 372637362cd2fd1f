package project

import (
	"cmp"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// Limits bound what is read of a tree.
type Limits struct {
	Files   int   // regular files that are taken
	Bytes   int64 // of all of them together
	File    int64 // bytes of one
	Depth   int   // directories within each other
	Entries int   // names that are looked at, those left out too
}

// DefaultLimits are wide: what a call may take in, its envelope says.
func DefaultLimits() Limits {
	return Limits{
		Files: envelope.MaxTreeFiles, Bytes: envelope.MaxTreeBytes, File: 256 << 20,
		Depth: envelope.MaxNameDepth, Entries: 1_000_000,
	}
}

// Options say how a tree is read.
type Options struct {
	// Git takes the directory .git of the tree's own in as well. Nothing of it
	// ever comes back.
	Git bool
	// Journals is where Apply keeps its journals, see Plan.Apply; "": nothing is
	// recovered.
	Journals string
	// Limits; the zero value is DefaultLimits.
	Limits Limits
	// Cache knows digests from before; nil: each file is digested.
	Cache *Cache
	// Progress hears now and then how far it is; nil: nobody does. It is called
	// on the goroutine of Read.
	Progress func(files int, bytes int64)
}

// File is a regular file of a tree.
type File struct {
	Name       string // relative; has passed envelope.CheckName
	Executable bool
	Data       []byte
	Sum        [32]byte // SHA-256 of Data
}

// Skip says that something of a tree is not taken.
type Skip struct {
	Name string // the tree's bytes
	Why  string
}

// The reasons of a Skip.
const (
	SkipLink       = "a link: none is followed, and what it leads to may be outside"
	SkipDevice     = "a device"
	SkipFifo       = "a FIFO"
	SkipSocket     = "a socket"
	SkipUnreadable = "not readable"
	SkipMount      = "on another file system"
	SkipName       = "a name that cannot be handed on"
	SkipGit        = "git's own"
)

// Skips counts what was not taken, by reason, and names the first few.
type Skips struct {
	Counts map[string]int
	First  []Skip // at most maxSkips
}

const maxSkips = 20

func (s *Skips) add(name, why string) {
	if s.Counts == nil {
		s.Counts = map[string]int{}
	}
	s.Counts[why]++
	if len(s.First) < maxSkips && why != SkipGit {
		s.First = append(s.First, Skip{name, why})
	}
}

// Total is how much was not taken, git's own aside.
func (s *Skips) Total() (n int) {
	for why, count := range s.Counts {
		if why != SkipGit {
			n += count
		}
	}
	return n
}

// Tree is what was read.
type Tree struct {
	Dir     string // as it was named
	Files   []File // sorted by name
	Ignore  []envelope.Ignore
	Ignored int // names that rules left out; of a directory that is left out, one
	Skips   Skips
	Twins   []string // names that some file system takes for another file's
	Bytes   int64
	Cached  int // files whose digest was known
}

// Call returns the tree as a call has it. The bytes are shared.
func (t *Tree) Call() *envelope.Tree {
	out := &envelope.Tree{Files: make([]envelope.File, len(t.Files)), Ignore: t.Ignore}
	for i, f := range t.Files {
		out.Files[i] = envelope.File{Name: f.Name, Data: f.Data, Executable: f.Executable}
	}
	return out
}

// find returns the file of that name.
func (t *Tree) find(name string) (*File, bool) {
	i, ok := slices.BinarySearchFunc(t.Files, name, func(f File, name string) int { return cmp.Compare(f.Name, name) })
	if !ok {
		return nil, false
	}
	return &t.Files[i], true
}
