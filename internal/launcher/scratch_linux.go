package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/template"
)

// A scratch is a cell's writable place: a tmpfs that is attached nowhere on
// the host and held by a descriptor. After the cell's last process is dead
// its files are read beneath that descriptor, and never otherwise.
type scratch struct {
	mu   sync.RWMutex // held shared while the following are in use: after close the numbers are another's
	root int          // the mount
	work int          // its working directory
}

// newScratch makes the file system with its parts, owned by id. The sizes are
// bytes and files.
func newScratch(size, inodes int64, id int) (_ *scratch, err error) {
	fsfd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fsfd)
	for _, o := range [][2]string{{"source", "scratch"}, {"size", strconv.FormatInt(size, 10)},
		{"nr_inodes", strconv.FormatInt(inodes, 10)}, {"mode", "755"}, {"huge", "never"}} {
		if err := unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil && o[0] != "huge" {
			return nil, fmt.Errorf("scratch %s=%s: %w", o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return nil, fmt.Errorf("create scratch: %w", err)
	}
	root, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("mount scratch: %w", err)
	}
	s := &scratch{root: root, work: -1}
	if err := s.makeParts(id); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *scratch) makeParts(id int) (err error) {
	for _, p := range template.Parts() {
		if err := unix.Mkdirat(s.root, p.Dir, 0o700); err != nil {
			return fmt.Errorf("scratch/%s: %w", p.Dir, err)
		}
		if err := unix.Fchownat(s.root, p.Dir, id, id, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("scratch/%s: chown: %w", p.Dir, err)
		}
		if err := unix.Fchmodat(s.root, p.Dir, p.Mode, 0); err != nil {
			return fmt.Errorf("scratch/%s: chmod: %w", p.Dir, err)
		}
	}
	s.work, err = unix.Openat(s.root, template.Parts()[0].Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	return err
}

func (s *scratch) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range []*int{&s.work, &s.root} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// space is how much of the scratch is used, and how much there was.
type space struct{ bytes, inodes, maxBytes, maxInodes int64 }

func (s *scratch) space() space {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var st unix.Statfs_t
	if err := unix.Fstatfs(s.root, &st); err != nil {
		return space{-1, -1, -1, -1}
	}
	return space{
		bytes:     int64(st.Blocks-st.Bfree) * st.Bsize,
		inodes:    int64(st.Files - st.Ffree),
		maxBytes:  int64(st.Blocks) * st.Bsize,
		maxInodes: int64(st.Files),
	}
}

// errNotRegular is a name that is something else than a regular file.
var errNotRegular = errors.New("not a regular file")

// beneath opens a name below dir: no link is followed anywhere on the way,
// no mount is crossed, nothing above dir is reached.
func beneath(dir int, name string, flags uint64) (int, error) {
	if flags&unix.O_PATH == 0 { // which takes no other flags
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

// open returns a regular file of the working directory for reading. What kind
// of file it is is looked at before it is opened: opening a device or a fifo
// does something.
func (s *scratch) open(name string) (fd int, st unix.Stat_t, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := beneath(s.work, name, unix.O_PATH)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(at)
	if err := unix.Fstat(at, &st); err != nil {
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, errNotRegular
	}
	fd, err = beneath(s.work, name, unix.O_RDONLY)
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// entryCost is what an entry counts beside its name: see namesFile.
const entryCost = 24

// Bounds of a listing: entries looked at, depth, bytes of names.
const (
	maxEntries = 100_000
	maxDepth   = 64
	maxNames   = 4 << 20
)

// An entry is one thing in a listing that is no directory.
type entry struct {
	name       string // the program's bytes
	regular    bool
	executable bool  // of a regular file
	size       int64 // of a regular file
}

// list returns what is below dir, directories aside, at most max entries, and
// whether there were more.
func (s *scratch) list(dir string, max int) (found []entry, cut bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := walk{work: s.work, max: max, seen: maxEntries, bytes: maxNames}
	err = w.visit(dir, maxDepth)
	return w.found, w.cut, err
}

type walk struct {
	work             int
	found            []entry
	max, seen, bytes int // how much more may be taken
	cut              bool
}

// visit takes what is below dir. One directory is open at a time, however deep
// they are: descriptors are shared by all cells.
func (w *walk) visit(dir string, depth int) error {
	below, err := w.read(dir, depth)
	for _, name := range below {
		if err != nil || w.cut {
			break
		}
		err = w.visit(path.Join(dir, name), depth-1)
	}
	return err
}

// read takes what is in one directory, and returns the names of those in it.
func (w *walk) read(dir string, depth int) (below []string, err error) {
	fd, err := beneath(w.work, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "dir")
	defer f.Close()
	for !w.cut {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if err := w.take(fd, dir, e, depth); err != nil {
				return nil, err
			}
			if e.IsDir() {
				below = append(below, e.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			return below, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return below, nil
}

// take takes an entry of the directory that is open.
func (w *walk) take(open int, dir string, e fs.DirEntry, depth int) error {
	found := entry{name: path.Join(dir, e.Name()), regular: e.Type().IsRegular()}
	cost := len(found.name) + entryCost
	w.seen--
	if w.seen <= 0 || len(w.found) >= w.max || w.bytes < cost || depth == 0 {
		w.cut = true
		return nil
	}
	if e.IsDir() {
		return nil
	}
	if found.regular {
		var st unix.Stat_t
		if err := unix.Fstatat(open, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		found.size, found.executable = st.Size, st.Mode&0o100 != 0
	}
	w.found, w.bytes = append(w.found, found), w.bytes-cost
	return nil
}
