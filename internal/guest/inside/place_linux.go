package inside

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/wire"
)

// Where the parts of the scratch stand.
const (
	workDir = "/work"
	runDir  = "/run"
	tempDir = "/tmp"
	shmDir  = "/dev/shm"
)

// place is what the program finds.
type place struct {
	root int // the scratch; -1: it is not ours
	work int // its working directory; -1: there is none yet
	run  int
}

type part struct {
	dir, target string
	mode        uint32
}

// parts are those of the scratch. The last one covers where it was mounted.
func parts() []part {
	return []part{{"work", workDir, 0o755}, {"run", runDir, 0o755}, {"shm", shmDir, 0o1777}, {"tmp", tempDir, 0o1777}}
}

const safe = unix.MS_NOSUID | unix.MS_NODEV

// make makes the place.
func (p *place) make(m *wire.Place) *wire.Status {
	if covers := changes(m.Covers); len(covers) > 0 {
		if i, err := cover(covers); err != nil {
			return failed(wire.StepCover, i, err)
		}
	}
	var err error
	if m.Scratch > 0 {
		err = p.mount(m)
	}
	if err == nil {
		p.work, err = openDir(workDir)
	}
	if err == nil {
		p.run, err = openDir(runDir)
	}
	return failed(wire.StepScratch, 0, err)
}

func openDir(name string) (int, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return high(fd)
}

// mount mounts the scratch where it is hidden by its last part.
func (p *place) mount(m *wire.Place) error {
	size := "mode=755,size=" + strconv.FormatInt(m.Scratch, 10) + ",nr_inodes=" + strconv.FormatInt(m.Inodes, 10)
	if err := unix.Mount("scratch", tempDir, "tmpfs", safe, size); err != nil {
		return err
	}
	root, err := openDir(tempDir)
	if err != nil {
		return err
	}
	p.root = root
	if err := unix.Mkdir(shmDir, 0o755); err != nil && err != unix.EEXIST && err != unix.EROFS {
		return err
	}
	for _, part := range parts() {
		from := tempDir + "/" + part.dir
		if err := unix.Mkdir(from, 0o700); err != nil {
			return err
		}
		if err := unix.Lchown(from, UID, UID); err != nil {
			return err
		}
		if err := unix.Chmod(from, part.mode); err != nil {
			return err
		}
		if err := unix.Mount(from, part.target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// coverSize bounds the texts that stand in the place of files.
const coverSize = "mode=755,size=8m"

// changes leaves out the texts that the root has already: mounting one takes
// longer than all of a small program.
func changes(list []wire.Cover) (covers []wire.Cover) {
	for _, c := range list {
		if !has(c.Path, c.Data) {
			covers = append(covers, c)
		}
	}
	return covers
}

// has reports whether a file has just that text. It is three system calls and no
// more: there are as many files of which none has to be covered.
func has(path string, text []byte) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	b := make([]byte, len(text)+1)
	n, err := unix.Read(fd, b)
	return err == nil && bytes.Equal(b[:n], text)
}

// cover puts texts in the place of files. They stand in a file system of their
// own, which the scratch hides.
func cover(list []wire.Cover) (int, error) {
	if err := unix.Mount("covers", tempDir, "tmpfs", safe|unix.MS_NOEXEC, coverSize); err != nil {
		return 0, err
	}
	for i, c := range list {
		if err := os.WriteFile(tempDir+"/"+strconv.Itoa(i), c.Data, 0o444); err != nil {
			return i, err
		}
	}
	const readOnly = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | safe | unix.MS_NOEXEC
	if err := unix.Mount("", tempDir, "", readOnly, ""); err != nil {
		return 0, err
	}
	for i, c := range list {
		if err := unix.Mount(tempDir+"/"+strconv.Itoa(i), c.Path, "", unix.MS_BIND, ""); err != nil {
			return i, err
		}
		if err := unix.Mount("", c.Path, "", readOnly, ""); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// space is how much of the scratch is used, and how much there is.
func (p *place) space(x *wire.Exit) {
	x.Bytes, x.Inodes, x.MaxBytes, x.MaxIn = -1, -1, -1, -1
	var st unix.Statfs_t
	if p.root < 0 || unix.Fstatfs(p.root, &st) != nil {
		return
	}
	x.Bytes, x.MaxBytes = int64(st.Blocks-st.Bfree)*st.Bsize, int64(st.Blocks)*st.Bsize
	x.Inodes, x.MaxIn = int64(st.Files-st.Ffree), int64(st.Files)
}
