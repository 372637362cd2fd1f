// Package conf is the launcher's own configuration. The launcher reads it
// itself at its start and takes nothing of it from the front: these are the
// bounds within which it believes a message.
//
// The file is /etc/callcell/launcher.conf, lines of KEY = VALUE. It is not
// YAML, because the privileged process parses as little as can be. Empty lines
// and lines that begin with # are skipped; there is no quoting, and a comment
// cannot follow a value. What is not in the file keeps its default:
//
//	uids.first = 1879048192        first uid of the range that cells get theirs from
//	uids.count = 8192              how many there are; at least as many as cells, and one for the egress process
//	cgroup.root = /sys/fs/cgroup   where control groups are mounted
//	cgroup.parent = callcell       the group below which all cells' groups are
//	run.dir = /run/callcell        where roots of cells are put together, each in a mount namespace of its own; belongs to the launcher alone
//	cells = 512                    cells at once
//	spares = 1                     cells that are kept ready, like the last two that were alike; with fewer uids than two for each cell there are none
//	ceiling.memory = 8Gi           what a front may ask for, at most, for one cell
//	ceiling.pids = 4096
//	ceiling.cpu = 64               CPUs, with at most three decimals
//	ceiling.scratch = 8Gi
//	ceiling.inodes = 1000000
//	ceiling.wall = 86400s          s, m or h
//	ceiling.openFiles = 65536
//	ceiling.fileSize = 8Gi
//	egress.path = callcell-egress  the process that makes connections for cells: a name beside the launcher, or a path
//	egress.memory = 256Mi          its own ceilings
//	egress.pids = 64               threads
//	egress.cpu = 2
//	egress.openFiles = 65536       where the hard limit of open files is lower, that
//	image.dir = /var/lib/callcell/images  roots for cells; belongs to the launcher alone, and is made where it is needed
//	image.path = callcell-image    the process that makes a root out of a tar stream: a name beside the launcher, or a path
//	image.memory = 512Mi           its own ceilings
//	image.pids = 64                threads
//	image.cpu = 2
//	image.wall = 600s              how long one root may take
//	image.bytes = 16Gi             what a front may ask for, at most, for one root
//	image.entries = 1000000        files, directories and links
//
// Two kinds of keys have a name in them, by which fronts know a directory that
// they cannot name: mount.models = /srv/models lets calls be given /srv/models,
// read-only, under the name models, and noexec.models = yes lets nothing in it
// be executed. There is no mount without such a line. The directory is not one
// of the system's (/, /boot, /dev, /etc, /proc, /root, /run, /sys, or the whole
// of /home, /usr, /var), not callcell's own, and no link is on the way to it.
// What is mounted below it is not seen.
//
// Cells with a kernel of their own (userkernel) are made with:
//
//	runsc.path = callcell-runsc    gVisor's runsc, built with callcell: a name beside the launcher, or a path
//	runsc.version = v0.0.0-20260905035102-160fafc42237   what it must be; another one is refused
//	runsc.guest = callcell-guest   the first process in such a cell
//	runsc.root = /var/lib/callcell/images/host.erofs     the image of this host's slice
//	runsc.memory = 96Mi            what the kernel may have beside what the call asked for
//	runsc.pids = 64                tasks of this host for the kernel of a cell, beside those of its processes
//	runsc.network = sandbox        where the sockets of a cell with a network are: in its own kernel, or (host) in this host's
//
// With runsc.network = host such a cell has a network namespace of its own, like
// a container cell, and its programs' sockets are this host's kernel's: faster,
// and no stronger than container. The level is then worth that: see
// docs/levels.md.
//
// The uid range is one that systemd's table of uids leaves unused, above those
// of people, services and containers. Whatever the file says, uids are leased in
// /run/callcell/uids: launchers of several configurations may share a parent, and
// ranges of theirs may overlap. A launcher that has another /run, as in a container,
// sees none of those leases. It wants a cgroup.parent of its own, and starts nothing
// below one where the others have theirs; give it a range of its own too. Sizes have a unit (B, Ki, Mi, Gi, Ti).
//
// A key that is not known or comes twice, a value out of its bounds, and a
// file that anybody but root and the running user can write are errors: the
// launcher then starts nothing.
package conf
