package project

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

// state is where an op is.
type state uint8

const (
	todo    state = iota + 1
	done          // what was staged is in its place
	foreign       // neither: somebody has been there
)

// look finds out where an op is, by the inodes at its two names.
func (a *applier) look(o *op) (state, error) {
	staged, err := inode(a.stage, o.Staged)
	if err != nil {
		return 0, err
	}
	at := uint64(0)
	dir, base, err := a.parent(o.Name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
	case err != nil:
		return 0, err
	default:
		at, err = inode(dir, base)
		unix.Close(dir)
		if err != nil {
			return 0, err
		}
	}
	return o.state(at, staged), nil
}

// state is where an op is whose two names lead to those inodes. What stands at
// the name of a removed file, or in the way of an added one, is for do and
// undoOne to meet: neither replaces anything.
func (o *op) state(at, staged uint64) state {
	isDone, isTodo := at == o.New && staged == o.Old, at == o.Old && staged == o.New
	switch o.Kind {
	case envelope.ChangeRemoved:
		isDone = staged == o.Old
	case envelope.ChangeAdded:
		isDone, isTodo = at == o.New, staged == o.New
	}
	switch {
	case isDone:
		return done
	case isTodo:
		return todo
	}
	return foreign
}

// forward does what is to be done, in order. Where it cannot, what was done is
// undone, and the error is a *ConflictError.
func (a *applier) forward() error {
	for i := range a.journal.Ops {
		o := &a.journal.Ops[i]
		s, err := a.look(o)
		if err == nil && s == todo {
			err = a.do(o)
		} else if err == nil && s == foreign {
			err = errors.New("it has been changed meanwhile")
		}
		if err == nil && o.Kind == envelope.ChangeRemoved {
			a.removeEmpty(path.Dir(o.Name))
		}
		if err != nil {
			return a.undo(Conflict{o.Name, err.Error()})
		}
		a.step("swapped " + o.Name)
	}
	if err := a.sync(); err != nil {
		return a.undo(Conflict{a.journal.Root, err.Error()})
	}
	return nil
}

// do swaps one file in. What comes out of its place is looked at then, when
// nobody else can reach it by that name.
func (a *applier) do(o *op) error {
	if err := a.makeDirs(o.Dirs); err != nil {
		return err
	}
	dir, base, err := a.parent(o.Name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch o.Kind {
	case envelope.ChangeAdded:
		_ = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) // a directory that the removals have emptied
		return taken(unix.Renameat2(a.stage, o.Staged, dir, base, unix.RENAME_NOREPLACE))
	case envelope.ChangeRemoved:
		err = unix.Renameat2(dir, base, a.stage, o.Staged, unix.RENAME_NOREPLACE)
	default:
		err = unix.Renameat2(a.stage, o.Staged, dir, base, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return err
	}
	if !a.holds(a.stage, o.Staged, o.Old, o.Before) {
		return errors.Join(errors.New("it has been changed meanwhile"), a.undoOne(o))
	}
	return nil
}

func taken(err error) error {
	if err == unix.EEXIST || err == unix.ENOTEMPTY {
		return errors.New("something stands there now")
	}
	return err
}

// holds reports whether a file is the one with that inode and those bytes.
func (a *applier) holds(dir int, name string, ino uint64, sum digest) bool {
	f, st, err := openRegular(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	if st.Ino != ino {
		return false
	}
	data, err := readSized(int(f.Fd()), st.Size)
	return err == nil && sumOf(data) == sum
}

// makeDirs makes directories, outermost first.
func (a *applier) makeDirs(dirs []string) error {
	for _, name := range dirs {
		dir, base, err := a.parent(name)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(dir, base, 0o777)
		if err == nil {
			a.own(dir, base)
		}
		unix.Close(dir)
		if err != nil && err != unix.EEXIST {
			return err
		}
	}
	return nil
}

// own gives a new directory to the owner of the tree, where root applies.
func (a *applier) own(dir int, base string) {
	var st unix.Stat_t
	if unix.Geteuid() == 0 && unix.Fstat(a.root, &st) == nil {
		_ = unix.Fchownat(dir, base, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
}

// removeEmpty removes a directory and those above it, as far as they are empty.
func (a *applier) removeEmpty(dir string) {
	for at := range prefixes(dir) {
		if at == "." {
			return
		}
		up, base, err := a.parent(at)
		if err != nil {
			return
		}
		err = unix.Unlinkat(up, base, unix.AT_REMOVEDIR)
		unix.Close(up)
		if err != nil {
			return
		}
	}
}

// sync makes the names of all directories that were touched durable.
func (a *applier) sync() error {
	seen := map[string]bool{}
	for _, o := range a.journal.Ops {
		dir := path.Dir(o.Name)
		for seen[dir] = false; dir != "."; dir = path.Dir(dir) {
			if kind, err := a.kind(dir); err == nil && kind == unix.S_IFDIR {
				break
			}
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		fd, err := beneath(a.root, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		err = unix.Fsync(fd)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// undo takes back what was done, for a conflict. Files that somebody else has
// changed meanwhile stay as they are.
func (a *applier) undo(c Conflict) error {
	conflict := &ConflictError{[]Conflict{c}}
	var failed []string
	var errs []error
	for _, o := range slices.Backward(a.journal.Ops) {
		s, err := a.look(&o)
		if err == nil && s != done {
			continue // never done, or another's by now
		}
		if err == nil && o.Kind != envelope.ChangeRemoved && !a.stands(&o) {
			err = errors.New("it has been changed since it was applied")
		}
		if err == nil {
			err = a.undoOne(&o)
		}
		if err != nil {
			failed, errs = append(failed, o.Name), append(errs, err)
		}
	}
	if len(failed) > 0 {
		return &RecoveryError{failed, path.Join(a.journal.Root, ignore.Dir, a.journal.Token), errors.Join(append(errs, conflict)...)}
	}
	return conflict
}

// stands reports whether what was swapped in is as it was staged.
func (a *applier) stands(o *op) bool {
	dir, base, err := a.parent(o.Name)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	return a.holds(dir, base, o.New, o.After)
}

// undoOne takes one op back.
func (a *applier) undoOne(o *op) error {
	if o.Kind == envelope.ChangeRemoved {
		if err := a.makeDirs(slices.Collect(func(yield func(string) bool) {
			for _, dir := range slices.Backward(slices.Collect(prefixes(path.Dir(o.Name)))) {
				if dir != "." && !yield(dir) {
					return
				}
			}
		})); err != nil {
			return err
		}
	}
	dir, base, err := a.parent(o.Name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch o.Kind {
	case envelope.ChangeRemoved:
		return unix.Renameat2(a.stage, o.Staged, dir, base, unix.RENAME_NOREPLACE)
	case envelope.ChangeAdded:
		err = unix.Renameat2(dir, base, a.stage, o.Staged, unix.RENAME_NOREPLACE)
	default:
		err = unix.Renameat2(a.stage, o.Staged, dir, base, unix.RENAME_EXCHANGE)
	}
	if err == nil {
		for _, made := range slices.Backward(o.Dirs) {
			a.removeOne(made)
		}
	}
	return err
}

func (a *applier) removeOne(name string) {
	if dir, base, err := a.parent(name); err == nil {
		_ = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) // where it is empty
		unix.Close(dir)
	}
}
