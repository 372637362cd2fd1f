package vm

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
)

// Types of files, as in the mode of an entry.
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000 // a character device
)

// Archive writes an initramfs: a cpio archive in the form "newc", all of it
// root's. Directories on the way to an entry are made, and an entry that is
// there already is not written again. The first error stays.
type Archive struct {
	w     io.Writer
	size  int64
	inode int
	names map[string]bool
	err   error
}

// NewArchive begins an archive.
func NewArchive(w io.Writer) *Archive {
	return &Archive{w: w, names: map[string]bool{"": true}}
}

// Has reports whether there is an entry of that name.
func (a *Archive) Has(name string) bool { return a.names[clean(name)] }

// Size is how many bytes have been written.
func (a *Archive) Size() int64 { return a.size }

// Dir adds a directory.
func (a *Archive) Dir(name string, perm uint32) { a.add(name, typeDir|perm, nil, 0, 0) }

// File adds a file.
func (a *Archive) File(name string, perm uint32, data []byte) {
	a.add(name, typeFile|perm, data, 0, 0)
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) { a.add(name, typeLink|0o777, []byte(target), 0, 0) }

// Device adds a character device.
func (a *Archive) Device(name string, perm, major, minor uint32) {
	a.add(name, typeDevice|perm, nil, major, minor)
}

// Close ends the archive and returns the first error.
func (a *Archive) Close() error {
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	return a.err
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func (a *Archive) add(name string, mode uint32, data []byte, major, minor uint32) {
	name = clean(name)
	if a.names[name] {
		return
	}
	if dir := clean(path.Dir(name)); !a.names[dir] {
		a.Dir(dir, 0o755)
	}
	a.names[name] = true
	a.entry(name, mode, data, major, minor)
}

// entry writes a header of thirteen numbers, the name, and the data; each is
// padded to four bytes.
func (a *Archive) entry(name string, mode uint32, data []byte, major, minor uint32) {
	a.inode++
	header := bytes.NewBufferString("070701")
	for _, n := range []uint32{
		uint32(a.inode), mode, 0, 0, // uid, gid
		1, 0, uint32(len(data)), // links, time, size
		0, 0, major, minor, // of the file system, of the device
		uint32(len(name) + 1), 0, // with its NUL; no sum in this form
	} {
		fmt.Fprintf(header, "%08X", n)
	}
	header.WriteString(name)
	header.WriteByte(0)
	a.padded(header.Bytes())
	a.padded(data)
}

func (a *Archive) padded(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if a.err != nil {
			return
		}
		var n int
		n, a.err = a.w.Write(part)
		a.size += int64(n)
	}
}
