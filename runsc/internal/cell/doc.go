// Package cell is the command `runsc cell`: one gVisor sandbox, booted in the
// process that the command was started as. It starts no other process, asks
// for nothing by name, and needs no privilege: whoever starts it has put it
// into its place before the exec.
//
// # What the parent does before the exec
//
//	namespaces    user, mount, PID (this process is its PID 1), IPC, UTS, network
//	identity      not root, in the user namespace nor outside; no group
//	capabilities  none: effective, permitted, inheritable, ambient, bounding
//	root          a read-only file system, pivoted to, with nothing in it but
//	              the texts below. No procfs
//	privileges    no_new_privs; a session of its own
//	descriptors   0 and 1: /dev/null; 2: where the last words of a dying sentry
//	              go; the others as the flags say, and none besides
//	environment   empty
//
// The texts are what gVisor reads of the host while it boots. It asks for them
// by these names:
//
//	/proc/cpuinfo               the host's, for the clock rate
//	/proc/sys/vm/mmap_min_addr  the host's
//	/proc/self/maps             empty. Systrap looks into it when the address it
//	                            chose at random is taken, and tries another; it
//	                            finds out by trying whether that is free
//	/proc/self/auxv             AT_HWCAP and AT_HWCAP2 of any process, and AT_NULL
//
// Main refuses to go on where any of this is not so, as far as it can be seen
// from inside (confined.go): it does not mend it.
//
// # Descriptors
//
//	-spec-fd N         the bundle's config.json, seekable (a sealed memfd)
//	-io-fds N,...      the root's image (EROFS, opened read-only), and one for
//	                   each mount of the spec that has an entry in -mount-confs
//	-mount-confs C,... of the root, then of those mounts: erofs:none where the
//	                   descriptor is an image, lisafs:none where it is a gofer's
//	                   socket
//	-stdio-fds I,O,E   the program's. Pipes: gVisor keeps offsets of its own for
//	                   files
//	-pass-fd H:G,...   descriptor H here is descriptor G of the first process
//	-exec-fd N         the program of the first process, if it is none of the
//	                   root's files; its arguments are the spec's
//	-status-fd N       a pipe on which this process reports, a line each:
//	                     started        the first process runs
//	                     exit N         it has exited
//	                     signal N       a signal ended it
//	                     failed TEXT    it could not be started
//
// -memory is what the programs see as all there is; the parent's control group
// is what holds. -cpus is how many processors they see. -network=host gives
// them the sockets of the network namespace that the process is in; -loopback
// adds addresses to lo where the network is the sandbox's own, each with all of
// its prefix. -debug writes gVisor's log to descriptor 2.
//
// The exit status is 0 once an end was reported, 1 for a failure, 2 for wrong
// flags. Anything else, or no last line, means that the sentry itself died.
//
// # What differs from `runsc boot`
//
// The same packages boot the same kernel, with the same filters. But:
//
//   - the parent has done what the sandbox of stock runsc does to itself with
//     capabilities that it then drops: nothing here ever had one;
//   - the filter is the one that gVisor would compile, compiled when this
//     binary was built (package filters). A test holds the two together;
//   - nobody outside can talk to the control server: its socket is an abstract
//     one in a network namespace where nobody else is, and this process asks
//     it for the start itself (control.go);
//   - the trace points of gVisor's threat detection are not registered: no
//     session can be asked for (reach.go);
//   - the garbage collector is held back until there is something to collect,
//     and the scheduler has room for system calls that wait (tune.go);
//   - the memory that the Go heap of a boot takes in any case is asked for at
//     once (tune.go);
//   - of a bundle's config.json the part is read that a cell can have, and more
//     is refused (spec.go). A test holds it against gVisor's reader;
//   - systrap does not spin for the next system call while a program is new
//     (reach.go);
//   - at the end the process exits. Stock first takes its kernel apart, which
//     matters to files that a gofer writes; there are none.
package cell
