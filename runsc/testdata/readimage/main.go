// Command readimage prints what gVisor's own reader finds in an EROFS image,
// one line for each name: path, mode, size, time, links, and the SHA-256 of a
// file or the target of a link, all quoted. Tests of what writes images run it.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"

	"gvisor.dev/gvisor/pkg/erofs"
)

func main() {
	if err := read(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	img, err := erofs.OpenImage(f)
	if err != nil {
		return err
	}
	defer img.Close()
	return show(img, img.RootNid(), img.RootNid(), "")
}

// show prints an inode and, of a directory, all that is below it.
func show(img *erofs.Image, nid, parent uint64, path string) error {
	ino, err := img.Inode(nid)
	if err != nil {
		return fmt.Errorf("inode %d of %q: %w", nid, path, err)
	}
	what := ""
	switch {
	case ino.IsSymlink():
		what, err = ino.Readlink()
	case ino.IsRegular():
		what, err = sum(ino)
	}
	if err != nil {
		return fmt.Errorf("data of %q: %w", path, err)
	}
	fmt.Printf("%q %o %d %d.%09d %d %q\n", path, ino.Mode(), ino.Size(), ino.Mtime(), ino.MtimeNsec(), ino.Nlink(), what)
	if !ino.IsDir() {
		return nil
	}
	return ino.IterDirents(func(name string, typ uint8, child uint64) error {
		if found, err := ino.Lookup(name); err != nil || found != child {
			return fmt.Errorf("%q of %q is %d, and looked up %d (%v)", name, path, child, found, err)
		}
		switch {
		case name == "." && child == nid, name == ".." && child == parent:
			return nil
		case name == "." || name == "..":
			return fmt.Errorf("%q of %q is %d", name, path, child)
		}
		return show(img, child, nid, path+"/"+name)
	})
}

func sum(ino erofs.Inode) (string, error) {
	if _, err := ino.DataOffset(); err != nil { // what a file that is mapped needs
		return "", err
	}
	ranges, err := ino.DataRanges()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(append(ranges[0].Bytes, ranges[1].Bytes...))), nil
}
