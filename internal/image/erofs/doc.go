// Package erofs writes EROFS images: the read-only file system that Linux can
// mount and that gVisor reads by itself. It writes one narrow form of it that
// both take: blocks of 4 KiB, no compression, no chunks, no extended
// attributes, nothing that a reader must know beyond the first version.
//
//	block 0     zeros; the superblock at byte 1024
//	block 1...  the bytes of files, each from a block of its own ("flat plain"),
//	            in the order in which they came
//	then        blocks of directories and of very long links
//	meta_blkaddr
//	            inodes of 64 bytes (times to the nanosecond), the root first, then
//	            depth first by name; behind the inode of a directory or a link
//	            the rest of its data that does not fill a block ("flat inline")
//
// A file's bytes are written as they come, before anything is known of the
// tree; the inodes come last. What is kept in memory is the tree (fstree.Node),
// never contents. The same files in the same order and the same tree give the
// same image, byte for byte.
//
// A file that is replaced later leaves its blocks behind, unused.
//
// Read goes the other way, for who does not believe the writer: it takes what a
// Writer has written, and nothing else that a reader would understand.
//
// The parts of an inode and of a directory are drawn beside the code that
// writes them; both follow docs.kernel.org/filesystems/erofs.html.
package erofs

const (
	blockBits = 12
	blockSize = 1 << blockBits
	slotBits  = 5 // an inode's number is its place in units of 32 bytes
	slotSize  = 1 << slotBits
	inodeSize = 64

	superOffset = 1024
	magic       = 0xe0f5e1e2

	// Features that a reader may ignore: the superblock has a checksum, times
	// are times of modification.
	compatible = 1 | 2

	formatPlain  = 1          // an inode of 64 bytes, data in blocks
	formatInline = 1 | 2<<1   // the same, the last part behind the inode
	firstInode   = inodeSize  // no inode has the number 0
	noBlock      = ^uint32(0) // of what has no data in blocks

	direntSize = 12
)
