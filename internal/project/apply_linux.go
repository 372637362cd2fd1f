package project

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

// Apply writes a plan to its tree, all of it or nothing. journals is a
// directory of the user's own, the same for every Read and Apply. Errors that
// leave the tree as it was are a *ConflictError, a *PathError, ErrBusy or the
// system's; a *RecoveryError says that something could not be undone.
func (p *Plan) Apply(journals string) error { return p.apply(journals, func(string) {}) }

// apply is Apply; step hears of every point at which it may be killed.
func (p *Plan) apply(journals string, step func(string)) error {
	root, err := openRoot(p.tree.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := lock(root); err != nil {
		return err
	}
	defer unix.Flock(int(root.Fd()), unix.LOCK_UN)
	a, err := newApplier(root, journals, step)
	if err != nil {
		return err
	}
	if err := a.recover(); err != nil {
		return err
	}
	if conflicts := a.conflicts(p); len(conflicts) > 0 {
		return &ConflictError{conflicts}
	}
	if p.Empty() {
		return nil
	}
	return a.run(p)
}

// lock makes us the one that applies, until the caller takes the lock off: with
// the descriptor alone it does not go while a child that is about to exec has a
// copy. It goes with the process.
func lock(root *os.File) error {
	err := unix.Flock(int(root.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrBusy
	}
	return err
}

// An applier applies one plan, or recovers one. It holds the tree's lock.
type applier struct {
	root    int
	path    string // of the journal
	journal *journal
	stage   int // the staging directory; -1: there is none
	step    func(string)
}

func newApplier(root *os.File, journals string, step func(string)) (*applier, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return nil, err
	}
	name, err := filepath.Abs(root.Name())
	if err != nil {
		return nil, err
	}
	return &applier{
		root: int(root.Fd()), path: filepath.Join(journals, fmt.Sprintf("%x-%x.json", st.Dev, st.Ino)), stage: -1, step: step,
		journal: &journal{Version: journalVersion, Phase: phaseClear, Root: name, Token: "apply-" + rand.Text()},
	}, nil
}

// run stages, swaps and clears up.
func (a *applier) run(p *Plan) error {
	a.step("begin")
	if err := a.journal.write(a.path); err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	a.step("journal begun")
	err := a.stageAll(p)
	if err == nil {
		a.journal.Phase = phaseSwap
		err = a.journal.write(a.path)
		a.step("journal stands")
	}
	if err == nil {
		err = a.forward()
	}
	return errors.Join(err, a.clear(err))
}

// conflicts says which files are not any more as the plan takes them to be.
func (a *applier) conflicts(p *Plan) (list []Conflict) {
	gone := map[string]bool{}
	for _, c := range p.Changes {
		if c.Kind == envelope.ChangeRemoved {
			gone[c.Name] = true
		}
	}
	for _, c := range p.Changes {
		var why string
		if c.Kind == envelope.ChangeAdded {
			why = a.blocked(c.Name, gone)
		} else {
			old, _ := p.tree.find(c.Name)
			why = a.differs(c.Name, old)
		}
		if why != "" {
			list = append(list, Conflict{c.Name, why})
		}
	}
	return list
}

// differs says how a file is not the one that went in, or "".
func (a *applier) differs(name string, old *File) string {
	f, st, err := openRegular(a.root, name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "it is not there any more"
	case errors.Is(err, unix.ELOOP):
		return "there is a link on the way to it now"
	case errors.Is(err, errIrregular):
		return "it is no regular file any more"
	case err != nil:
		return "it cannot be read: " + err.Error()
	}
	defer f.Close()
	if st.Size != int64(len(old.Data)) {
		return "it has been changed meanwhile"
	}
	data, err := readSized(int(f.Fd()), st.Size)
	if err != nil || sumOf(data) != old.Sum {
		return "it has been changed meanwhile"
	}
	if st.Mode&0o100 != 0 != old.Executable {
		return "its mode has been changed meanwhile"
	}
	return ""
}

// blocked says what stands at a name that is to be new, or on the way there, or
// "". Files that the plan removes do not.
func (a *applier) blocked(name string, gone map[string]bool) string {
	for _, dir := range slices.Backward(slices.Collect(prefixes(path.Dir(name)))) {
		if dir == "." {
			continue
		}
		switch kind, err := a.kind(dir); {
		case errors.Is(err, unix.ENOENT), gone[dir]:
			return ""
		case err != nil:
			return "it cannot be looked at: " + err.Error()
		case kind == unix.S_IFLNK:
			return "there is a link on the way to it"
		case kind != unix.S_IFDIR:
			return "there is a file on the way to it"
		}
	}
	kind, err := a.kind(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return ""
	case err != nil:
		return "it cannot be looked at: " + err.Error()
	case kind == unix.S_IFDIR:
		return a.emptied(name, gone)
	}
	return "something stands there already"
}

// emptied says why a directory stays when what is to be removed is gone, or "".
func (a *applier) emptied(dir string, gone map[string]bool) string {
	for name := range gone {
		if below(name, dir) {
			return "" // rmdir decides, and all is undone where it says no
		}
	}
	return "a directory stands there"
}

// kind returns the type of what is at a name, following nothing.
func (a *applier) kind(name string) (uint32, error) {
	dir, base, err := a.parent(name)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Mode & unix.S_IFMT, err
}

// parent opens the directory that a name is in.
func (a *applier) parent(name string) (dir int, base string, err error) {
	dir, err = beneath(a.root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, path.Base(name), err
}

// inode returns that of what is at a name, 0 where there is nothing.
func inode(dir int, base string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return 0, nil
	}
	return st.Ino, err
}

// openStage opens the staging directory.
func (a *applier) openStage() (err error) {
	a.stage, err = beneath(a.root, path.Join(ignore.Dir, a.journal.Token), unix.O_PATH|unix.O_DIRECTORY, 0)
	return err
}

// closeStage closes it.
func (a *applier) closeStage() {
	if a.stage >= 0 {
		unix.Close(a.stage)
		a.stage = -1
	}
}
