package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// maxNames bounds the bytes of a listing that are read.
const maxNames = 8 << 20

// Get implements cell.Cell. A name that ends in a slash is a directory, of
// which every regular file is taken.
func (c *containerCell) Get(ctx context.Context, names []string, caps envelope.OutputCaps) (files []envelope.File, misses []envelope.Miss, err error) {
	err = c.Do(cell.OpGet, func() error {
		g := collector{cell: c, caps: caps, ctx: ctx}
		if err := g.take(names); err != nil {
			return err
		}
		files, misses = g.files, g.misses
		return nil
	})
	return files, misses, err
}

// A collector takes files while they fit.
type collector struct {
	cell   *containerCell
	ctx    context.Context // of Get
	caps   envelope.OutputCaps
	files  []envelope.File
	misses []envelope.Miss
	bytes  int64
}

func (g *collector) miss(name, why string) error {
	g.misses = append(g.misses, envelope.Miss{Name: name, Why: why})
	return nil
}

// take takes names in their order: files that follow each other together.
func (g *collector) take(names []string) error {
	for len(names) > 0 {
		var err error
		n := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "/") })
		switch n {
		case -1:
			n = len(names)
			err = g.takeFiles(names)
		case 0:
			n = 1
			err = g.takeDir(strings.TrimSuffix(names[0], "/"))
		default:
			err = g.takeFiles(names[:n])
		}
		if ended := g.ctx.Err(); ended != nil {
			return ended
		}
		if err != nil {
			return fmt.Errorf("%w: %w", cell.ErrBroken, err)
		}
		names = names[n:]
	}
	return nil
}

// takeDir takes what is below dir. The names are the program's, and held to
// the same rules as the caller's.
func (g *collector) takeDir(dir string) error {
	a, err := g.cell.slot.Call(&wire.List{Slot: g.cell.slot.Number, Dir: dir, Max: uint32(g.caps.Count) + 1})
	if err != nil {
		return err
	}
	found, data, err := read(a, maxNames)
	var f *failedError
	if errors.As(err, &f) {
		return g.miss(dir+"/", f.Step)
	}
	if err != nil {
		return err
	}
	list, err := entries(data)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range list {
		if err := envelope.CheckName(e.Name); err != nil {
			_ = g.miss(e.Name, err.Error())
		} else if !e.Regular {
			_ = g.miss(e.Name, cell.MissIrregular)
		} else {
			names = append(names, e.Name)
		}
	}
	if err := g.takeFiles(names); err != nil {
		return err
	}
	if found.Cut {
		return g.miss(dir+"/", fmt.Sprintf("more than %d files", g.caps.Count))
	}
	return nil
}

// takeFiles takes files while their number is below the cap.
func (g *collector) takeFiles(names []string) error {
	for len(names) > 0 {
		n := min(len(names), int(g.caps.Count)-len(g.files))
		if n <= 0 {
			for _, name := range names {
				_ = g.miss(name, cell.MissCount(g.caps))
			}
			return nil
		}
		request := func(i int) wire.Body { return &wire.Get{Slot: g.cell.slot.Number, Name: names[i]} }
		if err := g.cell.slot.Each(n, request, func(i int, a link.Answer) error { return g.takeFile(names[i], a) }); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

func (g *collector) takeFile(name string, a link.Answer) error {
	if err := g.ctx.Err(); err != nil {
		a.Close()
		return err
	}
	left := int64(g.caps.Bytes) - g.bytes
	found, data, err := read(a, left)
	var f *failedError
	switch {
	case errors.As(err, &f):
		return g.miss(name, f.Step)
	case errors.Is(err, errTooLong):
		return g.miss(name, cell.MissBytes(g.caps))
	case err != nil:
		return err
	}
	g.bytes += int64(len(data))
	g.files = append(g.files, envelope.File{Name: name, Data: data, Executable: found.Executable})
	return nil
}

// failedError is a file that the launcher would not give.
type failedError struct{ *wire.Failed }

func (e *failedError) Error() string { return e.Step }

var errTooLong = errors.New("container: more bytes than may be read")

// read reads the descriptor of a Found, at most limit bytes. A sparse file
// counts by its length.
func read(a link.Answer, limit int64) (*wire.Found, []byte, error) {
	defer a.Close()
	switch b := a.Body.(type) {
	case *wire.Failed:
		if b.Kind != wire.KindFile {
			return nil, nil, link.Cause(b)
		}
		return nil, nil, &failedError{b}
	case *wire.Found:
		if len(a.FDs) != 1 || b.Size < 0 {
			return nil, nil, wire.ErrMalformed
		}
		if b.Size > limit {
			return nil, nil, errTooLong
		}
		f := os.NewFile(uintptr(a.FDs[0]), "output")
		a.FDs[0] = -1
		defer f.Close()
		data := make([]byte, b.Size)
		n, err := f.ReadAt(data, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		return b, data[:n], nil
	}
	return nil, nil, wire.ErrMalformed
}
