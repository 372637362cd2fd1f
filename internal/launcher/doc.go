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
//	           every cell is cloned from it (package vfork)
//	netns      one locked thread that makes network namespaces ahead
//
// # One cell
//
//	open    uid lease, reaper's note, cgroup, scratch, network namespace
//	start   the compiled list (plan) runs in a vfork child and execs init;
//	        init unpacks the payload and starts the program
//	end     init reports the wait status; clocks, group counters and the
//	        scratch are read by us
//	stop    PID 1 is killed, and with it the kernel kills the namespace
//	get     regular files, beneath the scratch's descriptor
//	close   everything above in reverse, each looked for: the report
//
// Three things end a cell, and none hangs on another: the launcher; the reaper,
// when launcher or front is gone; the parent-death signal of PID 1, which the
// code inside cannot reach.
package launcher
