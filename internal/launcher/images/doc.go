// Package images is the launcher's store of roots for cells, on disk. A tree is
// in it by its digest, which is the SHA-256 of its listing.
//
//	DIR/trees/HEX/root/         the root as a directory; absent where only the image was made
//	DIR/trees/HEX/root.erofs    the root as an EROFS image; absent where only the directory was
//	DIR/trees/HEX/tree.json     the listing of which HEX is the digest
//	DIR/trees/HEX/owners/       a file for each set of records that names the tree; the last takes it along
//	DIR/trees/HEX/kept          ours: bytes on disk and entries
//	DIR/staging/ID/             a tree in the making, or one that is being removed
//	DIR/locks                   a byte for each staging and each tree
//
// Everything below DIR belongs to root, and nobody else gets past DIR. What is
// in a tree, and in a staging, is hostile: names are opened beneath a
// descriptor, no link is followed, and of the files themselves the listing alone
// is read, for its digest. That root and image are what the listing says, a
// process in a jail finds out, before Keep (the launcher's unpacked trees).
// What is made in one form, and again in the other, is one tree with both.
//
// # Who owns a tree
//
// The unpacker writes with a uid of its own, and when it has ended its tree is
// made root's, entry by entry (Claim). The uid goes back into the range, so
// that a tree of which a cell with that uid is the owner would be that cell's
// but for the read-only mount. The same walk looks at every entry: an unpacker
// that was taken over by what it unpacked can leave directories, regular files
// and links, and nothing with a set-uid bit.
//
// # Several launchers, and their ends
//
// A staging is locked by who makes it, and a tree (shared) by who has cells in
// it: bytes of one file, as with uids. The locks end with the launcher's
// process. A staging that nobody has locked is a dead launcher's, and swept.
// What is in trees got there by one rename, after everything in it was written
// to the disk; what leaves it leaves by a rename before its first file is
// removed.
package images
