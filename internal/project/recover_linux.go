package project

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/project/ignore"
)

// Recover brings the tree in dir to an end that an Apply which was killed has
// not reached: all of its changes are in it afterwards, or none. It returns nil
// where there was nothing to be done. Read and Apply do it by themselves.
func Recover(dir, journals string) error {
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return recoverIn(root, journals)
}

// recoverIn takes the lock only where there is a journal.
func recoverIn(root *os.File, journals string) error {
	if journals == "" {
		return nil
	}
	a, err := newApplier(root, journals, func(string) {})
	if err != nil {
		return err
	}
	if _, err := os.Lstat(a.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := lock(root); err != nil {
		return err
	}
	defer unix.Flock(int(root.Fd()), unix.LOCK_UN)
	return a.recover()
}

// recover ends what the journal says. It is for who holds the lock.
func (a *applier) recover() error {
	found, err := readJournal(a.path)
	if err != nil || found == nil {
		return err
	}
	fresh := a.journal
	a.journal = found
	defer func() { a.journal = fresh }()
	switch err := a.openStage(); {
	case errors.Is(err, unix.ENOENT):
		a.removeOne(ignore.Dir)
		return a.forget() // it has not come that far, or the tree is another one
	case err != nil:
		return err
	}
	if found.Phase == phaseSwap {
		err = a.forward()
	}
	return errors.Join(err, a.clear(err))
}

// clear removes the staging directory and then the journal. Where something
// could not be taken back, the directory stays: what was in the tree is there.
func (a *applier) clear(failed error) error {
	var kept *RecoveryError
	if errors.As(failed, &kept) {
		a.closeStage()
		return a.forget()
	}
	if a.journal.Phase == phaseSwap {
		a.step("all swapped")
		a.journal.Phase = phaseClear
		if err := a.journal.write(a.path); err != nil {
			return err
		}
	}
	a.step("clearing")
	if a.stage >= 0 {
		if err := a.empty(); err != nil {
			return err
		}
	}
	return a.forget()
}

// empty removes what is in the staging directory, and itself. Names that are
// not ours stay, and the directory with them.
func (a *applier) empty() error {
	names := []string{"p", "q"}
	fd, err := beneath(a.stage, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), ignore.Dir)
	all, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, name := range all {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := unix.Unlinkat(a.stage, name, 0); err != nil && err != unix.ENOENT {
			return err
		}
		a.step("cleared " + name)
	}
	a.closeStage()
	ours, err := beneath(a.root, ignore.Dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = unix.Unlinkat(ours, a.journal.Token, unix.AT_REMOVEDIR)
	unix.Close(ours)
	if err != nil && err != unix.ENOENT {
		return err
	}
	a.step("stage removed")
	a.removeOne(ignore.Dir) // a tree may have one of its own, which is not empty
	return nil
}

// forget removes the journal.
func (a *applier) forget() error {
	a.closeStage()
	_ = os.Remove(a.path + newExt) // of one that was being written
	err := os.Remove(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	a.step("forgotten")
	return err
}
