package inside

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// put writes files until the host has no more. After one that cannot be
// written it takes the rest and writes nothing.
func (g *guest) put(s *mux.Stream) *wire.Status {
	r := bufio.NewReaderSize(s, mux.MaxData)
	buf := make([]byte, mux.MaxData)
	work, run := dirs{root: g.place.work}, dirs{root: g.place.run}
	defer work.close()
	defer run.close()
	for i := 0; ; i++ {
		var f wire.File
		err := wire.ReadFrom(r, wire.MaxName+64, &f)
		if errors.Is(err, io.EOF) {
			return &wire.Status{}
		}
		if err == nil {
			d := &work
			if f.Run {
				d = &run
			}
			err = d.write(&f, io.LimitReader(r, f.Size), buf)
		}
		if err != nil {
			_, _ = io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, buf) // the host has ended it, else
			return failed(wire.StepFile, i, err)
		}
	}
}

// write writes one file, owned by the program's user.
func (d *dirs) write(f *wire.File, r io.Reader, buf []byte) error {
	fd, err := d.create(f.Name, f.Mode&0o777)
	if err == unix.ENOENT {
		if err = makeParents(d.root, f.Name); err != nil {
			return err
		}
		fd, err = d.create(f.Name, f.Mode&0o777)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, UID, UID); err != nil {
		return err
	}
	for {
		n, err := r.Read(buf)
		if err := writeAll(fd, buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// makeParents makes the directories above name.
func makeParents(dir int, name string) error {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		above, last := -1, name[:i]
		var err error
		if at := strings.LastIndexByte(last, '/'); at >= 0 {
			if above, err = beneath(dir, last[:at], unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
				return err
			}
			last = last[at+1:]
		}
		err = makeDir(dir, above, last)
		if above >= 0 {
			_ = unix.Close(above) // a path
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes a directory of the program's user, unless it is there.
func makeDir(dir, above int, name string) error {
	if above >= 0 {
		dir = above
	}
	err := unix.Mkdirat(dir, name, 0o755)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Fchownat(dir, name, UID, UID, unix.AT_SYMLINK_NOFOLLOW)
}

// errIrregular is a name that is something else than what it should be, or has
// a link on its way.
var errIrregular = errors.New("not a regular file")

// beneath opens a name below dir: no link is followed anywhere on the way, and
// nothing above dir is reached.
func beneath(dir int, name string, flags int, mode uint32) (int, error) {
	if flags&unix.O_PATH == 0 { // which takes no other flags
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOSYS, unix.EINVAL, unix.EPERM:
			return stepwise(dir, name, flags, mode)
		default:
			return fd, err
		}
	}
}

// stepwise is beneath where the kernel cannot do it: each directory is opened
// from the one before.
func stepwise(dir int, name string, flags int, mode uint32) (int, error) {
	at := -1
	defer func() {
		if at >= 0 {
			_ = unix.Close(at) // a path
		}
	}()
	for {
		step, rest, more := strings.Cut(name, "/")
		if step == "" || step == ".." {
			return -1, unix.EXDEV
		}
		from := dir
		if at >= 0 {
			from = at
		}
		if !more {
			return unix.Openat(from, step, flags, mode)
		}
		next, err := unix.Openat(from, step, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		if at >= 0 {
			_ = unix.Close(at) // a path
		}
		at, name = next, rest
	}
}
