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

// get hands over files, one after the other.
func (g *guest) get(s *mux.Stream, n wire.Note) {
	defer s.Close()
	var wanted wire.Wanted
	if err := wire.ReadFrom(s, wire.MaxWanted, &wanted); err != nil {
		return // the host has ended it
	}
	o := &outlet{dirs: dirs{root: g.place.work}, out: bufio.NewWriterSize(s, mux.MaxData), buf: make([]byte, mux.MaxData), left: n.Most}
	defer o.dirs.close()
	for _, name := range wanted.Names {
		if o.hand(name) != nil {
			break // the host misses the rest
		}
	}
	_, _ = o.out.Flush(), s.CloseWrite() // the channel has ended, else
}

// An outlet hands over files while there is room.
type outlet struct {
	dirs dirs
	out  *bufio.Writer
	buf  []byte
	left int64 // bytes that may still be handed over
}

// hand hands over one file, or says why not. Its error is that nothing can
// follow.
func (o *outlet) hand(name string) error {
	fd, st, err := o.dirs.file(name)
	if err != nil {
		return wire.WriteTo(o.out, &wire.Found{Status: *failed(wire.StepFile, 0, err)})
	}
	defer unix.Close(fd)
	found := &wire.Found{Size: st.Size, Executable: st.Mode&0o111 != 0}
	if st.Size > o.left {
		found.Cause = wire.CauseTooLong
	}
	if err := wire.WriteTo(o.out, found); err != nil || found.Cause != wire.CauseNone {
		return err
	}
	o.left -= st.Size
	for left := st.Size; left > 0; {
		n, err := readSome(fd, o.buf[:min(left, int64(len(o.buf)))])
		if err != nil {
			return err
		}
		if _, err := o.out.Write(o.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// readSome reads what there is. A file that ends before its length does not
// have what it said.
func readSome(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return n, nil
		}
	}
}

// list says what is below a directory, directories aside.
func (g *guest) list(s *mux.Stream, n wire.Note) *wire.Listed {
	w := &walk{out: bufio.NewWriterSize(s, mux.MaxData), left: int(n.Number), seen: maxEntries}
	err := w.visit(g.place.work, n.Name, n.Name, maxDepth)
	if err == nil {
		err = w.out.Flush()
	}
	return &wire.Listed{Status: *failed(wire.StepDirectory, 0, err), Cut: w.cut}
}

type walk struct {
	out        *bufio.Writer
	left, seen int // how many more may be named, and looked at
	cut        bool
}

// visit looks at a directory, of which name is what leads there from at.
func (w *walk) visit(at int, name, dir string, depth int) error {
	fd, err := within(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
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
		return w.visit(at, e.Name(), name, depth-1)
	}
	w.left--
	entry := &wire.Entry{Name: name}
	var st unix.Stat_t
	if unix.Fstatat(at, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		entry.Regular, entry.Executable, entry.Size = true, st.Mode&0o111 != 0, st.Size
	}
	return wire.WriteTo(w.out, entry)
}
