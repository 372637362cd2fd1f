package callcell

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project"
)

// TreeOptions say how a working tree is read.
type TreeOptions struct {
	// Git takes .git in too. Nothing of it ever comes back.
	Git bool
}

// Tree is a working tree of this host as it was read. It is bytes: no git, hook
// or filter of it runs here, and no link is followed.
type Tree struct {
	// Skipped counts what does not go in, by reason: links, devices, names that
	// cannot be handed on. What .gitignore and .callcellignore leave out is not
	// among it.
	Skipped map[string]int

	tree     *project.Tree
	journals string
}

// ReadTree reads the working tree in the directory dir, as far as its .gitignore
// and .callcellignore say, with the rights of this program: dir is the
// operator's word, and must not be a caller's. Changes that a program which died
// applied in part are taken back first. An error is an *Error.
func (c *Callcell) ReadTree(ctx context.Context, dir string, o TreeOptions) (t *Tree, err error) {
	err = c.do(ctx, func(ctx context.Context) error {
		journals := filepath.Join(c.config.State, "trees")
		tree, err := project.Read(ctx, dir, project.Options{Git: o.Git, Journals: journals})
		if err == nil {
			t = &Tree{Skipped: tree.Skips.Counts, tree: tree, journals: journals}
		}
		return err
	})
	return t, err
}

// Call returns the tree as a call takes it in (envelope.Call.Tree). The profile
// says how much it may be: files.tree. The bytes are shared, and must not be
// changed.
func (t *Tree) Call() *envelope.Tree { return t.tree.Call() }

// TreeNote is something to be said of one file. Its name is data of an untrusted
// program.
type TreeNote struct {
	Name string
	Why  string
}

// TreePlan is what is to become of a tree. It is there to be read: to change its
// lists changes nothing of what Apply does.
type TreePlan struct {
	Changes  []envelope.Change // that Apply makes, sorted by name
	Refused  []TreeNote        // changes that are never applied: below .git, a name that is none, ...
	Warnings []TreeNote        // changes to what tools run by themselves: look twice

	plan     *project.Plan
	journals string
	complete bool
}

// Plan sorts the changes that a call made of the tree (envelope.Result.Changes)
// into those that may be applied and those that may not. Nothing is written.
func (t *Tree) Plan(changes *envelope.Changes) *TreePlan {
	if changes == nil {
		changes = &envelope.Changes{Complete: true}
	}
	p := t.tree.Plan(changes)
	return &TreePlan{Changes: p.Changes, Refused: notesOf(p.Refused), Warnings: notesOf(p.Warnings), plan: p, journals: t.journals, complete: changes.Complete}
}

func notesOf(list []project.Note) (out []TreeNote) {
	for _, n := range list {
		out = append(out, TreeNote(n))
	}
	return out
}

// errIncomplete is about changes of which some could not be taken.
var errIncomplete = errors.New("nothing is applied: not all changes of the call could be taken")

// Apply writes the changes to the tree: all or nothing, also where this program
// is killed meanwhile. Where a file has become another since the tree was read,
// nothing is written and the error wraps ErrConflict. An error is an *Error.
func (p *TreePlan) Apply() error {
	switch {
	case !p.complete:
		return failure(errIncomplete)
	case p.plan.Empty():
		return nil
	}
	return failure(p.plan.Apply(p.journals))
}
