package broker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/project/ignore"
)

// The bounds of what is looked at of a tree when its call is over.
const (
	mostListed = 100_000  // entries of the working directory
	portion    = 256      // files that are taken at once
	portionMax = 32 << 20 // bytes of them, unless one is larger
)

// errUnlisted is a level that cannot say what became of a tree. placement knows
// it before.
var errUnlisted = errors.New("broker: the cell cannot be listed")

// A harvest compares what is in the working directory with the tree that went
// in. Every file of the tree is read again: a program can set a file's size and
// time back, and what the cell says of them is not always the host's word.
type harvest struct {
	f      *flight
	cell   cell.Cell
	caps   envelope.OutputCaps
	was    map[string]*envelope.File // of the tree, until it is seen
	placed map[string]bool           // files of ours and of the call beside the tree
	rules  *ignore.Walk
	out    envelope.Changes
	bytes  envelope.Size // of out.Files
	hidden int           // files below .git
	misses sieve
}

// reap takes what became of the tree.
func (b *Broker) reap(ctx context.Context, f *flight) error {
	if f.tree == nil {
		return nil
	}
	lister, ok := f.cell.(cell.Lister)
	if !ok {
		return errUnlisted
	}
	ctx, cancel := detach(ctx, collectTime)
	defer cancel()
	entries, cut, err := lister.List(ctx, mostListed)
	if err != nil {
		return err
	}
	h := newHarvest(f)
	if err := h.compare(ctx, entries); err != nil {
		return err
	}
	h.removed(cut)
	f.result.Changes = h.finish()
	return nil
}

func newHarvest(f *flight) *harvest {
	h := &harvest{
		f: f, cell: f.cell, caps: f.env.Files.Tree.Changes, was: make(map[string]*envelope.File, len(f.tree.Files)),
		placed: map[string]bool{}, rules: ignore.New(f.tree.Ignore).Walk(), misses: sieve{seen: map[string]bool{}},
	}
	h.out.Complete = true
	h.out.Files = []envelope.Change{}
	for i := range f.tree.Files {
		h.was[f.tree.Files[i].Name] = &f.tree.Files[i]
	}
	for _, file := range f.files {
		if h.was[file.Name] == nil {
			h.placed[file.Name] = true
		}
	}
	return h
}

// compare goes through what is there, in portions.
func (h *harvest) compare(ctx context.Context, entries []cell.Entry) error {
	slices.SortFunc(entries, func(a, b cell.Entry) int { return cmp.Compare(a.Name, b.Name) })
	var batch []cell.Entry
	var size int64
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !h.wanted(e) {
			continue
		}
		if len(batch) >= portion || len(batch) > 0 && e.Size > portionMax-size {
			if err := h.take(ctx, batch, size); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, e), size+e.Size
	}
	return h.take(ctx, batch, size)
}

// wanted decides by name, kind and size whether a file is to be read. What a
// link or a device stands in the place of is not removed: it is missing.
func (h *harvest) wanted(e cell.Entry) bool {
	old := h.was[e.Name]
	switch {
	case h.placed[e.Name] && old == nil:
		return false
	case ignore.Guarded(e.Name) != "":
		delete(h.was, e.Name)
		if old == nil || !e.Regular || e.Size != int64(len(old.Data)) {
			h.hidden++
		}
		return false
	case envelope.CheckName(e.Name) != nil:
		h.f.sign(envelope.SignTree, 1)
		h.misses.miss(e.Name, "not a name that can be handed on")
		return false
	case old == nil && h.rules.File(e.Name) && !h.rules.Over():
		h.out.Ignored++
		return false
	case old == nil && h.rules.Over():
		h.lack(e.Name, "whether the tree's own rules leave it out takes too long to say: fewer rules, or simpler ones")
		return false
	case !e.Regular || e.Size < 0:
		delete(h.was, e.Name)
		h.misses.miss(e.Name, cell.MissIrregular)
		return false
	case old != nil && e.Size == int64(len(old.Data)):
		return true // to be compared
	}
	if why := h.full(e.Size); why != "" {
		h.lack(e.Name, why)
		return false
	}
	return true
}

// full says why one more file of that size is over a cap, or "".
func (h *harvest) full(size int64) string {
	switch {
	case envelope.Count(len(h.out.Files)) >= h.caps.Count:
		return fmt.Sprintf("over the cap of %s changes (files.tree.changes.count)", h.caps.Count)
	case envelope.Size(size) > h.caps.Bytes-h.bytes: // the size may be any: it is the cell's word
		return fmt.Sprintf("over the cap of %s (files.tree.changes.bytes)", h.caps.Bytes)
	}
	return ""
}

// lack notes a change that is not taken: what there is, is not all.
func (h *harvest) lack(name, why string) {
	delete(h.was, name)
	h.misses.miss(name, why)
	h.out.Complete = false
}

// take reads a portion and compares it.
func (h *harvest) take(ctx context.Context, batch []cell.Entry, size int64) error {
	if len(batch) == 0 {
		return nil
	}
	names := make([]string, len(batch))
	for i, e := range batch {
		names[i] = e.Name
	}
	caps := envelope.OutputCaps{Count: envelope.Count(len(batch)), Bytes: envelope.Size(size)}
	files, misses, err := h.cell.Get(ctx, names, caps)
	if err != nil {
		return err
	}
	files, misses, _ = sift(names, caps, files, misses) // a link in the place of a file is a change like another
	for _, f := range files {
		h.settle(f)
	}
	for _, m := range misses {
		h.lack(m.Name, m.Why)
	}
	return nil
}

// settle says what became of one file.
func (h *harvest) settle(now envelope.File) {
	old := h.was[now.Name]
	delete(h.was, now.Name)
	c := envelope.Change{Name: now.Name, Kind: envelope.ChangeAdded, Executable: now.Executable}
	if old != nil {
		same := bytes.Equal(old.Data, now.Data)
		switch {
		case same && old.Executable == now.Executable:
			h.out.Same++
			return
		case same:
			c.Kind = envelope.ChangeMode
		default:
			c.Kind = envelope.ChangeChanged
		}
		c.Before = envelope.Digest(old.Data)
	}
	kept, missed := h.f.mask.files([]envelope.File{now}, nil)
	if len(missed) > 0 {
		h.lack(missed[0].Name, missed[0].Why)
		return
	}
	if why := h.full(int64(len(kept[0].Data))); why != "" {
		h.lack(now.Name, why)
		return
	}
	c.Data, c.After = kept[0].Data, envelope.Digest(kept[0].Data)
	h.bytes += envelope.Size(len(c.Data))
	h.out.Files = append(h.out.Files, c)
}

// removed notes what was not seen. Where the listing was cut, nobody knows.
func (h *harvest) removed(cut bool) {
	if cut {
		h.out.Complete = false
		h.misses.miss("./", fmt.Sprintf("more than %d files, or some that are too deep: not all was looked at", mostListed))
		return
	}
	for name, old := range h.was {
		if ignore.Guarded(name) != "" {
			h.hidden++
			continue
		}
		if why := h.full(0); why != "" {
			h.misses.miss(name, why)
			h.out.Complete = false
			continue
		}
		h.out.Files = append(h.out.Files, envelope.Change{Name: name, Kind: envelope.ChangeRemoved, Before: envelope.Digest(old.Data)})
	}
}

// finish returns the changes, sorted, with what is not among them.
func (h *harvest) finish() *envelope.Changes {
	slices.SortFunc(h.out.Files, func(a, b envelope.Change) int { return cmp.Compare(a.Name, b.Name) })
	h.f.sign(envelope.SignTree, h.hidden)
	if h.hidden > 0 {
		h.misses.miss(".git/", strconv.Itoa(h.hidden)+" files below it, or ones like it, are new, gone or of another size: nothing there is ever taken")
	}
	h.out.Missing = h.misses.short()
	return &h.out
}
