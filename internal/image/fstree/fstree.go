// Package fstree is the model of a root for cells: what may be in it, how it
// may be called, how big it may be, and the digest that names it. It knows no
// archive and no disk.
//
// A tree has directories, regular files and symbolic links, all of one owner.
// A directory has mode 0755, a file 0644 or 0755; there is nothing else to be
// said of them but their times. A name is bytes: any but NUL and '/', at most
// MaxName of them, and not "." or "..". Names that differ in letter case alone
// differ.
//
// # The digest
//
// The digest of a tree is the SHA-256 of its listing (List), and the listing is
// what can be seen in the tree: names, types, what may be executed, contents,
// targets of links. It does not depend on the order or format of the archive
// that a tree came in, nor on which files were hard links of each other. Times
// are left out of it, so that the same content built again has the same digest;
// the tree that was there first keeps its times.
package fstree

import (
	"maps"
	"slices"
	"strings"
)

// The bounds of a tree. Names and targets are those of Linux; the depth is
// well below what a reader's descriptors and stack can take.
const (
	MaxName   = 255  // bytes of a name
	MaxPath   = 4095 // bytes of a path from the root
	MaxTarget = 4095 // bytes of a symbolic link's target
	MaxDepth  = 128  // names of a path
)

// Kind is what a node is. The zero value is nothing.
type Kind uint8

// The kinds of nodes.
const (
	File Kind = iota + 1
	Dir
	Symlink
)

// A Node is one file, directory or symbolic link. A file with more than one
// name is one Node at each of them.
type Node struct {
	Kind    Kind
	Exec    bool   // a file that may be executed
	Nsec    uint32 // of the time of modification
	Sec     int64  // the time of modification, since 1970, never before it
	Links   uint32 // names of a file or symbolic link
	Block   uint32 // the first block of a file's bytes in an image, for who writes one
	Mark    uint32 // for who walks the tree: its own number of the node
	Size    int64  // bytes of a file
	Sum     [32]byte
	Target  string           // of a symbolic link
	Entries map[string]*Node // of a directory
}

// NewDir returns an empty directory.
func NewDir() *Node { return &Node{Kind: Dir, Links: 1, Entries: map[string]*Node{}} }

// Names returns the names of a directory in the order of their bytes.
func (n *Node) Names() []string { return slices.Sorted(maps.Keys(n.Entries)) }

// latest is the end of the year 9999; readers have trouble with what is later.
const latest = 253402300799

// SetTime sets the time of modification, moved into what every reader can
// tell: from 1970 to 9999.
func (n *Node) SetTime(sec int64, nsec int) {
	switch {
	case sec < 0:
		sec, nsec = 0, 0
	case sec > latest:
		sec, nsec = latest, 0
	}
	n.Sec, n.Nsec = sec, uint32(nsec)
}

// Clean returns the path of a member of an archive from the root: names with a
// '/' between them, and "" for the root itself. Empty names and "." are left
// out. What is absolute, has "..", a NUL or more than the bounds is a *Error.
func Clean(raw string) (string, error) {
	switch {
	case raw == "":
		return "", Refuse(KindName, raw, "it has no name")
	case strings.HasPrefix(raw, "/"):
		return "", Refuse(KindName, raw, "the name is absolute")
	case strings.IndexByte(raw, 0) >= 0:
		return "", Refuse(KindName, raw, "the name has a NUL")
	}
	names := make([]string, 0, 16)
	for name := range strings.SplitSeq(raw, "/") {
		switch {
		case name == "" || name == ".":
			continue
		case name == "..":
			return "", Refuse(KindName, raw, "the name leads upwards (..)")
		case len(name) > MaxName:
			return "", Refuse(KindName, raw, "a name has more than 255 bytes")
		case len(names) == MaxDepth:
			return "", Refuse(KindDepth, raw, "it is more than 128 directories deep")
		}
		names = append(names, name)
	}
	path := strings.Join(names, "/")
	if len(path) > MaxPath {
		return "", Refuse(KindName, raw, "the path has more than 4095 bytes")
	}
	return strings.Clone(path), nil // of raw nothing is kept
}

// CheckTarget returns a *Error where a symbolic link named path cannot have
// the target. A target is data: where it leads is nobody's business here.
func CheckTarget(path, target string) error {
	switch {
	case target == "":
		return Refuse(KindLink, path, "the link has no target")
	case len(target) > MaxTarget:
		return Refuse(KindLink, path, "the target has more than 4095 bytes")
	case strings.IndexByte(target, 0) >= 0:
		return Refuse(KindLink, path, "the target has a NUL")
	}
	return nil
}

// Split returns the directory and the last name of a path that Clean has
// returned.
func Split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
