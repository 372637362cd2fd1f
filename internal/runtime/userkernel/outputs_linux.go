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
		if err := g.all(ctx, names); err != nil {
			return err
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

func (g *collector) miss(name, why string) {
	g.misses = append(g.misses, envelope.Miss{Name: name, Why: why})
}

func (g *collector) missAll(names []string, why string) {
	for _, name := range names {
		g.miss(name, why)
	}
}

// all takes what the names say, in their order: files that follow one another
// at once.
func (g *collector) all(ctx context.Context, names []string) error {
	var files []string
	for _, name := range names {
		dir, ok := strings.CutSuffix(name, "/")
		if !ok {
			files = append(files, name)
			continue
		}
		if err := g.takeFiles(ctx, files); err != nil {
			return err
		}
		files = nil
		if err := g.takeDir(ctx, dir); err != nil {
			return err
		}
	}
	return g.takeFiles(ctx, files)
}

// takeDir takes what is below dir. The names are the program's, and held to
// the same rules as the caller's.
func (g *collector) takeDir(ctx context.Context, dir string) error {
	if g.cell.isGone() {
		g.miss(dir+"/", missLost)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, getPatience)
	defer cancel()
	found, cut, err := g.cell.guest.List(bounded, dir, int(g.caps.Count)+1)
	if err != nil {
		return g.failed(ctx, dir+"/", err, cell.MissNoDir)
	}
	slices.SortFunc(found, func(a, b guest.Entry) int { return strings.Compare(a.Name, b.Name) })
	var names []string
	for _, e := range found {
		if g.wanted(dir, e) {
			names = append(names, e.Name)
		}
	}
	if err := g.takeFiles(ctx, names); err != nil {
		return err
	}
	if cut {
		g.miss(dir+"/", fmt.Sprintf("more than %d files", g.caps.Count))
	}
	return nil
}

// wanted reports whether an entry of a listing can be taken, which must be of
// that directory.
func (g *collector) wanted(dir string, e guest.Entry) bool {
	if err := envelope.CheckName(e.Name); err != nil {
		g.miss(e.Name, err.Error())
		return false
	}
	if !strings.HasPrefix(e.Name, dir+"/") {
		g.miss(dir+"/", "the cell lists what is not in it")
		return false
	}
	if !e.Regular {
		g.miss(e.Name, cell.MissIrregular)
		return false
	}
	return true
}

// takeFiles takes files, as many at once as there may be more.
func (g *collector) takeFiles(ctx context.Context, names []string) error {
	for len(names) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		room := int(g.caps.Count) - len(g.files)
		switch {
		case g.cell.isGone():
			g.missAll(names, missLost)
			return nil
		case room <= 0:
			g.missAll(names, cell.MissCount(g.caps))
			return nil
		}
		asked := names[:min(room, len(names))]
		n, err := g.ask(ctx, asked)
		if err != nil { // the next one was not handed over
			if err := g.failed(ctx, names[n], err, cell.MissIrregular); err != nil {
				return err
			}
			n++
		}
		names = names[n:]
	}
	return nil
}

// ask has the guest hand over files, and returns how many of them it has
// answered for: less than all with an error. It may take its time over each.
func (g *collector) ask(ctx context.Context, names []string) (n int, err error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(getPatience, cancel)
	defer late.Stop()
	err = g.cell.guest.Get(bounded, names, int64(g.caps.Bytes)-g.bytes, func(i int, out guest.Output, err error) {
		late.Reset(getPatience)
		n = i + 1
		if err != nil {
			g.miss(names[i], words(err, g.caps, cell.MissIrregular))
			return
		}
		g.bytes += int64(len(out.Data))
		g.files = append(g.files, envelope.File{Name: names[i], Data: out.Data, Executable: out.Executable})
	})
	return n, err
}

// failed is a file or a directory that could not be had. A guest that does not
// answer has nothing more to give.
func (g *collector) failed(ctx context.Context, name string, err error, irregular string) error {
	var file *guest.FileError
	if errors.As(err, &file) {
		g.miss(name, words(file, g.caps, irregular))
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if killErr := g.cell.kill(); killErr != nil {
		return killErr
	}
	g.miss(name, missLost)
	return nil
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
