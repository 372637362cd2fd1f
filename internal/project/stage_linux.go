package project

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

// syncEach is up to how many staged files are synced one by one; more are
// synced with their file system.
const syncEach = 64

// stageAll writes what is new into the staging directory, and the ops into the
// journal: removals first, so that what stood in the way is gone.
func (a *applier) stageAll(p *Plan) error {
	if err := a.makeStage(); err != nil {
		return err
	}
	a.step("directory made")
	for _, removing := range []bool{true, false} {
		for i := range p.Changes {
			c := &p.Changes[i]
			if (c.Kind == envelope.ChangeRemoved) != removing {
				continue
			}
			old, _ := p.tree.find(c.Name)
			if err := a.stageOne(c, old, len(p.Changes) <= syncEach); err != nil {
				return &PathError{"stage", c.Name, err}
			}
			a.step("staged " + c.Name)
		}
	}
	if len(p.Changes) > syncEach {
		return unix.Syncfs(a.root)
	}
	return nil
}

// makeStage makes the staging directory, and tries there what is needed later.
func (a *applier) makeStage() error {
	if err := unix.Mkdirat(a.root, ignore.Dir, 0o700); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make %s: %w", ignore.Dir, err)
	}
	ours, err := beneath(a.root, ignore.Dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("%s is not a directory of ours: %w", ignore.Dir, err)
	}
	defer unix.Close(ours)
	if err := unix.Mkdirat(ours, a.journal.Token, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", ignore.Dir, err)
	}
	if err := a.openStage(); err != nil {
		return err
	}
	for _, name := range []string{"p", "q"} {
		fd, err := beneath(a.stage, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	if err := unix.Renameat2(a.stage, "p", a.stage, "q", unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("the file system of the tree cannot exchange two names, so that nothing can be applied as a whole: %w", err)
	}
	return nil
}

// stageOne stages one change.
func (a *applier) stageOne(c *envelope.Change, old *File, sync bool) error {
	o := op{Kind: c.Kind, Name: c.Name, Staged: strconv.Itoa(len(a.journal.Ops))}
	var st unix.Stat_t
	if c.Kind != envelope.ChangeAdded {
		dir, base, err := a.parent(c.Name)
		if err != nil {
			return err
		}
		err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		unix.Close(dir)
		if err != nil {
			return err
		}
		o.Old, o.Before = st.Ino, old.Sum
	}
	if c.Kind != envelope.ChangeRemoved {
		o.After = sumOf(c.Data)
		var err error
		if o.New, err = a.write(o.Staged, c, &st, sync); err != nil {
			return err
		}
		o.Dirs = a.absent(path.Dir(c.Name))
	}
	a.journal.Ops = append(a.journal.Ops, o)
	return nil
}

// absent lists the directories that have to be made for dir, outermost first.
func (a *applier) absent(dir string) (list []string) {
	for at := range prefixes(dir) {
		if at == "." {
			break
		}
		kind, err := a.kind(at)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || err == nil && kind != unix.S_IFDIR { // a file that goes
			list = append([]string{at}, list...)
		}
	}
	return list
}

// write makes a staged file. A changed one has the owner and the mode of the
// old one, as far as that is ours to give, and the execute bits that are asked
// for; never a set-user-ID or set-group-ID bit.
func (a *applier) write(name string, c *envelope.Change, old *unix.Stat_t, sync bool) (ino uint64, err error) {
	mode := uint64(0o666) // and the user's umask
	if c.Executable {
		mode = 0o777
	}
	fd, err := beneath(a.stage, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for at := 0; at < len(c.Data); {
		n, err := unix.Write(fd, c.Data[at:])
		if err != nil && err != unix.EINTR {
			return 0, err
		}
		at += max(n, 0)
	}
	if err := a.inherit(fd, c, old); err != nil {
		return 0, err
	}
	if sync {
		if err := unix.Fsync(fd); err != nil {
			return 0, err
		}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Ino, err
}

// inherit gives a staged file what the old one had; a new one has the owner of
// the tree where root applies.
func (a *applier) inherit(fd int, c *envelope.Change, old *unix.Stat_t) error {
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	from := *old
	if c.Kind == envelope.ChangeAdded {
		if unix.Geteuid() != 0 {
			return nil
		}
		if err := unix.Fstat(a.root, &from); err != nil {
			return err
		}
	}
	if from.Uid != now.Uid || from.Gid != now.Gid {
		_ = unix.Fchown(fd, int(from.Uid), int(from.Gid)) // not ours to give: it stays with who applies
	}
	if c.Kind == envelope.ChangeAdded {
		return nil
	}
	mode := from.Mode & 0o777 &^ 0o111
	if c.Executable {
		mode = from.Mode&0o777 | 0o100 | mode&0o444>>2
	}
	return unix.Fchmod(fd, mode)
}
