package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// Tree is what is kept of a tree that went into a call: never what is in it.
type Tree struct {
	Files  int    `json:"files"`            // of it
	Bytes  int64  `json:"bytes"`            // of all files together
	SHA256 string `json:"sha256,omitempty"` // of their names and bytes
	Rules  int    `json:"rules,omitempty"`  // entries of its ignore rules
}

// Workspace is the workspace that a call names.
type Workspace struct {
	Name    string `json:"name,omitempty"`    // of it
	Version int64  `json:"version,omitempty"` // that was asked for; 0 is the newest
}

// Change is what is kept of one file that a call changed: never its bytes.
type Change struct {
	Name       string              `json:"name"`                 // of the file
	Kind       envelope.ChangeKind `json:"kind"`                 // what became of it
	Bytes      int64               `json:"bytes"`                // as it is now
	Executable bool                `json:"executable,omitempty"` // as it is now
	Before     string              `json:"before,omitempty"`     // digest of the bytes that went in, sha256:HEX
	After      string              `json:"after,omitempty"`      // digest of the bytes as they are now, sha256:HEX
}

// Changes is what is kept of what a call made of its tree.
type Changes struct {
	Files    []Change        `json:"files,omitempty"`   // that are not as they went in
	Count    int             `json:"count"`             // of all changes, those that were cut too
	Same     int             `json:"same"`              // files that are as they went in
	Ignored  int             `json:"ignored,omitempty"` // new files that the tree's rules leave out
	Missing  []envelope.Miss `json:"missing,omitempty"` // what was there and could not be taken
	Complete bool            `json:"complete"`          // whether these are all there are
}

// treeOf reduces a tree. In mode dropped there is no digest of it.
func treeOf(t *envelope.Tree, digest bool) *Tree {
	if t == nil {
		return nil
	}
	out := &Tree{Files: len(t.Files), Bytes: t.Bytes(), Rules: len(t.Ignore)}
	if digest {
		out.SHA256 = digestTree(t.Files)
	}
	return out
}

// digestTree is the SHA-256 of "callcell.audit.tree.v1", a NUL, and for every
// file, by name, its name, a byte that is 1 where it may be executed, and the
// SHA-256 of its bytes. A name's length goes before it, 8 bytes, big-endian.
func digestTree(files []envelope.File) string {
	order := make([]int, len(files))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(files[a].Name, files[b].Name) })
	h := sha256.New()
	b := []byte("callcell.audit.tree.v1\x00")
	for _, i := range order {
		f := &files[i]
		b = binary.BigEndian.AppendUint64(b, uint64(len(f.Name)))
		b = append(b, f.Name...)
		if f.Executable {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		sum := sha256.Sum256(f.Data)
		h.Write(append(b, sum[:]...))
		b = b[:0]
	}
	h.Write(b)
	return digestText(h.Sum(nil))
}

// workspaceOf reduces the name of a workspace.
func workspaceOf(w *envelope.Workspace) *Workspace {
	if w == nil {
		return nil
	}
	return &Workspace{Name: clean(w.Name, maxName), Version: w.Version}
}

// changesOf reduces changes.
func changesOf(c *envelope.Changes) *Changes {
	if c == nil {
		return nil
	}
	out := &Changes{Count: len(c.Files), Same: c.Same, Ignored: c.Ignored, Missing: c.Missing, Complete: c.Complete}
	for _, f := range c.Files {
		out.Files = append(out.Files, Change{
			Name: f.Name, Kind: f.Kind, Bytes: int64(len(f.Data)), Executable: f.Executable, Before: f.Before, After: f.After,
		})
	}
	return out
}

// changes makes changes fit for a body: the names in them are the program's.
func (l *scribe) changes(c *Changes, cuts *[]Cut) (*Changes, error) {
	if c == nil {
		return nil, nil
	}
	r := *c
	var err error
	r.Files, err = fit(c.Files, func(f Change) Change {
		f.Name, f.Before, f.After = l.text(f.Name), clean(f.Before, maxName), clean(f.After, maxName)
		return f
	}, "changes.files", cuts)
	if err != nil {
		return nil, err
	}
	r.Missing, err = fit(c.Missing, func(m envelope.Miss) envelope.Miss {
		m.Name, m.Why = l.text(m.Name), l.text(m.Why)
		return m
	}, "changes.missing", cuts)
	return &r, err
}

// workspace makes what became of a workspace fit for a body.
func (l *scribe) workspace(w *envelope.WorkspaceUse) *envelope.WorkspaceUse {
	if w == nil {
		return nil
	}
	r := *w
	r.Name, r.Why = clean(w.Name, maxName), l.text(w.Why)
	return &r
}
