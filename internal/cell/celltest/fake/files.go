package fake

import (
	"bytes"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// The errors of Files.
var (
	ErrNoSpace = errors.New("fake: no space left")
	ErrAbsent  = errors.New("fake: no such file")
)

// The kinds of node.
const (
	regular = iota + 1
	directory
	link
	fifo
)

type node struct {
	kind       int
	data       []byte
	executable bool
}

// Files is the writable place of a cell. Names are relative to the working
// directory, or absolute for the other writable places. It is safe for
// concurrent use.
type Files struct {
	scratch, inodes, fileSize int

	mu    sync.Mutex // guards all that follows
	nodes map[string]node
	used  int
	full  int // how often ErrNoSpace was returned
}

func newFiles(env envelope.Envelope) *Files {
	return &Files{
		scratch: int(env.Files.Scratch), inodes: int(env.Files.Inodes), fileSize: int(env.Resources.FileSize),
		nodes: map[string]node{},
	}
}

// Write makes a regular file with its directories, or replaces it.
func (f *Files) Write(name string, data []byte, executable bool) error {
	return f.add(name, node{kind: regular, data: bytes.Clone(data), executable: executable})
}

// Append adds data to a file that may be there.
func (f *Files) Append(name string, data []byte) error {
	old, _ := f.Read(name)
	return f.Write(name, append(old, data...), false)
}

// Dir makes a directory, Link a link and Fifo a FIFO.
func (f *Files) Dir(name string) error { return f.add(name, node{kind: directory}) }

// Link makes a link. Where it leads does not matter: nobody follows it.
func (f *Files) Link(name string) error { return f.add(name, node{kind: link}) }

// Fifo makes a FIFO.
func (f *Files) Fifo(name string) error { return f.add(name, node{kind: fifo}) }

// Read returns a copy of the bytes of a regular file.
func (f *Files) Read(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[name]
	if !ok || n.kind != regular {
		return nil, ErrAbsent
	}
	return bytes.Clone(n.data), nil
}

// Executable reports whether name is a file that may be executed.
func (f *Files) Executable(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name].executable
}

// Remove removes what is at name. Directories stay.
func (f *Files) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used -= len(f.nodes[name].data)
	delete(f.nodes, name)
}

// Names returns all names, sorted.
func (f *Files) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.nodes))
}

func (f *Files) add(name string, n node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := f.used - len(f.nodes[name].data) + len(n.data)
	if used > f.scratch || len(n.data) > f.fileSize || len(f.nodes) >= f.inodes {
		f.full++
		return ErrNoSpace
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if _, ok := f.nodes[dir]; !ok {
			f.nodes[dir] = node{kind: directory}
		}
	}
	f.nodes[name], f.used = n, used
	return nil
}

// drop forgets everything.
func (f *Files) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.used = nil, 0
	f.scratch = -1 // a program that outlives its cell writes nothing
}

// usage returns the bytes in use and the ceilings that were met.
func (f *Files) usage() (int64, []envelope.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == 0 {
		return int64(f.used), nil
	}
	return int64(f.used), []envelope.Event{{Kind: envelope.OutcomeDisk.String(), Count: int64(f.full), Source: "host"}}
}

// A collection is what has been taken so far.
type collection struct {
	caps   envelope.OutputCaps
	bytes  int
	files  []envelope.File
	misses []envelope.Miss
}

func (f *Files) collect(names []string, caps envelope.OutputCaps) ([]envelope.File, []envelope.Miss) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &collection{caps: caps}
	for _, name := range names {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			f.collectDirLocked(c, dir)
		} else {
			f.collectFileLocked(c, name)
		}
	}
	return c.files, c.misses
}

func (f *Files) collectFileLocked(c *collection, name string) {
	n, ok := f.nodes[name]
	switch {
	case !ok:
		c.miss(name, cell.MissAbsent)
	case n.kind != regular:
		c.miss(name, cell.MissIrregular)
	default:
		c.take(name, n)
	}
}

// collectDirLocked takes what is below dir, by name. Where a cap is met it
// says so once, in the name of the directory, and looks no further.
func (f *Files) collectDirLocked(c *collection, dir string) {
	n, ok := f.nodes[dir]
	switch {
	case !ok:
		c.miss(dir+"/", cell.MissAbsent)
		return
	case n.kind != directory:
		c.miss(dir+"/", cell.MissNoDir)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		if !strings.HasPrefix(name, dir+"/") || f.nodes[name].kind == directory {
			continue
		}
		if f.nodes[name].kind != regular {
			c.miss(name, cell.MissIrregular)
		} else if why := c.full(f.nodes[name]); why != "" {
			c.miss(dir+"/", why)
			return
		} else {
			c.take(name, f.nodes[name])
		}
	}
}

// full says why n does not fit any more, or "".
func (c *collection) full(n node) string {
	switch {
	case len(c.files) >= int(c.caps.Count):
		return cell.MissCount(c.caps)
	case c.bytes+len(n.data) > int(c.caps.Bytes):
		return cell.MissBytes(c.caps)
	}
	return ""
}

func (c *collection) take(name string, n node) {
	if why := c.full(n); why != "" {
		c.miss(name, why)
		return
	}
	c.bytes += len(n.data)
	c.files = append(c.files, envelope.File{Name: name, Data: bytes.Clone(n.data), Executable: n.executable})
}

func (c *collection) miss(name, why string) {
	c.misses = append(c.misses, envelope.Miss{Name: name, Why: why})
}
