package launcher

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// mountError is a mount that a cell is not given.
type mountError struct {
	index int // in the spec
	err   error
}

func (e *mountError) Error() string { return e.err.Error() }
func (e *mountError) Unwrap() error { return e.err }

// makings are the directories of the host that one root is made of, open while
// it is looked for or made.
type makings struct {
	rootKey
	roots  map[string]int // trees, by their digests
	mounts []template.Mount
}

// makingsOf opens what a spec asks for. The error's kind is rootFailure's to
// say.
func (h *host) makingsOf(s *wire.Spec) (_ *makings, err error) {
	m := &makings{rootKey: rootKey{tree: s.Tree, added: s.Added}, roots: map[string]int{}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if s.Level == wire.LevelUserkernel {
		return m, nil // it has images, see cell.sentryParts
	}
	for _, digest := range []string{s.Tree, s.Added} {
		if _, open := m.roots[digest]; digest == "" || open {
			continue
		}
		fd, err := h.images.Root(digest)
		if err != nil {
			return nil, err
		}
		m.roots[digest] = fd
	}
	for i, w := range s.Mounts {
		if err := m.mount(h, w); err != nil {
			return nil, &mountError{i, err}
		}
	}
	return m, nil
}

// mount opens the source of one mount: the configuration's, whatever the front
// says.
func (m *makings) mount(h *host, w wire.Mount) error {
	own, ok := h.conf.Mount(w.Name)
	if !ok {
		return fmt.Errorf("mount %s is not in launcher.conf", w.Name)
	}
	if sha256.Sum256([]byte(own.Source)) != w.Source {
		return fmt.Errorf("mount %s: launcher.conf has another source", w.Name)
	}
	fd, err := openSource(own.Source)
	if err != nil {
		return fmt.Errorf("mount %s: %s: %w", w.Name, own.Source, err)
	}
	m.mounts = append(m.mounts, template.Mount{Dir: fd, Target: w.Target, NoExec: own.NoExec})
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("mount %s: %w", w.Name, err)
	}
	m.rootKey.mounts += fmt.Sprintf("%d:%d %t %s\n", st.Dev, st.Ino, own.NoExec, w.Target)
	return nil
}

// openSource opens a directory of this host, as a place alone. No link is on the
// way to it.
func openSource(name string) (int, error) {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(root, strings.TrimPrefix(name, "/"), &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ELOOP:
			return -1, errors.New("a link is on the way to it: write the path that it leads to")
		case unix.ENOTDIR:
			return -1, errors.New("a link, or no directory")
		}
		return fd, err
	}
}

// close closes what is open. The root that was made has it all the same.
func (m *makings) close() {
	for _, fd := range m.roots {
		unix.Close(fd)
	}
	for _, t := range m.mounts {
		unix.Close(t.Dir)
	}
	m.roots, m.mounts = nil, nil
}

// lockTrees locks trees, so that nobody removes them, and says whether they are
// still the ones that are open.
func lockTrees(store *images.Store, roots map[string]int) (locks []int, same bool) {
	for digest, fd := range roots {
		lock, err := store.Use(digest)
		if err != nil {
			return locks, false
		}
		locks = append(locks, lock)
		now, err := store.Root(digest)
		if err != nil {
			return locks, false
		}
		same := sameFile(now, fd)
		unix.Close(now)
		if !same {
			return locks, false
		}
	}
	return locks, true
}

// unlockTrees gives the locks back, once.
func unlockTrees(locks []int) {
	for _, lock := range locks {
		images.Unlock(lock)
	}
}

func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// lay lays the root out.
func (m *makings) lay() (*template.Layout, error) {
	r := template.Root{Tree: -1, Added: -1, Mounts: m.mounts}
	if m.tree != "" {
		r.Tree = m.roots[m.tree]
	}
	if m.added != "" {
		r.Added = m.roots[m.added]
	}
	return template.Lay(r)
}
