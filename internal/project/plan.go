package project

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
	"github.com/callcell/callcell/internal/render"
)

// Note is something to be said of one file. Its name is to be rendered before
// it is shown.
type Note struct {
	Name string
	Why  string
}

// Plan is what is to become of a tree.
type Plan struct {
	Changes  []envelope.Change // sorted by name
	Refused  []Note            // changes that are never applied
	Warnings []Note            // changes to what tools of the host run by themselves
	tree     *Tree
}

// Empty reports whether there is nothing to apply.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// Plan sorts changes into those that may be applied and those that may not.
// They come from a cell, so that everything about them is looked at, also what
// a broker has looked at before.
func (t *Tree) Plan(changes *envelope.Changes) *Plan {
	p := &Plan{tree: t}
	taken, repositories := t.taken(changes), t.repositories()
	for _, c := range changes.Files {
		why := t.refuses(&c, taken)
		if why == "" {
			why = repositories.refuses(&c)
		}
		if why != "" {
			p.Refused = append(p.Refused, Note{c.Name, why})
			continue
		}
		p.Changes = append(p.Changes, c)
		old, there := t.find(c.Name)
		for _, why := range warnings(&c, there && old.Executable) {
			p.Warnings = append(p.Warnings, Note{c.Name, why})
		}
	}
	slices.SortFunc(p.Changes, func(a, b envelope.Change) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// taken counts the names that there will be, as a file system sees them that
// knows neither case nor forms of Unicode: each name, and each directory.
func (t *Tree) taken(changes *envelope.Changes) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	add := func(name string) {
		for at := range prefixes(name) {
			key := folded(at)
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			all[key][at] = true
		}
	}
	for _, f := range t.Files {
		add(f.Name)
	}
	for _, c := range changes.Files {
		if c.Kind == envelope.ChangeAdded {
			add(c.Name)
		}
	}
	return all
}

// prefixes yields a name and every directory above it.
func prefixes(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for at := name; at != ""; {
			if !yield(at) {
				return
			}
			i := strings.LastIndexByte(at, '/')
			at = at[:max(i, 0)]
		}
	}
}

// refuses says why a change is never applied, or "".
func (t *Tree) refuses(c *envelope.Change, taken map[string]map[string]bool) string {
	if err := envelope.CheckName(c.Name); err != nil {
		return err.Error()
	}
	if why := ignore.Guarded(c.Name); why != "" {
		return why
	}
	old, there := t.find(c.Name)
	switch c.Kind {
	case envelope.ChangeAdded:
		if there {
			return "it is in the tree already"
		}
		for at := range prefixes(c.Name) {
			if len(taken[folded(at)]) > 1 && !t.hasTwins(at, taken) {
				return "some file systems take it for another name: " + others(at, taken[folded(at)])
			}
		}
	case envelope.ChangeChanged, envelope.ChangeMode, envelope.ChangeRemoved:
		if !there {
			return "it is not in the tree"
		}
		if c.Kind == envelope.ChangeMode && !bytes.Equal(c.Data, old.Data) {
			return "its bytes are not those that went in"
		}
	default:
		return "it is no change that there is"
	}
	return ""
}

// hasTwins reports whether the tree itself has all those names: a file system
// that holds them tells them apart.
func (t *Tree) hasTwins(name string, taken map[string]map[string]bool) bool {
	for other := range taken[folded(name)] {
		_, file := t.find(other)
		if !file && !t.hasDir(other) {
			return false
		}
	}
	return true
}

func (t *Tree) hasDir(name string) bool {
	i, _ := slices.BinarySearchFunc(t.Files, name+"/", func(f File, name string) int { return cmp.Compare(f.Name, name) })
	return i < len(t.Files) && strings.HasPrefix(t.Files[i].Name, name+"/")
}

func others(name string, names map[string]bool) string {
	var list []string
	for other := range names {
		if other != name {
			list = append(list, render.Name(other))
		}
	}
	slices.Sort(list)
	return strings.Join(list[:min(3, len(list))], ", ")
}

// Conflict is a file that has become another since the tree was read.
type Conflict struct {
	Name string
	Why  string
}

// ConflictError names the files whose changes meet changes that were made
// meanwhile. Nothing is applied then.
type ConflictError struct{ Conflicts []Conflict }

// Error names the first of them.
func (e *ConflictError) Error() string {
	first := e.Conflicts[0]
	text := fmt.Sprintf("nothing is applied: %s: %s", render.Name(first.Name), first.Why)
	if more := len(e.Conflicts) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// sumOf is the digest of data.
func sumOf(data []byte) [32]byte { return sha256.Sum256(data) }
