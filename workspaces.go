package callcell

import (
	"context"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/workspace"
)

// Workspaces are the trees that live on from call to call. A call reads the
// newest version of one and writes the next by naming it (envelope.Workspace);
// the configuration bounds their bytes and versions (workspaces). They are
// shared with the commands that have the same State. An error is an *Error. Its
// methods may be called concurrently.
type Workspaces struct{ cells *Callcell }

// Workspaces returns the workspaces of this host.
func (c *Callcell) Workspaces() *Workspaces { return &Workspaces{c} }

// List lists the workspaces, each with its newest version.
func (w *Workspaces) List(ctx context.Context) ([]client.WorkspaceVersion, error) {
	return w.versions(ctx, func(ctx context.Context, k *workspace.Keeper) ([]workspace.Version, error) {
		return k.List(ctx, w.cells.caller.Team)
	})
}

// Versions lists the versions of one, newest first. An error wraps ErrAbsent
// where there is none.
func (w *Workspaces) Versions(ctx context.Context, name string) ([]client.WorkspaceVersion, error) {
	return w.versions(ctx, func(ctx context.Context, k *workspace.Keeper) ([]workspace.Version, error) {
		return k.Versions(ctx, w.cells.caller.Team, name)
	})
}

// Read returns a version with its files; 0 is the newest. They are data of
// untrusted programs. An error wraps ErrAbsent where there is none.
func (w *Workspaces) Read(ctx context.Context, name string, version int64) (tree *envelope.Tree, err error) {
	err = w.cells.do(ctx, func(ctx context.Context) (err error) {
		_, tree, err = w.cells.house.Workspaces.Read(ctx, w.cells.caller.Team, name, version)
		return err
	})
	return tree, err
}

// Remove removes the versions of a workspace up to one, or all with the
// workspace where that is 0. It returns how many. Their space is free with the
// next Collect.
func (w *Workspaces) Remove(ctx context.Context, name string, upTo int64) (n int, err error) {
	err = w.cells.do(ctx, func(ctx context.Context) (err error) {
		n, err = w.cells.house.Workspaces.Remove(ctx, w.cells.caller.Team, name, upTo)
		return err
	})
	return n, err
}

// Collect removes the bytes that no version has any more, older versions that
// the configuration does not keep among them, and returns how many. Calls go on
// meanwhile.
func (w *Workspaces) Collect(ctx context.Context) (bytes int64, err error) {
	err = w.cells.do(ctx, func(ctx context.Context) error {
		report, err := w.cells.house.Workspaces.GC(ctx)
		bytes = report.Bytes
		return err
	})
	return bytes, err
}

func (w *Workspaces) versions(ctx context.Context, list func(context.Context, *workspace.Keeper) ([]workspace.Version, error)) (out []client.WorkspaceVersion, err error) {
	err = w.cells.do(ctx, func(ctx context.Context) error {
		all, err := list(ctx, w.cells.house.Workspaces)
		for _, v := range all {
			out = append(out, client.WorkspaceVersion{Name: v.Name, Version: v.Number, Call: v.Call, At: v.At, Files: v.Files, Bytes: v.Bytes, Manifest: v.Manifest.Name()})
		}
		return err
	})
	return out, err
}
