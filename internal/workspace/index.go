package workspace

import (
	"context"
	"time"

	"github.com/callcell/callcell/internal/blob"
)

// Version is one version of a workspace.
type Version struct {
	Team     string      `json:"team,omitempty"`
	Name     string      `json:"name"`
	Number   int64       `json:"version"` // from 1; 0: none yet
	Manifest blob.Digest `json:"manifest"`
	Call     string      `json:"call"` // id of the call that wrote it
	At       time.Time   `json:"at"`
	Files    int         `json:"files"`
	Bytes    int64       `json:"bytes"`
}

// Hold is a claim to write the next version.
type Hold struct {
	Team, Name string
	Holder     string // the one who claims; no two have the same
	Until      time.Time
}

// Index says which versions there are. Its methods may be called concurrently,
// and by several processes; each is one transaction, and durable when it
// returns nil. Errors wrap ErrHeld, ErrStale, ErrAbsent or ErrLost where they
// are one of these, or are the store's.
type Index interface {
	// Take claims a workspace and returns its newest version, whose number is 0
	// where there is none. want is the number that this must be, 0 for any. A
	// hold that was valid until now or earlier is over.
	Take(ctx context.Context, h Hold, want int64, now time.Time) (Version, error)
	// Commit adds the version after the newest, which must be v.Number-1, for
	// the holder, and drops versions that are keep or more behind it.
	Commit(ctx context.Context, v Version, holder string, keep int64) error
	// Release ends a hold, if it is that one's.
	Release(ctx context.Context, h Hold) error
	// List returns the newest version of each workspace of a team, by name.
	List(ctx context.Context, team string) ([]Version, error)
	// Versions returns the versions of a workspace, newest first.
	Versions(ctx context.Context, team, name string) ([]Version, error)
	// Remove removes the versions of a workspace up to one, or the workspace
	// with all of them where upTo is 0. The newest goes only with all. A
	// workspace that is held stays.
	Remove(ctx context.Context, team, name string, upTo int64, now time.Time) (removed int, err error)
}
