package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/callcell/callcell/envelope"
)

// maxInput bounds one file that is read for a call, in bytes.
const maxInput = 64 << 20

// input reads FILE[=NAME], which must be a regular file, or lead to one.
func input(spec string, most int64) (envelope.File, error) {
	file, name := spec, ""
	if i := strings.LastIndexByte(spec, '='); i >= 0 {
		if _, err := os.Stat(spec); err != nil { // else a file whose name has a =
			file, name = spec[:i], spec[i+1:]
		}
	}
	if name == "" {
		name = path.Base(filepath.ToSlash(file))
	}
	f, info, err := openRegular(file)
	if err != nil {
		return envelope.File{}, usage(fmt.Sprintf("--in %s: %v", file, bare(err)), hintOfFile(err))
	}
	defer f.Close()
	if info.Size() > most {
		return envelope.File{}, tooLarge("--in "+file, most)
	}
	data, err := readAll(f, "--in "+file, most)
	return envelope.File{Name: name, Data: data, Executable: info.Mode()&0o100 != 0}, err
}

var (
	errDirectory = errors.New("a directory")
	errIrregular = errors.New("not a regular file")
)

// openRegular opens what it has seen to be a regular file: opening a FIFO would
// wait for its writer, and opening a device may do something.
func openRegular(name string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(name)
	if err == nil {
		err = wantRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = wantRegular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func wantRegular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return errIrregular
	}
	return nil
}

func hintOfFile(err error) string {
	switch {
	case errors.Is(err, errDirectory):
		return "files are given one by one (--in a.csv --in lib/b.py=lib/b.py), a whole directory as --tree DIR"
	case errors.Is(err, errIrregular):
		return "name a regular file"
	case errors.Is(err, fs.ErrNotExist):
		return "name a file that is there: it is read on this host, from where you are"
	case errors.Is(err, fs.ErrPermission):
		return "it is read with your own rights: see that you may read it"
	}
	return ""
}

// readFile reads a file of the user's, which may be a pipe of his shell's.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(fmt.Sprintf("%s: %v", name, bare(err)), hintOfFile(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, usage(fmt.Sprintf("%s: %v", name, bare(err)), hintOfFile(err))
	case info.IsDir():
		return nil, usage(name+": "+errDirectory.Error(), "name a file")
	case info.Mode().IsRegular() && info.Size() > most:
		return nil, tooLarge(name, most)
	}
	return readAll(f, name, most)
}

// readAll reads what there is. Nothing is not nil.
func readAll(r io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, usage(fmt.Sprintf("read %s: %v", name, bare(err)), "")
	}
	if int64(len(b)) > most {
		return nil, tooLarge(name, most)
	}
	return b, nil
}

func tooLarge(name string, most int64) error {
	return usage(fmt.Sprintf("%s: more than %s", name, envelope.Size(most)), "a call is held in memory: give it less, or in several calls")
}

// bare takes the path out of a path error, where we print it ourselves.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
