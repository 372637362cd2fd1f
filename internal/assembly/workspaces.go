package assembly

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/workspace"
)

// newBlobs is the directory of blobs beside the store. It opens nothing.
func newBlobs(c *config.Config) *blob.Store {
	w := c.Workspaces
	return blob.New(filepath.Join(c.State, "blobs"), blob.Limits{Bytes: int64(w.Bytes), Blobs: int(w.Blobs), Keep: c.Serve.KeepBlobs.Std()})
}

// newKeeper puts workspaces together over the store and blobs.
func newKeeper(c *config.Config, db *store.DB, blobs *blob.Store) *workspace.Keeper {
	return workspace.New(db.Workspaces(), blobs, int64(c.Workspaces.Versions), time.Now)
}

// pantry is what teams keep as the broker has it.
type pantry struct{ blobs *blob.Store }

// Size implements broker.Blobs.
func (p pantry) Size(ctx context.Context, team, digest string) (int64, error) {
	r, err := p.open(ctx, team, digest)
	if err != nil {
		return 0, err
	}
	return r.Size(), r.Close()
}

// Get implements broker.Blobs.
func (p pantry) Get(ctx context.Context, team, digest string, max int64) ([]byte, error) {
	r, err := p.open(ctx, team, digest)
	if err != nil {
		return nil, err
	}
	data, err := r.All(max)
	return data, errors.Join(err, r.Close())
}

// open opens a blob that the team keeps.
func (p pantry) open(ctx context.Context, team, digest string) (*blob.Reader, error) {
	d, err := blob.Parse(digest)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	r, _, err := p.blobs.OpenKept(team, d)
	if errors.Is(err, blob.ErrNotFound) {
		err = broker.ErrNoBlob
	}
	return r, err
}

// Keep implements broker.Blobs.
func (p pantry) Keep(ctx context.Context, team string, data [][]byte) ([]string, error) {
	list, err := p.blobs.Keep(ctx, team, data)
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name()
	}
	return names, err
}

// shelves are the workspaces as the broker has them.
type shelves struct{ keeper *workspace.Keeper }

// Shelves are workspaces as a broker has them.
func Shelves(k *workspace.Keeper) broker.Workspaces { return shelves{k} }

// Pantry is what teams keep as a broker has it.
func Pantry(s *blob.Store) broker.Blobs { return pantry{s} }

// Take implements broker.Workspaces.
func (s shelves) Take(ctx context.Context, team, name string, version int64, until time.Time) (broker.Loan, error) {
	loan, err := s.keeper.Take(ctx, team, name, version, until)
	if err != nil {
		return nil, err
	}
	return loan, nil
}
