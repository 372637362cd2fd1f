package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// List returns the newest version of each workspace of a team.
func (k *Keeper) List(ctx context.Context, team string) ([]Version, error) {
	return k.index.List(ctx, team)
}

// Versions returns the versions of a workspace, newest first. An error wraps
// ErrAbsent where there is none.
func (k *Keeper) Versions(ctx context.Context, team, name string) ([]Version, error) {
	list, err := k.index.Versions(ctx, team, name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: %s", ErrAbsent, name)
	}
	return list, err
}

// version returns one version; number 0 is the newest.
func (k *Keeper) version(ctx context.Context, team, name string, number int64) (Version, error) {
	list, err := k.Versions(ctx, team, name)
	if err != nil {
		return Version{}, err
	}
	for _, v := range list {
		if number == 0 || v.Number == number {
			return v, nil
		}
	}
	return Version{}, fmt.Errorf("%w: %s has no version %d", ErrAbsent, name, number)
}

// Show returns a version and what is in it, without the bytes; number 0 is the
// newest.
func (k *Keeper) Show(ctx context.Context, team, name string, number int64) (Version, *Manifest, error) {
	v, err := k.version(ctx, team, name, number)
	if err != nil {
		return v, nil, err
	}
	m, err := k.manifest(v)
	return v, m, err
}

// Read returns a version with its files; number 0 is the newest.
func (k *Keeper) Read(ctx context.Context, team, name string, number int64) (Version, *envelope.Tree, error) {
	v, err := k.version(ctx, team, name, number)
	if err != nil {
		return v, nil, err
	}
	_, t, err := k.read(ctx, v)
	return v, t, err
}

// A Difference is one file that two versions do not have alike.
type Difference struct {
	Before []byte // of the old version; nil where it has none
	Ran    bool   // whether that one could be executed
	Change envelope.Change
}

// A Delta is one file that two versions do not have alike, without its bytes.
type Delta struct {
	Kind envelope.ChangeKind
	Was  Entry // of the old version; zero where it has none
	Now  Entry // of the new one
}

// Name is the file's.
func (d *Delta) Name() string { return cmp.Or(d.Now.Name, d.Was.Name) }

// Compare compares two versions: what makes the second of the first, by name.
// Number 0 is nothing at all, before the first version.
func (k *Keeper) Compare(ctx context.Context, team, name string, from, to int64) ([]Delta, error) {
	old := &Manifest{}
	if from > 0 {
		var err error
		if _, old, err = k.Show(ctx, team, name, from); err != nil {
			return nil, err
		}
	}
	_, now, err := k.Show(ctx, team, name, to)
	if err != nil {
		return nil, err
	}
	return Deltas(old, now), nil
}

// Deltas is what makes one version of another, by name.
func Deltas(old, now *Manifest) (list []Delta) {
	for _, e := range now.Files {
		was, there := old.find(e.Name)
		kind := envelope.ChangeAdded
		switch {
		case there && was == e:
			continue
		case there && was.SHA256 == e.SHA256:
			kind = envelope.ChangeMode
		case there:
			kind = envelope.ChangeChanged
		}
		list = append(list, Delta{kind, was, e})
	}
	for _, e := range old.Files {
		if _, there := now.find(e.Name); !there {
			list = append(list, Delta{Kind: envelope.ChangeRemoved, Was: e})
		}
	}
	slices.SortFunc(list, func(a, b Delta) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// Diff is Compare with the bytes of every file, all at once.
func (k *Keeper) Diff(ctx context.Context, team, name string, from, to int64) ([]Difference, error) {
	deltas, err := k.Compare(ctx, team, name, from, to)
	if err != nil {
		return nil, err
	}
	list := make([]Difference, 0, len(deltas))
	for i := range deltas {
		d, err := k.Fill(team, &deltas[i])
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// Fill reads the bytes of a delta.
func (k *Keeper) Fill(team string, delta *Delta) (d Difference, err error) {
	var before, now []byte
	if delta.Kind != envelope.ChangeAdded {
		if before, err = k.blob(team, delta.Was); err != nil {
			return d, err
		}
	}
	if delta.Kind != envelope.ChangeRemoved {
		if now, err = k.blob(team, delta.Now); err != nil {
			return d, err
		}
	}
	return delta.With(before, now), nil
}

// With is a delta with its bytes: nil where a version does not have the file.
func (d *Delta) With(before, now []byte) Difference {
	c := envelope.Change{Name: d.Name(), Kind: d.Kind, Executable: d.Now.Executable, Data: now}
	if d.Kind != envelope.ChangeAdded {
		c.Before = d.Was.SHA256.Name()
	}
	if d.Kind != envelope.ChangeRemoved {
		c.After = d.Now.SHA256.Name()
	}
	return Difference{Before: before, Ran: d.Was.Executable, Change: c}
}

// Open opens a file of a version of the team's. The caller closes it. The error
// wraps ErrCorrupt where it is not there as it was written: also because the
// version was removed meanwhile.
func (k *Keeper) Open(team string, e Entry) (*blob.Reader, error) {
	r, err := k.blobs.Open(team, e.SHA256)
	if err == nil && r.Size() != e.Size {
		err = errors.Join(blob.ErrCorrupt, r.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrCorrupt, e.Name, err)
	}
	return r, nil
}

// File returns the entry of a file of a version; number 0 is the newest. An
// error wraps ErrAbsent where there is none.
func (k *Keeper) File(ctx context.Context, team, name string, number int64, file string) (Entry, error) {
	_, m, err := k.Show(ctx, team, name, number)
	if err != nil {
		return Entry{}, err
	}
	e, ok := m.find(file)
	if !ok {
		return e, fmt.Errorf("%w: %s has no file %q", ErrAbsent, name, file)
	}
	return e, nil
}

// Remove removes a workspace, or its versions up to one. Their bytes go with
// the next GC.
func (k *Keeper) Remove(ctx context.Context, team, name string, upTo int64) (int, error) {
	return k.index.Remove(ctx, team, name, upTo, k.now())
}

// GC removes the blobs that no version of any workspace has and no team keeps
// for itself. A version whose manifest cannot be read ends it: what it has is
// not known.
func (k *Keeper) GC(ctx context.Context) (blob.Report, error) {
	return k.blobs.GC(ctx, func(team string) (map[blob.Digest]bool, error) { return k.reachable(ctx, team) })
}

func (k *Keeper) reachable(ctx context.Context, team string) (map[blob.Digest]bool, error) {
	kept := map[blob.Digest]bool{}
	all, err := k.index.List(ctx, team)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		versions, err := k.index.Versions(ctx, team, w.Name)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			m, err := k.manifest(v)
			if err != nil {
				return nil, fmt.Errorf("%s@%d: %w", v.Name, v.Number, err)
			}
			kept[v.Manifest] = true
			for _, e := range m.Files {
				kept[e.SHA256] = true
			}
		}
	}
	return kept, nil
}
