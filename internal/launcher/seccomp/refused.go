//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// refusal takes names out of the cell's reach, whatever moby's profile says
// of them. A name that the profile does not allow today is here so that a
// newer profile cannot let it in, or because EPERM is the wrong answer.
type refusal struct {
	action Action
	names  []string
	why    string
}

const (
	eperm  = Action(unix.SECCOMP_RET_ERRNO | unix.EPERM)
	enosys = Action(unix.SECCOMP_RET_ERRNO | unix.ENOSYS)
)

// refusals is read only. Everything else that moby allows was looked at and
// kept: what ordinary programs use, what only touches the caller itself, and
// what a program uses to lock itself in (seccomp, landlock, capset, mseal).
var refusals = []refusal{
	// Other processes of the cell, PID 1 among them.
	{eperm, []string{"ptrace", "process_vm_readv", "process_vm_writev"},
		"reads and changes other processes; a cell is one user, so that PID 1, which is ours, would be in reach"},
	{eperm, []string{"kcmp", "pidfd_getfd", "process_madvise"},
		"needs what ptrace needs: takes descriptors from, compares or changes another process"},
	{eperm, []string{"process_mrelease"},
		"for an out-of-memory killer in user space; no cell has one"},

	// Doors to much kernel code that a cell has no use for.
	{eperm, []string{"bpf", "perf_event_open", "userfaultfd"},
		"large, often broken kernel code, and the usual means to win a race in some other part of it"},
	{eperm, []string{"io_uring_setup", "io_uring_enter", "io_uring_register"},
		"runs operations that this filter never sees (sockets, opens); libraries fall back on EPERM, which kernel.io_uring_disabled answers too"},
	{enosys, []string{"io_setup", "io_submit", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents"},
		"old asynchronous I/O takes from fs.aio-max-nr, one number for the whole host that a single cell can use up; databases fall back on ENOSYS"},
	{eperm, []string{"add_key", "keyctl", "request_key"},
		"keyrings belong to a kernel user id, not to a namespace, and request_key starts programs on the host"},
	{enosys, []string{"vmsplice"},
		"maps a process's pages into a pipe without pinning them as its own: a forked cell could go on reading what its parent writes later; it is a fast path that programs do without"},
	{enosys, []string{"remap_file_pages"},
		"emulated since Linux 4.0 and by now used for little but attacks; mmap does the same"},
	{enosys, []string{"modify_ldt"},
		"only for 16-bit code; the answer is that of a kernel built without it"},
	{enosys, []string{"memfd_secret"},
		"its memory is charged to the cell, but each page is cut out of the host kernel's own mapping, which slows the host and stops its hibernation; memfd_create stays"},

	// Namespaces, mounts and roots.
	{eperm, []string{"unshare", "setns"},
		"a new user namespace gives the capabilities back that the cell dropped, and with them most of the kernel's attack surface"},
	{enosys, []string{"clone3"},
		"its flags lie in memory, which a filter cannot read; libraries fall back to clone on ENOSYS"},
	{eperm, []string{
		"mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig",
		"fspick", "mount_setattr", "pivot_root", "chroot"},
		"the launcher alone lays out what a cell sees"},
	{enosys, []string{"statmount", "listmount", "listns", "open_tree_attr"},
		"young calls that list or copy mounts and namespaces past the masks on /proc; libmount falls back on ENOSYS"},
	{eperm, []string{"name_to_handle_at", "open_by_handle_at"},
		"file handles name files past every path rule, and the kernel has begun to open them for the unprivileged"},
	{eperm, []string{"fanotify_init", "fanotify_mark"},
		"watches whole file systems, the host's too; inotify stays"},
	{enosys, []string{"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"},
		"describes and changes the confinement of the host's security modules; libraries fall back on ENOSYS"},

	// One thing for the whole host.
	{eperm, []string{"sync", "syncfs"},
		"writes back file systems of the host, which other cells wait for; fsync and fdatasync stay"},
	{enosys, []string{"cachestat"},
		"tells which parts of files shared with the host and other cells are in memory, which shows what they run"},
	{enosys, []string{"get_mempolicy", "set_mempolicy", "set_mempolicy_home_node", "mbind", "move_pages", "migrate_pages"},
		"places memory on the host's nodes, and shows where it is; the answer is that of a kernel without NUMA, which libnuma asks for"},
	{eperm, []string{"settimeofday", "clock_settime", "clock_adjtime", "adjtimex"},
		"sets the host's clock; for the last two, what is read or written lies in memory, which a filter cannot read"},
	{eperm, []string{"syslog", "acct", "quotactl", "quotactl_fd", "lookup_dcookie"},
		"the host's log and accounts"},
	{eperm, []string{"swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"},
		"changes or replaces the host's kernel"},
	{eperm, []string{"sethostname", "setdomainname", "nfsservctl"},
		"administration of the host or the cell; the launcher has set both names"},
	{eperm, []string{"iopl", "ioperm"},
		"reaches the host's hardware"},
	{eperm, []string{"vhangup"},
		"hangs up the terminal under whoever else uses it"},
}
