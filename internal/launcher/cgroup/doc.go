// Package cgroup is the launcher's seam over control groups: one group for a
// cell, with its ceilings, whatever version of cgroups the host has.
//
// Version 2, one hierarchy:
//
//	/sys/fs/cgroup                 root      cgroup.subtree_control: cpu memory pids
//	└── callcell                   parent    cgroup.subtree_control: cpu memory pids; holds no process
//	    └── <name>                 group     memory.max memory.swap.max memory.oom.group pids.max cpu.max
//
// A process is born in the group: clone3 with CLONE_INTO_CGROUP and the
// group's directory descriptor.
//
// Version 1 (and hybrid, where version 2 is mounted beside it without these
// controllers), a hierarchy for each mount:
//
//	/sys/fs/cgroup/memory/callcell/<name>    memory.limit_in_bytes memory.memsw.limit_in_bytes
//	                                         memory.swappiness; OOM eventfd
//	/sys/fs/cgroup/pids/callcell/<name>      pids.max
//	/sys/fs/cgroup/cpu/callcell/<name>       cpu.cfs_period_us cpu.cfs_quota_us
//	/sys/fs/cgroup/cpuacct/callcell/<name>   counters only; there if the host has it
//
// A process of one thread enters by writing "0" into the open tasks of each.
//
// Groups are leaves: a cell has no cgroupfs and cannot make groups below its
// own. They are siblings under the parent, not under the launcher's own group,
// so what bounds the launcher does not bound its cells; an operator who wants
// that names a parent inside the subtree that was delegated to it.
//
// # Descriptors
//
// Every path is walked once, in [Open]. From then on all work goes through
// directory descriptors, so a thread that has moved into another root or mount
// namespace can still make, read, kill and remove groups. All descriptors are
// close-on-exec. Those handed out (by [Group.Join], [Group.OOM], [Group.Dirs])
// are lent: their owner closes them, the Group in [Group.Close], the Tree in
// [Tree.Close].
//
// # The life of a group
//
//	Make -> (child joins) -> Usage ... -> Kill -> Usage -> Remove -> Close
//	                                        \____ Sweep: for those of dead instances
//
// Nothing here trusts that a write took: each limit is read back, and a
// controller that cannot be enforced is an error, never a missing ceiling.
package cgroup
