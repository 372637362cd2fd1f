package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project"
	"github.com/callcell/callcell/internal/render"
)

// isThere refuses a directory that is to be made, and is there.
func isThere(dir string) error {
	return usage(fmt.Sprintf("%s: it is there", dir), "nothing is overwritten: name a directory that is made")
}

// export makes a directory of files, also of none. One that came to be meanwhile is
// not touched, nor where a link leads that is put in its place. Where a file cannot
// be written, or ctx ends, it is removed again. Left out is what git would act on:
// left has a line for each.
func export(ctx context.Context, dir string, files []envelope.File) (left []string, err error) {
	above, name := filepath.Dir(dir), filepath.Base(dir)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(above)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := parent.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
		return nil, isThere(dir)
	} else if err != nil {
		return nil, err
	}
	root, err := parent.OpenRoot(name)
	if err == nil {
		left, err = fill(ctx, root, files)
		err = errors.Join(err, root.Close())
	}
	if err != nil { // half a version is none
		return nil, errors.Join(err, parent.RemoveAll(name))
	}
	return left, nil
}

// fill writes files, until one cannot be written.
func fill(ctx context.Context, root *os.Root, files []envelope.File) (left []string, err error) {
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if why := project.GitActs(f.Name, f.Data); why != "" {
			left = append(left, render.Name(f.Name)+" is left out: "+why)
			continue
		}
		if err := saveOne(root, f); err != nil {
			return nil, fmt.Errorf("nothing is exported: %s: %w", render.Name(f.Name), err)
		}
	}
	return left, nil
}
