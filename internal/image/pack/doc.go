// Package pack makes one tar stream of a directory: what it has is a function
// of names, types, contents, execute bits and times (to the second, rounded
// down: Python compares them so) alone. Members come depth first, names in the
// order of their bytes; all have one owner; files have mode 0644 or 0755;
// what is neither a file, a directory nor a symbolic link is left out and
// counted, and so is what is mounted somewhere below the directory, of which
// the mount point stays as an empty directory.
//
// No link is followed: every directory is opened from the one above it. What
// changes while it is read is an error (fstree.KindChanged), and a stream that
// ends in an error has no end mark, so that nobody takes it for a whole one.
package pack
