package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Collection is what a collector did.
type Collection struct {
	Removed []Tree   `json:"removed,omitempty"`
	InUse   []Tree   `json:"inUse,omitempty"` // nobody names them, and cells have them
	Kept    int      `json:"kept"`
	Bytes   int64    `json:"bytes"`             // that Removed had
	Missing []string `json:"missing,omitempty"` // images whose trees are not there
}

// Collect removes the trees of the index that no record names, logs that no
// record has, and what a process that died left of a record that it wrote. With
// dry it only says so. Nothing is made meanwhile.
func Collect(ctx context.Context, x *Index, trees Trees, dry bool) (*Collection, error) {
	unlock, err := x.lock(ctx, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	records, err := x.List()
	if err != nil {
		return nil, err // a record that cannot be read may name any tree
	}
	all, err := trees.List(ctx)
	if err != nil {
		return nil, err
	}
	c := &Collection{}
	named := map[string]bool{}
	for _, r := range records {
		for _, d := range r.Trees() {
			named[d] = true
			if !slices.ContainsFunc(all, func(t Tree) bool { return t.Digest == d }) && !slices.Contains(c.Missing, r.Name) {
				c.Missing = append(c.Missing, r.Name)
			}
		}
	}
	var faults []error
	for _, t := range all {
		if named[t.Digest] {
			c.Kept++
		}
		if named[t.Digest] || !t.Owned {
			continue
		}
		faults = append(faults, c.remove(ctx, trees, t, dry))
	}
	if !dry {
		faults = append(faults, x.sweep(records))
	}
	return c, errors.Join(faults...)
}

func (c *Collection) remove(ctx context.Context, trees Trees, t Tree, dry bool) error {
	if !dry {
		err := trees.Remove(ctx, t.Digest)
		var fault *Error
		if errors.As(err, &fault) && fault.Kind == KindInUse {
			c.InUse = append(c.InUse, t)
			return nil
		}
		if err != nil {
			return err
		}
	}
	c.Removed = append(c.Removed, t)
	c.Bytes += t.Bytes
	return nil
}

// sweep removes files of ours that nothing leads to.
func (x *Index) sweep(records []*Record) error {
	logs := map[string]bool{}
	for _, r := range records {
		logs[r.Call+".log"] = true
	}
	var faults []error
	for dir, stays := range map[string]func(name string) bool{
		"names": func(name string) bool { return !strings.HasPrefix(name, ".new-") },
		"logs":  func(name string) bool { return logs[name] },
	} {
		entries, err := os.ReadDir(filepath.Join(x.dir, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
		for _, e := range entries {
			if !stays(e.Name()) {
				faults = append(faults, os.Remove(filepath.Join(x.dir, dir, e.Name())))
			}
		}
	}
	return errors.Join(faults...)
}

// lockWait is how long a lock is tried again for: a build takes minutes.
const (
	lockWait = 30 * time.Second
	lockTick = 50 * time.Millisecond
)
