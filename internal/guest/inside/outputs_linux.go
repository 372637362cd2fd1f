package inside

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// Bounds of a listing: entries looked at, and depth.
const (
	maxEntries = 100_000
	maxDepth   = 64
)

// get hands over one file.
func (g *guest) get(s *mux.Stream, n wire.Note) {
	defer s.Close()
	fd, st, err := g.place.open(n.Name)
	if err != nil {
		reply(s, &wire.Found{Status: *failed(wire.StepFile, 0, err)})
		_ = s.CloseWrite() // the channel has ended, else
		return
	}
	f := os.NewFile(uintptr(fd), "output")
	defer f.Close()
	found := &wire.Found{Size: st.Size, Executable: st.Mode&0o111 != 0}
	if st.Size > n.Most {
		found.Cause = wire.CauseTooLong
	}
	reply(s, found)
	if found.Cause == wire.CauseNone {
		// What cannot be read is missed by the host.
		_, _ = io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{io.LimitReader(f, st.Size)}, make([]byte, mux.MaxData))
	}
	_ = s.CloseWrite() // as above
}

// open returns a regular file of the working directory. What kind of file it
// is is looked at before it is opened: opening a device or a fifo does
// something.
func (p *place) open(name string) (fd int, st unix.Stat_t, err error) {
	at, err := p.beneath(name, unix.O_PATH)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(at)
	if err := unix.Fstat(at, &st); err != nil {
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, st, errIrregular
	}
	if fd, err = p.beneath(name, unix.O_RDONLY); err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errIrregular
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written
		return -1, st, err
	}
	return fd, st, nil
}

func (p *place) beneath(name string, flags int) (int, error) {
	fd, err := beneath(p.work, name, flags, 0)
	if err == unix.ELOOP || err == unix.EXDEV {
		err = errIrregular
	}
	return fd, err
}

// list says what is below a directory, directories aside.
func (g *guest) list(s *mux.Stream, n wire.Note) *wire.Listed {
	w := &walk{p: &g.place, out: bufio.NewWriterSize(s, mux.MaxData), left: int(n.Number), seen: maxEntries}
	err := w.visit(n.Name, maxDepth)
	if err == nil {
		err = w.out.Flush()
	}
	return &wire.Listed{Status: *failed(wire.StepDirectory, 0, err), Cut: w.cut}
}

type walk struct {
	p          *place
	out        *bufio.Writer
	left, seen int // how many more may be named, and looked at
	cut        bool
}

func (w *walk) visit(dir string, depth int) error {
	fd, err := w.p.beneath(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "dir")
	defer f.Close()
	for !w.cut {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if err := w.take(fd, dir, e, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) take(at int, dir string, e fs.DirEntry, depth int) error {
	name := dir + "/" + e.Name()
	if len(name) > 2 && name[:2] == "./" {
		name = name[2:]
	}
	w.seen--
	if w.seen <= 0 || w.left <= 0 || depth == 0 || len(name) > wire.MaxName {
		w.cut = true
		return nil
	}
	if e.IsDir() {
		return w.visit(name, depth-1)
	}
	w.left--
	entry := &wire.Entry{Name: name}
	var st unix.Stat_t
	if unix.Fstatat(at, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		entry.Regular, entry.Executable, entry.Size = true, st.Mode&0o111 != 0, st.Size
	}
	return wire.WriteTo(w.out, entry)
}
