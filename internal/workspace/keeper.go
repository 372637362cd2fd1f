package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// Keeper keeps workspaces. It is safe for concurrent use.
type Keeper struct {
	index Index
	blobs *blob.Store
	keep  int64 // versions
	now   func() time.Time
}

// New returns a Keeper over an index and blobs. keep is how many versions are
// kept, at least 1; now is the time.
func New(index Index, blobs *blob.Store, keep int64, now func() time.Time) *Keeper {
	return &Keeper{index: index, blobs: blobs, keep: max(keep, 1), now: now}
}

// Loan is a workspace in the hands of one call.
type Loan struct {
	keeper   *Keeper
	hold     Hold
	version  Version
	manifest *Manifest
	tree     *envelope.Tree
}

// Take claims a workspace for one call until a time and reads its newest
// version, which must be want unless that is 0. An error is the refusal that
// the caller gets (envelope.RefusalOf); then nothing is held.
func (k *Keeper) Take(ctx context.Context, team, name string, want int64, until time.Time) (*Loan, error) {
	l := &Loan{keeper: k, hold: Hold{Team: team, Name: name, Holder: rand.Text(), Until: until}, manifest: &Manifest{Version: 1}}
	if err := envelope.CheckWorkspace(name); err != nil {
		return nil, err
	}
	var err error
	if l.version, err = k.index.Take(ctx, l.hold, want, k.now()); err != nil {
		return nil, &refusal{name, err}
	}
	l.tree = &envelope.Tree{Files: []envelope.File{}}
	if l.version.Number > 0 {
		if l.manifest, l.tree, err = k.read(ctx, l.version); err != nil {
			return nil, &refusal{name, errors.Join(err, l.Release(context.WithoutCancel(ctx)))}
		}
	}
	return l, nil
}

// Version is the version that was read; 0: there is none yet.
func (l *Loan) Version() int64 { return l.version.Number }

// Tree is what is in it. It is not to be changed.
func (l *Loan) Tree() *envelope.Tree { return l.tree }

// Release lets go.
func (l *Loan) Release(ctx context.Context) error { return l.keeper.index.Release(ctx, l.hold) }

// Commit writes what changes make of tree as the next version, and returns its
// number. An error wraps ErrLost, blob.ErrQuota or blob.ErrBusy, or is the
// store's; then there is no such version.
func (l *Loan) Commit(ctx context.Context, call string, tree *envelope.Tree, changes *envelope.Changes) (int64, error) {
	hold, err := l.keeper.blobs.Hold(ctx)
	if err != nil {
		return 0, err
	}
	number, err := l.commit(ctx, hold, call, tree, changes)
	return number, errors.Join(err, hold.Release())
}

func (l *Loan) commit(ctx context.Context, hold *blob.Hold, call string, tree *envelope.Tree, changes *envelope.Changes) (int64, error) {
	m, data, err := l.next(tree, changes)
	if err != nil {
		return 0, err
	}
	text, err := m.encode()
	if err != nil {
		return 0, err
	}
	if len(text) > maxManifest {
		return 0, errors.New("workspace: there are too many names")
	}
	digests, err := hold.Put(ctx, l.hold.Team, append(data, text))
	if err != nil {
		return 0, err
	}
	v := Version{
		Team: l.hold.Team, Name: l.hold.Name, Number: l.version.Number + 1, Manifest: digests[len(digests)-1],
		Call: call, At: l.keeper.now(), Files: len(m.Files), Bytes: m.Bytes(),
	}
	if err := l.keeper.index.Commit(ctx, v, l.hold.Holder, l.keeper.keep); err != nil {
		return 0, err
	}
	return v.Number, nil
}

// read reads a version with all that is in it. Every blob is held to its digest
// and its size.
func (k *Keeper) read(ctx context.Context, v Version) (*Manifest, *envelope.Tree, error) {
	m, err := k.manifest(v)
	if err != nil {
		return nil, nil, err
	}
	t := &envelope.Tree{Files: make([]envelope.File, 0, len(m.Files)), Ignore: m.Ignore}
	for _, e := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		data, err := k.blob(v.Team, e)
		if err != nil {
			return nil, nil, err
		}
		t.Files = append(t.Files, envelope.File{Name: e.Name, Data: data, Executable: e.Executable})
	}
	return m, t, nil
}

func (k *Keeper) manifest(v Version) (*Manifest, error) {
	data, err := k.blobs.Get(v.Team, v.Manifest, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%w: its manifest: %w", ErrCorrupt, err)
	}
	return decodeManifest(data)
}

func (k *Keeper) blob(team string, e Entry) ([]byte, error) {
	data, err := k.blobs.Get(team, e.SHA256, e.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrCorrupt, e.Name, err)
	}
	if int64(len(data)) != e.Size {
		return nil, fmt.Errorf("%w: %q has %d bytes, and its manifest says %d", ErrCorrupt, e.Name, len(data), e.Size)
	}
	return data, nil
}
