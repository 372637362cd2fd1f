// Package template builds the mount namespace that every container cell
// starts from: a root that is a few files of our own and read-only views of a
// slice of this host.
//
// It is built once, on a thread that then stays in it; each cell is a clone
// of that namespace, with a process list, a scratch space and nothing else
// added. Host paths are named here and nowhere else, in tables that carry
// their reasons and can be printed (Slice, Files).
//
//	/            tmpfs, read-only, nodev
//	/usr ...     the slice: read-only, nosuid, nodev
//	/etc         files of our own, and what of the host's is public
//	/dev         tmpfs, read-only, noexec: null zero full random urandom
//	/proc        mount point; each cell mounts its own
//	/.callcell/scratch    mount point; where a cell attaches its scratch
//	/work /tmp /dev/shm /run   mount points of the four parts of the scratch
//	/.callcell/init       the cell's PID 1, execute-only
//	/.callcell/net        what covers /etc/resolv.conf and /etc/nsswitch.conf
//	                      in a cell with a network
//	/.callcell/empty      the root of the egress process, and of the unpacker
//
// The root of a tree (Lay) is the same but for the slice and /etc: the entries of
// the tree's directory stand there, read-only, nosuid, nodev, each attached by
// itself, with six files of ours over those of its /etc. What is added to it is
// at /opt/callcell, in the slice's root too, and mounts are where they are asked
// for. A tree is hostile data: it is read in the host's mount namespace beneath a
// descriptor, no link of it is followed, and nothing of it is executed.
package template
