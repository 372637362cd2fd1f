package image

import (
	"context"
	"os"
	"time"
)

// Limits are what one tree may have.
type Limits struct {
	Bytes   int64
	Entries int64
}

// Forms are the forms in which a tree is kept.
type Forms struct {
	Dir   bool // a directory, for levels that mount it
	EROFS bool // a file, for levels with a kernel of their own
	// MountPoints makes what the root of a cell needs to be mounted on.
	MountPoints bool
}

// Unpacked is what the unpacker says of a tree that it made.
type Unpacked struct {
	Digest  string // sha256:HEX
	Bytes   int64
	Entries int64
	Dropped map[string]int64 // entries that a tree does not have, by reason
}

// Tree is one tree of the store.
type Tree struct {
	Digest string    `json:"digest"`
	Bytes  int64     `json:"bytes"`
	Forms  Forms     `json:"-"`
	Made   time.Time `json:"made"`
	Owned  bool      `json:"-"` // by this index: it was made for it
}

// Trees is the store of trees, which belongs to the launcher. It is called
// concurrently.
type Trees interface {
	// Unpack makes a tree of a tar stream, until its end. The tree is not in
	// the store before Keep. The error is a *Error where the stream is at
	// fault; then nothing is left. Unpack closes stream.
	Unpack(ctx context.Context, stream *os.File, limits Limits, forms Forms) (Unpacked, Staged, error)
	// List returns all trees.
	List(ctx context.Context) ([]Tree, error)
	// Remove removes a tree of the index's own, unless another index has it too;
	// an *Error of KindInUse where a cell has it.
	Remove(ctx context.Context, digest string) error
}

// Staged is a tree that was made and is not in the store yet. One of its
// methods is called, once.
type Staged interface {
	Keep(ctx context.Context) error
	Drop(ctx context.Context) error
}
