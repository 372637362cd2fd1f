package assembly

import (
	"context"
	"path/filepath"
	"time"

	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/workspace"
)

// newKeeper puts workspaces together over the store and a directory of blobs
// beside it. It opens nothing.
func newKeeper(c *config.Config, db *store.DB) *workspace.Keeper {
	w := c.Workspaces
	blobs := blob.New(filepath.Join(c.State, "blobs"), blob.Limits{Bytes: int64(w.Bytes), Blobs: int(w.Blobs)})
	return workspace.New(db.Workspaces(), blobs, int64(w.Versions), time.Now)
}

// shelves are the workspaces as the broker has them.
type shelves struct{ keeper *workspace.Keeper }

// Take implements broker.Workspaces.
func (s shelves) Take(ctx context.Context, team, name string, version int64, until time.Time) (broker.Loan, error) {
	loan, err := s.keeper.Take(ctx, team, name, version, until)
	if err != nil {
		return nil, err
	}
	return loan, nil
}
