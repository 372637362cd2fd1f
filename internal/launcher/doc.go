// Package launcher is the privileged process that builds container cells. It
// knows nothing worth stealing: no keys, no policy, no names of hosts. The
// front can ask for a cell by numbers, start the one command in it, and fetch
// files out of it; it can name no path of the host, no uid, no flag and no
// system call.
//
// # The process
//
//	main       reads its own configuration, starts the reaper, serves the socket
//	template   one locked thread inside the cells' root (package template);
//	           every cell of this host's slice is cloned from it (package vfork)
//	grounds    such a thread for each root of trees and mounts, made at need,
//	           there as long as its cells, and a while longer
//	netns      one locked thread that makes network namespaces ahead
//	gate       a thread for each cell with a network, which goes into its
//	           namespace, opens the sockets there, and ends
//
// # One cell
//
//	open    uid lease, reaper's note, cgroup, scratch, network namespace; with
//	        a network, addresses and sockets there, which go to the front
//	start   the compiled list (plan) runs in a vfork child and execs init;
//	        init unpacks the payload and starts the program
//	end     init reports the wait status; clocks, group counters and the
//	        scratch are read by us
//	stop    PID 1 is killed, and with it the kernel kills the namespace
//	get     regular files, beneath the scratch's descriptor
//	close   everything above in reverse, each looked for: the report
//
// # The egress process
//
// One process makes the connections that cells may have. It is built as a cell
// is, by a list of its own (egressPlan): in the host's network, with an empty
// directory for a root, a uid and a group of its own, and a filter that leaves
// it sockets and memory. It has a slot, and ends by what ends a cell.
//
// # The unpacker, and the store
//
// Roots for cells come as tar streams that strangers wrote. A process makes a
// tree of one (unpackPlan), built like the egress process, without any network,
// in a directory of the store (package images) that is its own for the while
// and all that it sees. What it left is looked at entry by entry before it is
// root's and in the store. A cell names trees by digest, and directories of this
// host by names of launcher.conf: there is no message with a path of the host.
//
// Three things end any of them, and none hangs on another: the launcher; the reaper,
// when launcher or front is gone; the parent-death signal of PID 1, which the
// code inside cannot reach.
//
// # What launchers share
//
// A uid is leased by a lock in one file of the host, and the group of a cell has
// the uid for a name: by the two, a launcher that starts removes what the dead left
// and nothing else, whatever its configuration. Those that do not see each other's
// leases, as from a container, share no parent of groups: it is claimed
// (cgroup.Tree.Claim).
package launcher
