package template

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCopy bounds a file that is copied into the root.
const maxCopy = 4 << 20

// Build makes the root and puts the calling thread into it: a mount namespace
// of its own, which only this thread sees. The thread must be locked and must
// never be unlocked. point is any directory of the host; nothing is left
// there. init is the text of the cell's PID 1. The root is the slice of this
// host where the layout is nil; otherwise the layout is used up.
//
// On an error the thread is in an undefined namespace and must end.
func Build(point string, init []byte, layout *Layout) error {
	if layout == nil {
		layout = &Layout{}
	}
	defer layout.Close()
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("template: new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("template: make mounts private: %w", err)
	}
	unix.Umask(0o022) // this thread's alone since the unshare
	b := builder{root: point, layout: layout}
	for _, s := range b.steps(init) {
		if err := s.do(); err != nil {
			return fmt.Errorf("template: %s: %w", s.name, err)
		}
	}
	return nil
}

// A builder makes one root.
type builder struct {
	root   string // where the new root is mounted meanwhile
	layout *Layout
}

// A buildStep is one step with the name that its error has.
type buildStep struct {
	name string
	do   func() error
}

func (b *builder) steps(init []byte) []buildStep {
	all := []buildStep{
		{"root", b.mountRoot},
		{"directories", func() error { return b.makeDirectories(directories()) }},
		{"devices", b.makeDevices},
		{"init", func() error { return b.write(InitPath[1:], init, 0o111) }},
		{"hide", func() error { return os.Chmod(b.at(".callcell"), 0o111) }},
	}
	if b.layout.tree {
		all = append(all,
			buildStep{"files", b.writeCovers},
			buildStep{"links", func() error { return b.makeLinks(deviceLinks()) }},
			buildStep{"tree", b.takeTree})
	} else {
		all = append(all,
			buildStep{"directories of the slice", func() error { return b.makeDirectories(sliceDirectories()) }},
			buildStep{"files", b.writeFiles},
			buildStep{"links", func() error { return b.makeLinks(links()) }},
			buildStep{"slice", b.takeSlice})
	}
	return append(all, buildStep{"attach", b.attachPoints}, buildStep{"seal", b.seal}, buildStep{"enter", b.enter})
}

func (b *builder) at(name string) string { return path.Join(b.root, name) }

func (b *builder) mountRoot() error {
	return unix.Mount("callcell", b.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m,nr_inodes=4k")
}

func (b *builder) makeDirectories(names []string) error {
	for _, d := range names {
		if err := os.Mkdir(b.at(d), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) makeDevices() error {
	dev := b.at("dev")
	if err := unix.Mount("callcell-dev", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k,nr_inodes=32"); err != nil {
		return err
	}
	for _, d := range devices() {
		p := path.Join(dev, d.name)
		if err := unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: p, Err: err}
		}
		if err := os.Chmod(p, 0o666); err != nil {
			return err
		}
	}
	return os.Mkdir(path.Join(dev, "shm"), 0o755)
}

func (b *builder) writeFiles() error {
	for _, f := range ours() {
		if err := b.write(f.name, []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) write(name string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(b.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func (b *builder) makeLinks(links [][2]string) error {
	for _, l := range links {
		if err := os.Symlink(l[0], b.at(l[1])); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) takeSlice() error {
	for _, name := range roots() {
		if err := b.takeRoot(name); err != nil {
			return err
		}
	}
	for _, e := range Slice() {
		err := b.take(e)
		if err != nil && (e.Required || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return nil
}

// takeRoot gives the cell the host's /bin and its like as they are: a link
// into /usr, a directory of its own, or nothing.
func (b *builder) takeRoot(name string) error {
	info, err := os.Lstat("/" + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return b.bind("/" + name)
	case info.Mode()&fs.ModeSymlink == 0:
		return nil
	}
	target, err := os.Readlink("/" + name)
	if err != nil {
		return err
	}
	if clean := path.Clean(strings.TrimPrefix(target, "/")); !strings.HasPrefix(clean, "usr/") {
		return fmt.Errorf("/%s leads to %s, which no cell sees", name, target)
	}
	return os.Symlink(target, b.at(name))
}

func (b *builder) take(e Entry) error {
	if e.Kind == Bind {
		return b.bind(e.Path)
	}
	text, err := readSmall(e.Path)
	if err != nil {
		return err
	}
	return b.write(e.Path[1:], text, 0o644)
}

// readSmall reads a regular file of at most maxCopy bytes.
func readSmall(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCopy+1))
	if err == nil && len(text) > maxCopy {
		err = fmt.Errorf("more than %d bytes", maxCopy)
	}
	return text, err
}

// bind attaches a read-only, nosuid, nodev view of a host directory, with
// what is mounted below it, in one step: there is no moment at which it is
// writable.
func (b *builder) bind(name string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make read-only: %w", err)
	}
	if err := os.MkdirAll(b.at(name), 0o755); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, b.at(name), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// seal makes our own two file systems read-only.
func (b *builder) seal() error {
	for _, m := range []string{b.root, b.at("dev")} {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, m, 0, &attr); err != nil {
			return err
		}
	}
	return nil
}

// enter makes the new root this thread's root and lets go of the host's.
func (b *builder) enter() error {
	if err := unix.Chdir(b.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return unix.Chdir("/")
}
