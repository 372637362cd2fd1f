package wire

import "strings"

// Unpack asks for a tree to be made of a tar stream, in a place of its own. It
// carries two descriptors, pipes both: the stream's end for reading, and the
// end for writing of the one on which the unpacker says how it went. It is
// answered when the unpacker has ended.
type Unpack struct {
	ID             string // of the tree in the making, for Keep and Drop
	Bytes, Entries int64  // the most that it may hold
	Dir            bool   // as a directory
	EROFS          bool   // as an EROFS image
	Mountpoints    bool   // with what a cell's root is mounted on
}

// Type implements Body.
func (*Unpack) Type() Type { return TypeUnpack }
func (m *Unpack) fields(c *coder) {
	c.str(&m.ID)
	c.i64(&m.Bytes)
	c.i64(&m.Entries)
	c.flag(&m.Dir)
	c.flag(&m.EROFS)
	c.flag(&m.Mountpoints)
}

// Unpacked says how the unpacker ended. Where it ended well the tree is there
// until Keep or Drop, belongs to root, and is what its listing says; otherwise
// nothing is left of it.
type Unpacked struct {
	Status     int32 // wait status
	Cause      Cause // why we ended it
	Wall       int64 // nanoseconds
	CPU        int64 // nanoseconds
	MemoryPeak int64 // bytes; -1 unknown
	OOMKills   int64
	Bytes      int64  // on disk, all of the tree
	Entries    int64  // of the tree's directory, itself included
	Words      string // the last of what it said on its stderr: printable ASCII
}

// Type implements Body.
func (*Unpacked) Type() Type { return TypeUnpacked }
func (m *Unpacked) fields(c *coder) {
	c.i32(&m.Status)
	c.u8((*uint8)(&m.Cause))
	c.bad = c.bad || m.Cause >= causeEnd
	for _, n := range []*int64{&m.Wall, &m.CPU, &m.MemoryPeak, &m.OOMKills, &m.Bytes, &m.Entries} {
		c.i64(n)
	}
	c.str(&m.Words)
}

// Keep puts an unpacked tree into the store, for an owner: whoever keeps the
// records in which it is named, see IsOwner. Another digest than that of its
// listing is refused. Where it is there already, it gets the forms that it has
// not, the rest of the new one is dropped, and it has an owner more. It is
// answered by Done, when the tree is on the disk.
type Keep struct{ ID, Digest, Owner string }

// Type implements Body.
func (*Keep) Type() Type { return TypeKeep }
func (m *Keep) fields(c *coder) {
	c.str(&m.ID)
	c.str(&m.Digest)
	c.str(&m.Owner)
}

// Drop ends the unpacker, where it runs, and removes what there is of the tree.
// It is answered by Done.
type Drop struct{ ID string }

// Type implements Body.
func (*Drop) Type() Type        { return TypeDrop }
func (m *Drop) fields(c *coder) { c.str(&m.ID) }

// Trees asks what the store has. It is answered by Found with a memfd of one
// line for each tree: digest, bytes, entries, d or -, e or - (directory, EROFS),
// seconds since 1970 when it was kept, o or - (it is the owner's who asks).
type Trees struct{ Owner string }

// Type implements Body.
func (*Trees) Type() Type        { return TypeTrees }
func (m *Trees) fields(c *coder) { c.str(&m.Owner) }

// Remove takes an owner's hand off a tree that no cell uses, and the tree out of
// the store where it was the last. It is answered by Done.
type Remove struct{ Digest, Owner string }

// Type implements Body.
func (*Remove) Type() Type { return TypeRemove }
func (m *Remove) fields(c *coder) {
	c.str(&m.Digest)
	c.str(&m.Owner)
}

// IsOwner reports whether a text may name an owner: 1 to 64 digits of
// hexadecimal.
func IsOwner(text string) bool {
	return len(text) >= 1 && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// TreeFile is a file of a tree in the store. The zero value is invalid.
type TreeFile uint8

// The files.
const (
	TreeListing TreeFile = iota + 1 // tree.json
	TreeEROFS                       // root.erofs
	treeFileEnd
)

// OpenTree asks for a file of a tree. It is answered by Found.
type OpenTree struct {
	Digest string
	File   TreeFile
}

// Type implements Body.
func (*OpenTree) Type() Type { return TypeOpenTree }
func (m *OpenTree) fields(c *coder) {
	c.str(&m.Digest)
	c.u8((*uint8)(&m.File))
	c.bad = c.bad || m.File == 0 || m.File >= treeFileEnd
}
