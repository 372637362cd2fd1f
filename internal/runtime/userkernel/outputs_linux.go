package userkernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest"
)

// getPatience is how long a guest may take over one name.
const getPatience = 30 * time.Second

// missLost is why nothing comes out of a cell whose sandbox was killed.
const missLost = "lost with the cell's memory"

// Get implements cell.Cell. A name that ends in a slash is a directory, of
// which every regular file is taken. Its bytes are the guest's word.
func (c *sandboxCell) Get(ctx context.Context, names []string, caps envelope.OutputCaps) (files []envelope.File, misses []envelope.Miss, err error) {
	err = c.Do(cell.OpGet, func() error {
		g := collector{cell: c, caps: caps}
		for _, n := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := g.take(ctx, n); err != nil {
				return err
			}
		}
		files, misses = g.files, g.misses
		return nil
	})
	return files, misses, err
}

// A collector takes files while they fit.
type collector struct {
	cell   *sandboxCell
	caps   envelope.OutputCaps
	files  []envelope.File
	misses []envelope.Miss
	bytes  int64
}

func (g *collector) miss(name, why string) error {
	g.misses = append(g.misses, envelope.Miss{Name: name, Why: why})
	return nil
}

func (g *collector) take(ctx context.Context, name string) error {
	if g.cell.isGone() {
		return g.miss(name, missLost)
	}
	if dir, ok := strings.CutSuffix(name, "/"); ok {
		return g.takeDir(ctx, dir)
	}
	return g.takeFile(ctx, name)
}

// takeDir takes what is below dir. The names are the program's, and held to
// the same rules as the caller's.
func (g *collector) takeDir(ctx context.Context, dir string) error {
	bounded, cancel := context.WithTimeout(ctx, getPatience)
	defer cancel()
	found, cut, err := g.cell.guest.List(bounded, dir, int(g.caps.Count)+1)
	if err != nil {
		return g.failed(ctx, dir+"/", err, cell.MissNoDir)
	}
	slices.SortFunc(found, func(a, b guest.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range found {
		if err := g.takeEntry(ctx, dir, e); err != nil {
			return err
		}
	}
	if cut {
		return g.miss(dir+"/", fmt.Sprintf("more than %d files", g.caps.Count))
	}
	return nil
}

// takeEntry takes one entry of a listing, which must be of that directory.
func (g *collector) takeEntry(ctx context.Context, dir string, e guest.Entry) error {
	if err := envelope.CheckName(e.Name); err != nil {
		return g.miss(e.Name, err.Error())
	}
	if !strings.HasPrefix(e.Name, dir+"/") {
		return g.miss(dir+"/", "the cell lists what is not in it")
	}
	if !e.Regular {
		return g.miss(e.Name, cell.MissIrregular)
	}
	return g.takeFile(ctx, e.Name)
}

func (g *collector) takeFile(ctx context.Context, name string) error {
	if len(g.files) >= int(g.caps.Count) {
		return g.miss(name, cell.MissCount(g.caps))
	}
	bounded, cancel := context.WithTimeout(ctx, getPatience)
	defer cancel()
	out, err := g.cell.guest.Get(bounded, name, int64(g.caps.Bytes)-g.bytes)
	if err != nil {
		return g.failed(ctx, name, err, cell.MissIrregular)
	}
	g.bytes += int64(len(out.Data))
	g.files = append(g.files, envelope.File{Name: name, Data: out.Data, Executable: out.Executable})
	return nil
}

// failed is a file or a directory that could not be had. A guest that does not
// answer has nothing more to give.
func (g *collector) failed(ctx context.Context, name string, err error, irregular string) error {
	var file *guest.FileError
	if errors.As(err, &file) {
		return g.miss(name, words(file, g.caps, irregular))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if killErr := g.cell.kill(); killErr != nil {
		return killErr
	}
	return g.miss(name, missLost)
}

// words say why a file cannot be had.
func words(err error, caps envelope.OutputCaps, irregular string) string {
	switch {
	case errors.Is(err, guest.ErrTooLong):
		return cell.MissBytes(caps)
	case errors.Is(err, guest.ErrIrregular), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR):
		return irregular
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return cell.MissAbsent
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "name too long"
	}
	return "cannot be read"
}

// List implements cell.Lister. Its entries are the guest's word.
func (c *sandboxCell) List(ctx context.Context, max int) (found []cell.Entry, cut bool, err error) {
	err = c.Do(cell.OpGet, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.isGone() {
			cut = true // what was there is not known
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, getPatience)
		defer cancel()
		var entries []guest.Entry
		if entries, cut, err = c.guest.List(bounded, ".", max); err != nil {
			return fmt.Errorf("%w: %w", cell.ErrBroken, err)
		}
		for _, e := range entries {
			found = append(found, cell.Entry(e))
		}
		return nil
	})
	return found, cut, err
}
