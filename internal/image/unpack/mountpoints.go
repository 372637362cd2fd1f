package unpack

import (
	"crypto/sha256"

	"github.com/callcell/callcell/internal/image/fstree"
)

// mountDirs are the directories that a cell mounts on, and mountFiles the files
// of its own that it puts over a root's.
func mountDirs() []string {
	return []string{"proc", "dev", "sys", "tmp", "work", "run", "opt", "opt/callcell", "etc"}
}

func mountFiles() []string {
	return []string{"etc/resolv.conf", "etc/hosts", "etc/nsswitch.conf", "etc/hostname", "etc/passwd", "etc/group"}
}

// mountpoints makes what is missing of them. What is something else, a link
// above all, gives way. They count against nothing: there are few.
func (u *unpacker) mountpoints() error {
	for _, path := range mountDirs() {
		if err := u.mountpoint(path, fstree.NewDir()); err != nil {
			return err
		}
	}
	for _, path := range mountFiles() {
		empty := &fstree.Node{Kind: fstree.File, Links: 1, Sum: sha256.Sum256(nil)}
		if err := u.mountpoint(path, empty); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) mountpoint(path string, n *fstree.Node) error {
	above, name := fstree.Split(path)
	dir := u.lookup(above) // comes before what is in it
	if was := dir.Entries[name]; was != nil {
		if was.Kind == n.Kind {
			return nil
		}
		u.dropped[DroppedPlaced]++
		if err := u.remove(path, dir, name); err != nil {
			return err
		}
	}
	if n.Kind == fstree.Dir {
		return u.mkdir(path, dir, name, n)
	}
	dir.Entries[name] = n
	if u.disk == nil {
		return nil
	}
	f, err := u.disk.create(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return u.disk.done(path, f, n)
}
