package unpack

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"github.com/callcell/callcell/internal/image/erofs"
	"github.com/callcell/callcell/internal/image/fstree"
)

// The names of what is written.
const (
	RootName    = "root"
	ImageName   = "root.erofs"
	ListingName = "tree.json"
)

// Options say what is made of a stream, and what it may cost.
type Options struct {
	// Bytes bounds what is written of the contents of files, each counted up
	// to full blocks of 4 KiB, and counted even where it is replaced later. The
	// target of a symbolic link counts four times: it stands in root/, in the
	// image and, with escapes, in the listing.
	Bytes int64
	// Entries bounds the members of the stream and the directories that are
	// made for them. What is kept in memory is about 350 bytes for each.
	Entries int64
	Dir     bool // write root/
	Image   bool // write root.erofs
	// Mountpoints makes what a cell's root needs to be mounted on.
	Mountpoints bool
}

// The reasons for which members, or parts of them, are dropped.
const (
	DroppedDevice = "device"
	DroppedFIFO   = "fifo"
	DroppedOther  = "other"  // a type of member that is none of a tree's
	DroppedSetID  = "setid"  // set-user-ID, set-group-ID or sticky bits of a file
	DroppedXattr  = "xattr"  // members that had extended attributes
	DroppedPlaced = "placed" // what stood where a mount point must be
)

// A Result is a tree that was written.
type Result struct {
	Digest  string           `json:"digest"`  // sha256:HEX
	Bytes   int64            `json:"bytes"`   // of the tree's files
	Entries int64            `json:"entries"` // names in the tree
	Dropped map[string]int64 `json:"dropped"` // by reason
}

// Run reads a tar stream to its end and writes it beneath staging, where
// nothing of the names of this package may be yet. The error is a
// *fstree.Error; what was written then is the caller's to remove.
func Run(in io.Reader, staging *os.File, o Options) (Result, error) {
	u := &unpacker{o: o, root: fstree.NewDir(), hash: sha256.New(), buf: make([]byte, 256<<10), dropped: map[string]int64{}, gone: map[string]bool{}}
	if err := u.open(int(staging.Fd())); err != nil {
		return Result{}, err
	}
	defer u.close()
	if err := u.members(in); err != nil {
		return Result{}, err
	}
	return u.finish(int(staging.Fd()))
}

// An unpacker is one Run.
type unpacker struct {
	o     Options
	root  *fstree.Node
	disk  *disk         // nil: no directory is written
	image *erofs.Writer // nil: no image is written
	file  *file         // the image's
	hash  hash.Hash
	buf   []byte

	entries int64           // so far
	bytes   int64           // so far, in full blocks
	gone    map[string]bool // dropped members, which may have hard links
	dropped map[string]int64
}

// open makes what is written to.
func (u *unpacker) open(staging int) (err error) {
	if u.o.Dir {
		if u.disk, err = newDisk(staging); err != nil {
			return err
		}
	}
	if u.o.Image {
		if u.file, err = create(staging, ImageName, false); err != nil {
			u.close()
			return fstree.Failed(fstree.KindDisk, "", "make the image", err)
		}
		u.image = erofs.NewWriter(u.file)
	}
	return nil
}

func (u *unpacker) close() {
	if u.disk != nil {
		u.disk.close()
	}
	if u.file != nil {
		u.file.Close()
	}
}

// finish writes what can be written only when all members have come.
func (u *unpacker) finish(staging int) (Result, error) {
	if u.o.Mountpoints {
		if err := u.mountpoints(); err != nil {
			return Result{}, err
		}
	}
	if u.disk != nil {
		if err := u.disk.settle("", u.root); err != nil {
			return Result{}, err
		}
	}
	if u.image != nil {
		if err := u.image.Finish(u.root); err != nil {
			return Result{}, fstree.Failed(fstree.KindDisk, "", "write the image", err)
		}
	}
	digest, err := listing(staging, u.root)
	if err != nil {
		return Result{}, err
	}
	entries, bytes := fstree.Count(u.root)
	return Result{Digest: digest, Bytes: bytes, Entries: entries, Dropped: u.dropped}, nil
}

// listing writes the tree's listing and returns its digest.
func listing(staging int, root *fstree.Node) (string, error) {
	f, err := create(staging, ListingName, false)
	if err != nil {
		return "", fstree.Failed(fstree.KindDisk, "", "make the listing", err)
	}
	defer f.Close()
	sum := sha256.New()
	if err := fstree.List(io.MultiWriter(f, sum), root); err != nil {
		return "", fstree.Failed(fstree.KindDisk, "", "write the listing", err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
