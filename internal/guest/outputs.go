package guest

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// maxNames bounds the names of a listing, in bytes.
const maxNames = 8 << 20

// Output is a regular file of the program's.
type Output struct {
	Data       []byte
	Executable bool
}

// Entry is one thing in a listing that is no directory.
type Entry struct {
	Name       string // relative to /work; the program's bytes
	Regular    bool
	Executable bool  // of a regular file
	Size       int64 // of a regular file, by its length
}

// List returns what is below dir of /work, directories aside, at most so many,
// and whether there were more. The error of a directory that cannot be read is
// a *FileError.
func (h *Host) List(ctx context.Context, dir string, most int) (found []Entry, cut bool, err error) {
	err = h.do(ctx, wire.Note{Op: wire.OpList, Number: uint32(most), Name: dir}, func(s *mux.Stream) error {
		if err := s.CloseWrite(); err != nil {
			return err
		}
		if found, err = readEntries(s, most); err != nil {
			return err
		}
		var l wire.Listed
		if err := answer(s, &l); err != nil {
			return err
		}
		cut = l.Cut
		if err := cause(l.Status); err != nil {
			return &FileError{dir, err}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return found, cut, nil
}

func readEntries(s io.Reader, most int) (found []Entry, err error) {
	r, bytes := bufio.NewReader(s), 0
	for {
		var e wire.Entry
		err := wire.ReadFrom(r, wire.MaxName+24, &e)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if bytes += len(e.Name); len(found) >= most || bytes > maxNames {
			return nil, wire.ErrMalformed
		}
		found = append(found, Entry{e.Name, e.Regular, e.Executable, max(e.Size, 0)})
	}
}

// A Taker is handed what Get got for the i-th name. A *FileError says why there
// is nothing, and is the only error there is.
type Taker func(i int, out Output, err error)

// Get hands on the regular files of /work with these names, in their order, of
// at most so many bytes together; no link is followed on the way. The error of
// one that cannot be had is a *FileError, which wraps ErrTooLong where it is
// longer than what is left. The guest is asked for many at once: it reads the
// next ones while those before them are taken. On an error of Get the rest of
// the names were not handed on.
func (h *Host) Get(ctx context.Context, names []string, most int64, take Taker) error {
	left := most
	for at := 0; at < len(names); {
		n := wanted(names[at:])
		if n == 0 {
			take(at, Output{}, &FileError{names[at], ErrRequest})
			at++
			continue
		}
		base := at
		err := h.get(ctx, names[base:base+n], left, func(i int, out Output, err error) {
			left -= int64(len(out.Data))
			at = base + i + 1
			take(base+i, out, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wanted is how many of the names are asked for at once.
func wanted(names []string) (n int) {
	size := 4
	for _, name := range names {
		if size += 4 + len(name); size > wire.MaxWanted || len(name) > wire.MaxName || n == wire.MaxItems {
			break
		}
		n++
	}
	return n
}

// get asks for files on one stream. It takes at least one of them, or returns an
// error; it is not all of them where the guest could not go on after one.
func (h *Host) get(ctx context.Context, names []string, left int64, take Taker) error {
	return h.do(ctx, wire.Note{Op: wire.OpGet, Most: left}, func(s *mux.Stream) error {
		if err := wire.WriteTo(s, &wire.Wanted{Names: names}); err != nil {
			return err
		}
		if err := s.CloseWrite(); err != nil {
			return err
		}
		r := bufio.NewReaderSize(s, mux.MaxData)
		for i, name := range names {
			out, err := readFound(r, name, left)
			var file *FileError
			if err != nil && !errors.As(err, &file) {
				return err
			}
			short := errors.Is(err, io.ErrUnexpectedEOF)
			if i == len(names)-1 && !short {
				if err := atEnd(r); err != nil {
					return err
				}
			}
			left -= int64(len(out.Data))
			if take(i, out, err); short {
				return nil
			}
		}
		return nil
	})
}

// atEnd waits for the end, before which nothing may come.
func atEnd(r io.ByteReader) error {
	_, err := r.ReadByte()
	switch {
	case err == nil:
		return wire.ErrMalformed
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// readFound reads one file. Its error is a *FileError, or of the channel.
func readFound(r io.Reader, name string, left int64) (Output, error) {
	var f wire.Found
	if err := wire.ReadFrom(r, wire.MaxFound, &f); err != nil {
		return Output{}, err
	}
	if err := cause(f.Status); err != nil {
		return Output{}, &FileError{name, err}
	}
	if f.Size > left {
		return Output{}, wire.ErrMalformed
	}
	data, err := wire.ReadN(r, f.Size)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return Output{}, &FileError{name, io.ErrUnexpectedEOF}
	}
	if err != nil {
		return Output{}, err
	}
	return Output{data, f.Executable}, nil
}
