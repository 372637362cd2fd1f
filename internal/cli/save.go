package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project"
	"github.com/callcell/callcell/internal/render"
)

// savable refuses, before anything runs, outputs that could not be saved
// afterwards: nothing is overwritten, and a directory is not added to.
func savable(dir string, names []string) error {
	for _, name := range names {
		name = strings.TrimSuffix(name, "/")
		if envelope.CheckName(name) != nil {
			continue // refused by the broker, with what is wrong with it
		}
		if there(dir, name) {
			return usage(fmt.Sprintf("--out %s: it exists in %s", name, dir), "nothing is overwritten: give another --out-dir")
		}
	}
	if len(names) == 0 {
		return nil
	}
	return writable(dir, "--out-dir ")
}

func there(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
	return err == nil
}

// writable refuses a directory into which nothing can be written. One that is
// not there is made when there is something to be saved. flag is what names it.
func writable(dir, flag string) error {
	at := dir
	for {
		info, err := os.Stat(at)
		above := filepath.Dir(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && above != at:
			at = above
			continue
		case err == nil && !info.IsDir():
			err = errors.New("not a directory")
		case err == nil:
			err = unix.Access(at, unix.W_OK|unix.X_OK)
		}
		if err != nil {
			return usage(fmt.Sprintf("%s%s: %s: %v", flag, dir, at, bare(err)), "name a directory that you can write to")
		}
		return nil
	}
}

// save writes outputs below dir and returns a line for each that it wrote.
// Whatever their names, and whatever links there are below dir, nothing outside
// of it is written, and nothing is overwritten.
func save(dir string, files []envelope.File) (saved []string, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("save outputs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("save outputs: %w", err)
	}
	defer root.Close()
	for _, f := range files {
		if failed := saveOne(root, f); failed != nil {
			err = errors.Join(err, fmt.Errorf("output %s is not saved: %w", render.Name(f.Name), failed))
			continue
		}
		saved = append(saved, fmt.Sprintf("%s  %s", render.Name(path.Join(dir, f.Name)), render.Bytes(int64(len(f.Data)))))
	}
	return saved, err
}

func saveOne(root *os.Root, f envelope.File) (err error) {
	if err := envelope.CheckName(f.Name); err != nil {
		return err
	}
	if why := project.GitActs(f.Name, f.Data); why != "" { // whoever runs git there runs it
		return errors.New(why + "; --json has it")
	}
	if dir := path.Dir(f.Name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = w.Write(f.Data)
	if err = errors.Join(err, w.Close()); err != nil {
		err = errors.Join(err, root.Remove(f.Name)) // half a file is none
	}
	return err
}
