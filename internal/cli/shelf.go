package cli

import (
	"context"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/workspace"
)

// shelf has workspaces: this host, or a daemon. Errors are those of package
// workspace, or a *failure. Number 0 is the newest version.
type shelf interface {
	List(ctx context.Context) ([]workspace.Version, error)
	Versions(ctx context.Context, name string) ([]workspace.Version, error)
	Show(ctx context.Context, name string, number int64) (workspace.Version, *workspace.Manifest, error)
	Read(ctx context.Context, name string, number int64) (workspace.Version, *envelope.Tree, error)
	Diff(ctx context.Context, name string, from, to int64) ([]workspace.Difference, error)
	Remove(ctx context.Context, name string, upTo int64) (int, error)
}

// localShelf is this host's.
type localShelf struct {
	*workspace.Keeper
	team string
}

// List implements shelf.
func (s localShelf) List(ctx context.Context) ([]workspace.Version, error) {
	return s.Keeper.List(ctx, s.team)
}

// Versions implements shelf.
func (s localShelf) Versions(ctx context.Context, name string) ([]workspace.Version, error) {
	return s.Keeper.Versions(ctx, s.team, name)
}

// Show implements shelf.
func (s localShelf) Show(ctx context.Context, name string, number int64) (workspace.Version, *workspace.Manifest, error) {
	return s.Keeper.Show(ctx, s.team, name, number)
}

// Read implements shelf.
func (s localShelf) Read(ctx context.Context, name string, number int64) (workspace.Version, *envelope.Tree, error) {
	return s.Keeper.Read(ctx, s.team, name, number)
}

// Diff implements shelf.
func (s localShelf) Diff(ctx context.Context, name string, from, to int64) ([]workspace.Difference, error) {
	return s.Keeper.Diff(ctx, s.team, name, from, to)
}

// Remove implements shelf.
func (s localShelf) Remove(ctx context.Context, name string, upTo int64) (int, error) {
	return s.Keeper.Remove(ctx, s.team, name, upTo)
}

// withShelf gives the workspaces to do: the daemon's, where the configuration names
// one.
func withShelf(a *app, do func(shelf) error) error {
	d, err := a.keeper(a.grammar.Work.hereFlag)
	switch {
	case err != nil:
		return err
	case d != nil:
		return workspaceFailure(do(farShelf{d}))
	}
	return withWorkspaces(a, func(k *workspace.Keeper) error { return do(localShelf{k, localCaller().Team}) })
}
