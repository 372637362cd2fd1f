package source

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/callcell/callcell/internal/config/guarded"
	"github.com/callcell/callcell/internal/credential/secret"
)

// fileSource is a file.
type fileSource struct{ path string }

func (*fileSource) Kind() Kind    { return File }
func (*fileSource) Group() string { return "" }
func (*fileSource) Field() string { return "" }

// Fetch reads the file. The secret goes from the kernel to its place, and is
// nowhere else.
func (f *fileSource) Fetch(context.Context, Request) (*Grant, error) {
	file, err := guarded.Open(f.path)
	if err != nil {
		return nil, fileFault(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fileFault(err)
	}
	if info.Mode().Perm()&0o004 != 0 {
		return nil, &Fault{File, Unsafe, "everybody can read it", "chmod o-r"}
	}
	s, err := read(File, func(room []byte) (int, error) { return readFull(file, room) })
	if err != nil {
		return nil, err
	}
	return single(s), nil
}

// readFull reads until room is full or nothing comes any more.
func readFull(r io.Reader, room []byte) (int, error) {
	n, err := io.ReadFull(r, room)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// fileFault is err without the path in it.
func fileFault(err error) *Fault {
	var guard *guarded.Error
	hint := ""
	if errors.As(err, &guard) {
		hint = "it and its directories: root's or of who runs this, and no group or others may write there"
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Fault{File, Absent, "there is no such file", "put the secret there"}
	case errors.Is(err, guarded.ErrUnsafe):
		return &Fault{File, Unsafe, "others can change it", hint}
	case errors.Is(err, fs.ErrPermission):
		return &Fault{File, Denied, "this process may not read it", "let the user of this process read it"}
	case errors.Is(err, guarded.ErrKind), errors.Is(err, guarded.ErrPath):
		return &Fault{File, Invalid, "it is not a regular file by its full path", "name a regular file from / on"}
	}
	return FaultOf(File, err)
}

// envSource is a variable of this process. It stays there, whatever becomes
// of the secret.
type envSource struct {
	name   string
	lookup func(string) (string, bool)
}

func (*envSource) Kind() Kind    { return Env }
func (*envSource) Group() string { return "" }
func (*envSource) Field() string { return "" }

// Fetch reads the variable.
func (e *envSource) Fetch(context.Context, Request) (*Grant, error) {
	value, found := e.lookup(e.name)
	if !found {
		return nil, &Fault{Env, Absent, "the variable is not set", "set it for this process"}
	}
	s, err := secret.New([]byte(value))
	if err != nil {
		return nil, unfit(Env, err)
	}
	return single(s), nil
}
