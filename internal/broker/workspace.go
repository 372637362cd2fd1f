package broker

import (
	"context"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Workspaces keeps trees from call to call, each team its own. It is called
// concurrently.
type Workspaces interface {
	// Take returns the newest version of a workspace for one call, which alone
	// may write the next until it lets go, or until that time. version is the
	// one that the caller takes for the newest; 0 is any. The error of one that
	// cannot be had is an *envelope.Refusal.
	Take(ctx context.Context, team, name string, version int64, until time.Time) (Loan, error)
}

// Loan is a workspace in the hands of one call. Its methods are called one
// after another.
type Loan interface {
	// Version is the version that was read; 0: there is none yet.
	Version() int64
	// Tree is what is in it, empty at version 0. It is not changed.
	Tree() *envelope.Tree
	// Commit writes what changes make of tree as the next version, and returns
	// its number. Without an error it is durable.
	Commit(ctx context.Context, call string, tree *envelope.Tree, changes *envelope.Changes) (int64, error)
	// Release lets go. It is called once, last.
	Release(ctx context.Context) error
}

// The bounds of a workspace's steps.
const (
	takeTime   = 30 * time.Second
	commitTime = 60 * time.Second
	holdMargin = 3 * time.Minute // beyond resources.wall: setup, collection, teardown and commit are in it
)

// load puts the bytes of blobs in their places, and works out the tree of the
// call: its own, or what is in its workspace.
func (b *Broker) load(ctx context.Context, f *flight) error {
	if err := b.bring(ctx, f); err != nil {
		return err
	}
	if w := f.call.Workspace; w != nil {
		if err := b.take(ctx, f, w); err != nil {
			return err
		}
	}
	f.tree = f.call.Tree
	if f.tree != nil {
		f.files = append(f.files, f.tree.Files...)
	}
	return nil
}

// take puts what is in the workspace into the call, as its tree.
func (b *Broker) take(ctx context.Context, f *flight, w *envelope.Workspace) error {
	if b.workspaces == nil {
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "workspace", Message: "there are no workspaces here",
			Hint: "hand the files over as a tree"}
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	until := b.clock.Now().Add(f.env.Resources.Wall.Std() + f.env.Cleanup.StopGrace.Std() + holdMargin)
	loan, err := b.workspaces.Take(ctx, f.who.Team, w.Name, w.Version, until)
	if err != nil {
		return err
	}
	f.loan = loan
	f.result.Workspace = &envelope.WorkspaceUse{Name: w.Name, Read: loan.Version(), Why: "the call did not come to its end"}
	call := *f.call
	if loan.Version() > 0 {
		if call.Tree != nil {
			return &envelope.Refusal{Reason: envelope.ReasonPolicy, Field: "tree", Message: "the workspace " + w.Name + " has a version already, and the call brings a tree",
				Hint: "leave the tree out, or name a workspace that is not there yet"}
		}
		call.Tree = loan.Tree()
	} else if call.Tree == nil {
		call.Tree = &envelope.Tree{Files: []envelope.File{}}
	}
	f.call = &call
	if err := call.Validate(); err != nil {
		return err
	}
	if err := f.env.Admits(&call); err != nil {
		return err
	}
	return fits(&f.env, &call)
}

// commit writes the next version of the workspace, where the call came to its
// end and all that it changed is known, and lets go of it.
func (b *Broker) commit(ctx context.Context, f *flight) {
	if f.loan == nil {
		return
	}
	ctx, cancel := detach(ctx, commitTime)
	defer cancel()
	use := f.result.Workspace
	use.Why = f.uncommitted()
	if use.Why == "" {
		err := b.guard(f, "commit", func() (err error) {
			use.Wrote, err = f.loan.Commit(ctx, f.result.ID, f.tree, f.result.Changes)
			return err
		})
		if err != nil {
			use.Wrote, use.Why = 0, err.Error()
			f.warn("workspace " + use.Name + ": no version was written: " + err.Error())
		}
	}
	if err := b.guard(f, "release", func() error { return f.loan.Release(ctx) }); err != nil {
		f.warn("workspace " + use.Name + ": it is held for a while still: " + err.Error())
	}
}

// uncommitted says why no version is to be written, or "".
func (f *flight) uncommitted() string {
	changes := f.result.Changes
	switch {
	case f.result.Refusal != nil:
		return "the call was refused"
	case f.result.Outcome != envelope.OutcomeCompleted:
		return "the program did not end by itself"
	case changes == nil:
		return "what became of the tree is not known"
	case !changes.Complete:
		return "not all changes could be taken"
	case len(changes.Files) == 0 && f.loan.Version() > 0:
		return "nothing changed"
	}
	return ""
}
