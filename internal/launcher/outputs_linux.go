package launcher

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// get answers with a descriptor of one regular file.
func (c *cell) get(name string) (wire.Body, []int) {
	if c.scratch == nil || !c.stopped() {
		return &wire.Failed{Kind: wire.KindState, Step: "files are read after the stop"}, nil
	}
	fd, st, err := c.scratch.open(name)
	if err != nil {
		return failure(wire.KindFile, fileWords(err), nil), nil
	}
	return &wire.Found{Size: st.Size, Executable: st.Mode&0o100 != 0}, []int{fd}
}

// list answers with a memfd of entries: + for a regular file, * for one that may
// be executed or - for another thing, the size, a colon, the name, NUL.
func (c *cell) list(dir string, most int) (wire.Body, []int) {
	if c.scratch == nil || !c.stopped() {
		return &wire.Failed{Kind: wire.KindState, Step: "files are read after the stop"}, nil
	}
	found, cut, err := c.scratch.list(dir, most)
	if err != nil {
		return failure(wire.KindFile, fileWords(err), nil), nil
	}
	fd, size, err := namesFile(found)
	if err != nil {
		return failure(wire.KindBroken, "list", err), nil
	}
	return &wire.Found{Size: size, Cut: cut}, []int{fd}
}

func namesFile(found []entry) (fd int, size int64, err error) {
	var b []byte
	for _, e := range found {
		kind := byte('-')
		if e.executable {
			kind = '*'
		} else if e.regular {
			kind = '+'
		}
		b = append(strconv.AppendInt(append(b, kind), e.size, 10), ':')
		b = append(append(b, e.name...), 0)
	}
	fd, err = memfdOf("names", b)
	return fd, int64(len(b)), err
}

func memfdOf(name string, b []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for at := int64(0); at < int64(len(b)); {
		n, err := unix.Pwrite(fd, b[at:], at)
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		at += int64(n)
	}
	return fd, nil
}

// fileWords says why a file cannot be had, in words that go to the caller.
func fileWords(err error) string {
	switch {
	case errors.Is(err, errNotRegular), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR):
		return "not a regular file"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "not there"
	case errors.Is(err, unix.EXDEV):
		return "outside the working directory"
	case errors.Is(err, unix.ENAMETOOLONG):
		return "name too long"
	}
	return "cannot be read"
}
