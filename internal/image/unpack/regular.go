package unpack

import (
	"archive/tar"
	"io"
	"math"

	"github.com/callcell/callcell/internal/image/fstree"
)

// regular takes a file. Its size counts before a byte of it is written.
func (u *unpacker) regular(path string, n *fstree.Node, hdr *tar.Header, r io.Reader) error {
	const setID, exec = 0o7000, 0o111
	size := hdr.Size
	if size < math.MaxInt64-block {
		size = (size + block - 1) &^ (block - 1)
	}
	if err := u.spend(path, size); err != nil {
		return err
	}
	if hdr.Mode&setID != 0 {
		u.dropped[DroppedSetID]++
	}
	n.Kind, n.Exec, n.Size = fstree.File, hdr.Mode&exec != 0, hdr.Size
	dir, name, err := u.place(path)
	if err != nil {
		return err
	}
	if err := u.remove(path, dir, name); err != nil {
		return err
	}
	var out *file
	if u.disk != nil {
		if out, err = u.disk.create(path, n.Exec); err != nil {
			return err
		}
		defer out.Close()
	}
	if err := u.contents(path, n, out, r); err != nil {
		return err
	}
	dir.Entries[name] = n
	if out == nil {
		return nil
	}
	return u.disk.done(path, out, n)
}

// contents copies a file's bytes to wherever they go, and takes their digest.
// A stream that has fewer than it said is an error of the stream's.
func (u *unpacker) contents(path string, n *fstree.Node, out *file, r io.Reader) error {
	u.hash.Reset()
	if u.image != nil {
		n.Block = u.image.Block()
	}
	for left := n.Size; left > 0; {
		got, err := r.Read(u.buf[:min(left, int64(len(u.buf)))])
		if got == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		left -= int64(got)
		if err := u.write(u.buf[:got], out); err != nil {
			return fstree.Failed(fstree.KindDisk, path, "write", err)
		}
	}
	u.hash.Sum(n.Sum[:0])
	if u.image == nil {
		return nil
	}
	if err := u.image.Pad(); err != nil {
		return fstree.Failed(fstree.KindDisk, "", "write the image", err)
	}
	return nil
}

func (u *unpacker) write(p []byte, out *file) error {
	u.hash.Write(p)
	if out != nil {
		if _, err := out.Write(p); err != nil {
			return err
		}
	}
	if u.image == nil {
		return nil
	}
	_, err := u.image.Write(p)
	return err
}
