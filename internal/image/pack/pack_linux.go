package pack

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Options bound what is packed.
type Options struct {
	Bytes   int64 // of the contents of files
	Entries int64
}

// The reasons for which something is left out.
const (
	DroppedSpecial = "special" // neither a file, a directory nor a symbolic link
	DroppedMount   = "mount"   // mounted below the directory
)

// A Result is what was packed.
type Result struct {
	Bytes   int64            // of files, each counted once
	Entries int64            // names, what was left out among them
	Dropped map[string]int64 // by reason
}

// Run writes the directory that dir is open on to w. The error is a
// *fstree.Error.
func Run(w io.Writer, dir *os.File, o Options) (Result, error) {
	buf := bufio.NewWriterSize(w, 1<<20)
	p := &packer{o: o, out: tar.NewWriter(buf), buf: make([]byte, 256<<10), names: map[identity]string{}, result: Result{Dropped: map[string]int64{}}}
	st, err := lstat(int(dir.Fd()), "")
	if err != nil {
		return p.result, fstree.Failed(fstree.KindSource, "", "look at the directory", err)
	}
	p.mount = st.mount
	fd, err := unix.Openat(int(dir.Fd()), ".", dirFlags, 0)
	if err != nil {
		return p.result, fstree.Failed(fstree.KindSource, "", "open the directory", err)
	}
	if err := p.dir(fd, "", st, 0); err != nil {
		return p.result, err
	}
	if err := errors.Join(p.out.Close(), buf.Flush()); err != nil {
		return p.result, fstree.Failed(fstree.KindDisk, "", "write the stream", err)
	}
	return p.result, nil
}

const (
	common    = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	dirFlags  = common | unix.O_DIRECTORY
	readChunk = 4096 // names
)

type identity struct{ dev, ino uint64 }

type packer struct {
	o      Options
	out    *tar.Writer
	buf    []byte
	mount  uint64
	names  map[identity]string // of files with more than one
	result Result
}

// dir packs a directory, whose descriptor it closes.
func (p *packer) dir(fd int, path string, st stat, depth int) error {
	d := os.NewFile(uintptr(fd), path)
	defer d.Close()
	opened, err := lstat(fd, "")
	if err != nil || !opened.same(st) {
		return changed(path, err)
	}
	names, err := p.list(d, path)
	if err != nil {
		return err
	}
	if path != "" {
		if err := p.header(path, tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755}, st); err != nil {
			return err
		}
	}
	for _, name := range names {
		below := name
		if path != "" {
			below = path + "/" + name
		}
		if err := p.entry(fd, name, below, depth+1); err != nil {
			return err
		}
	}
	if now, err := lstat(fd, ""); err != nil || !now.unchanged(st) {
		return changed(path, err)
	}
	return nil
}

// list returns the names of a directory, sorted.
func (p *packer) list(d *os.File, path string) (names []string, err error) {
	for {
		more, err := d.Readdirnames(readChunk)
		names = append(names, more...)
		if p.result.Entries+int64(len(names)) > p.o.Entries {
			return nil, fstree.Refuse(fstree.KindEntries, path, "there are more entries than there may be")
		}
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, fstree.Failed(fstree.KindSource, path, "read the directory", err)
		}
	}
}

// entry packs one name of a directory.
func (p *packer) entry(dir int, name, path string, depth int) error {
	st, err := lstat(dir, name)
	if err != nil {
		return changed(path, err)
	}
	if depth > fstree.MaxDepth {
		return fstree.Refuse(fstree.KindDepth, path, "it is more than 128 directories deep")
	}
	if len(path) > fstree.MaxPath {
		return fstree.Refuse(fstree.KindName, path, "the path has more than 4095 bytes")
	}
	p.result.Entries++
	switch st.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if st.mount != p.mount {
			p.result.Dropped[DroppedMount]++
			return p.header(path, tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755}, stat{})
		}
		fd, err := unix.Openat(dir, name, dirFlags, 0)
		if err != nil {
			return unreadable(path, err)
		}
		return p.dir(fd, path, st, depth)
	case unix.S_IFREG:
		if st.mounted(p.mount) {
			p.result.Dropped[DroppedMount]++
			return nil
		}
		return p.file(dir, name, path, st)
	case unix.S_IFLNK:
		return p.symlink(dir, name, path, st)
	default:
		p.result.Dropped[DroppedSpecial]++
		return nil
	}
}

// header writes a member's header, with what is the same for all.
func (p *packer) header(path string, hdr tar.Header, st stat) error {
	n := fstree.Node{}
	n.SetTime(st.mtime.Sec, 0)
	hdr.ModTime = time.Unix(n.Sec, 0)
	if err := p.out.WriteHeader(&hdr); err != nil {
		return fstree.Failed(fstree.KindDisk, path, "write the stream", err)
	}
	return nil
}

func (p *packer) symlink(dir int, name, path string, st stat) error {
	n, err := unix.Readlinkat(dir, name, p.buf[:fstree.MaxTarget+1])
	if err != nil {
		return changed(path, err)
	}
	target := string(p.buf[:n])
	if err := fstree.CheckTarget(path, target); err != nil {
		return err
	}
	return p.header(path, tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, st)
}

// file packs a file, or a link to the name that it was packed by.
func (p *packer) file(dir int, name, path string, st stat) error {
	mode := int64(0o644)
	if st.mode&0o111 != 0 {
		mode = 0o755
	}
	if first := p.names[st.identity]; first != "" {
		return p.header(path, tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: first, Mode: mode}, st)
	}
	if st.links > 1 {
		p.names[st.identity] = path
	}
	if p.result.Bytes += st.size; p.result.Bytes > p.o.Bytes {
		return fstree.Refuse(fstree.KindBytes, path, "there are more bytes than there may be")
	}
	fd, err := unix.Openat(dir, name, common, 0)
	if err != nil {
		return unreadable(path, err)
	}
	defer unix.Close(fd)
	if opened, err := lstat(fd, ""); err != nil || !opened.same(st) || !opened.unchanged(st) {
		return changed(path, err)
	}
	if err := p.header(path, tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: st.size}, st); err != nil {
		return err
	}
	if err := p.contents(fd, path, st.size); err != nil {
		return err
	}
	if now, err := lstat(fd, ""); err != nil || !now.unchanged(st) {
		return changed(path, err)
	}
	return nil
}

// contents copies exactly size bytes, after which there must be no more.
func (p *packer) contents(fd int, path string, size int64) error {
	for left := size; ; {
		n, err := unix.Read(fd, p.buf[:min(left+1, int64(len(p.buf)))])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fstree.Failed(fstree.KindSource, path, "read", err)
		case n == 0 && left == 0:
			return nil
		case n == 0 || int64(n) > left:
			return changed(path, nil)
		}
		left -= int64(n)
		if _, err := p.out.Write(p.buf[:n]); err != nil {
			return fstree.Failed(fstree.KindDisk, path, "write the stream", err)
		}
	}
}

// changed is what is told of something that is not as it was a moment ago.
func changed(path string, err error) error {
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fstree.Failed(fstree.KindSource, path, "look at it", err)
	}
	return &fstree.Error{Kind: fstree.KindChanged, Entry: path, Msg: "it changed while it was read", Err: err}
}

// unreadable tells what has become something else from what may not be read.
func unreadable(path string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO) {
		return changed(path, unix.ENOENT)
	}
	return fstree.Failed(fstree.KindSource, path, "open", err)
}
