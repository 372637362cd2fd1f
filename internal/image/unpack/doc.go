// Package unpack makes a root for cells of a tar stream that a stranger wrote.
//
//	tar stream -> members, one after the other -> the tree (fstree), in memory
//	                                           -> root/        bytes as they come
//	                                           -> root.erofs   bytes as they come
//	end -> what a cell's root needs to be mounted on -> times of directories
//	    -> the image's inodes -> tree.json (fstree.List), whose SHA-256 is the digest
//
// It writes beneath one directory, which nobody else writes to, and nowhere
// else; it reads nothing but the stream. What is where is known from the tree
// in memory alone: no name is looked up on the disk to decide something. Each
// place on the disk is reached by openat2 with RESOLVE_BENEATH,
// RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS all the same, and what is made
// there is made new (O_EXCL).
//
// # What becomes of a member
//
//   - Names: fstree.Clean. Absolute names and ".." are refused.
//   - Files and directories: one owner, modes 0644, 0755 where one of the
//     execute bits is set, and 0755 for directories. The bits for set-user-ID,
//     set-group-ID and sticky on a file are dropped and counted.
//   - Symbolic links are data. A member below one is refused.
//   - Hard links must name a file or symbolic link of the stream's earlier
//     members, and become links.
//   - Devices, FIFOs and whatever else are dropped and counted, extended
//     attributes too.
//   - A later member takes the place of an earlier one of the same name, with
//     all that was below it; a directory that is there stays.
//   - Directories that the stream does not have are made.
//   - Times of modification are kept (Python compares them), moved into 1970
//     to 9999.
//
// The stream must be one whole archive (ustar, PAX, GNU), with its end mark and
// only zeros after it.
//
// # Checked by another process
//
// One that was taken over by its stream could leave another tree than its
// listing says. So another process, which has seen no stream, reads what it left
// (Check), and says what trees stand there.
//
// # System calls
//
// Besides what the Go runtime needs: openat (the staging directory), read (the
// stream), openat2, mkdirat, write, pwrite64, close, fchmod, fchmodat, utimensat,
// symlinkat, linkat, unlinkat; for Check newfstatat, getdents64, readlinkat,
// pread64. It has at most six descriptors of its own open, starts nothing, and has
// no use for a network, /proc or the environment. It syncs nothing: who keeps a
// tree does.
package unpack
