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

// Get returns a regular file of /work of at most so many bytes; no link is
// followed on the way. The error of one that cannot be had is a *FileError,
// which wraps ErrTooLong where it is longer.
func (h *Host) Get(ctx context.Context, name string, most int64) (out Output, err error) {
	err = h.do(ctx, wire.Note{Op: wire.OpGet, Most: most, Name: name}, func(s *mux.Stream) error {
		if err := s.CloseWrite(); err != nil {
			return err
		}
		var f wire.Found
		if err := answer(s, &f); err != nil {
			return err
		}
		if err := cause(f.Status); err != nil {
			return &FileError{name, err}
		}
		if f.Size > most {
			return wire.ErrMalformed
		}
		out.Executable = f.Executable
		out.Data, err = wire.ReadN(s, f.Size)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &FileError{name, io.ErrUnexpectedEOF}
		}
		if err != nil {
			return err
		}
		if n, err := s.Read(make([]byte, 1)); n > 0 {
			return wire.ErrMalformed
		} else if !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
	if err != nil {
		return Output{}, err
	}
	return out, nil
}
