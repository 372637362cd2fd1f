package launcher

import (
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/vfork"
)

// sentryID is the uid and gid of a sentry as it sees itself: no root, not even
// in a namespace of its own.
const sentryID = 65534

// A sentryPlan is everything the compiled list of a sentry depends on.
type sentryPlan struct {
	id      int            // uid and gid on the host
	join    []int          // cgroup v1: files into which the child writes "0"
	netns   int            // the network namespace
	fds     [sentryFDs]int // what the descriptors are made of; none below sentryFDs
	args    []string       // with the name of the program
	pids    int64          // processes of the uid
	lastCap int            // number of the kernel's last capability
	mapping *[64]byte      // the text of uid_map and gid_map
	size    int            // of the mapping
}

// compile makes the list of system calls that turn a bare child into a sentry.
// It comes from a thread whose root is the sentry's already.
func (p *sentryPlan) compile() *vfork.Program {
	p.mapping = new([64]byte)
	p.size = copy(p.mapping[:], strconv.Itoa(sentryID)+" "+strconv.Itoa(p.id)+" 1")
	l := vfork.New()
	for _, fd := range p.join {
		l.Call("enter the cell's group", unix.SYS_WRITE, []vfork.Arg{fd, "0", 1},
			vfork.Why("from here on, what is used is counted and bounded, the kernel of the cell too; first, so that nothing escapes it"))
	}
	l.Call("unshare cgroup namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWCGROUP}, vfork.Why("no group but its own is there; after entering it"))
	l.Call("enter network namespace", unix.SYS_SETNS, []vfork.Arg{p.netns, unix.CLONE_NEWNET},
		vfork.Why("made for this cell; the programs in it have the network of their own kernel, unless launcher.conf says runsc.network = host"))
	l.Call("set host name", unix.SYS_SETHOSTNAME, []vfork.Arg{"sentry", 6}, vfork.Why("not the host's"))
	p.descriptors(l)
	for _, r := range p.rlimits() {
		v := &unix.Rlimit{Cur: uint64(r.value), Max: uint64(r.value)}
		l.Call("limit "+r.name, unix.SYS_PRLIMIT64, []vfork.Arg{0, r.which, vfork.Ptr{P: unsafe.Pointer(v)}, 0}, vfork.Why(r.why))
	}
	p.identity(l)
	l.Call("no new privileges", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}, vfork.Why("an exec gains nothing"))
	l.Call("die with the launcher", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0},
		vfork.Why("beside the reaper; after the last change of credentials, which would clear it"))
	l.ExecFD(sentryBinary, "callcell-runsc", p.args, nil)
	return l
}

func (p *sentryPlan) descriptors(l *vfork.Program) {
	why := [sentryFDs]string{
		"stdin: the null device", "stdout: the null device", "stderr: a page of memory, where the last words of a dying sentry go",
		"config.json, made by the launcher", "where it reports: started, exit, failed", "the image of the root", "the channel, for the guest",
		"the guest's stdin: the null device", "its stdout", "its stderr", "the guest's binary", "the added image, where there is one",
		"the binary, until the exec",
	}
	for i, fd := range p.fds {
		flags := 0
		if i == sentryBinary {
			flags = unix.O_CLOEXEC
		}
		if fd < 0 {
			l.Call(fmt.Sprintf("close %d", i), unix.SYS_CLOSE_RANGE, []vfork.Arg{i, i, 0}, vfork.Why("no added image"))
			continue
		}
		l.Call(fmt.Sprintf("descriptor %d", i), unix.SYS_DUP3, []vfork.Arg{fd, i, flags}, vfork.Why(why[i]))
	}
	l.Call("close all others", unix.SYS_CLOSE_RANGE, []vfork.Arg{int(sentryFDs), uint64(1<<31 - 1), 0}, vfork.Why("nothing of the host's stays open"))
	l.Call("grow the table", unix.SYS_FCNTL, []vfork.Arg{0, unix.F_DUPFD_CLOEXEC, sentryTable}, vfork.To(regFile), vfork.Ignore(),
		vfork.Why("while there is one thread: with many, the kernel would wait for every CPU"))
	l.Call("close it", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regFile), vfork.Ignore(), vfork.Why("the table stays large"))
	l.Call("new session", unix.SYS_SETSID, nil, vfork.Why("no controlling terminal, nobody else's signals"))
	l.Call("umask", unix.SYS_UMASK, []vfork.Arg{0o077}, vfork.Why("it makes no file"))
}

// sentryTable is a number of a descriptor beyond which a sentry has none before
// its programs do much.
const sentryTable = 256

// rlimits has no limit of file size or address space: a sentry's memory is one
// file of many GiB, of which the group counts what is used.
func (p *sentryPlan) rlimits() []limit {
	return []limit{
		{"core", unix.RLIMIT_CORE, withinHard(unix.RLIMIT_CORE, 1), "no picture of its memory: with 0 the kernel would still hand one to the host's handler"},
		{"open files", unix.RLIMIT_NOFILE, min(hardNoFile(), 1<<16), "those of the sentry: the programs' are counted in it"},
		{"processes", unix.RLIMIT_NPROC, p.pids, "what the call asked for, and those of the sentry; the uid is this cell's alone"},
		{"locked memory", unix.RLIMIT_MEMLOCK, withinHard(unix.RLIMIT_MEMLOCK, 64<<10), "small"},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0, "kernel memory that no group counts"},
		{"real-time priority", unix.RLIMIT_RTPRIO, 0, "none"},
		{"nice", unix.RLIMIT_NICE, 0, "not above others"},
		{"stack", unix.RLIMIT_STACK, withinHard(unix.RLIMIT_STACK, 8<<20), "the usual"},
	}
}

// identity gives up the host's root and enters a user namespace in which there
// is no root. See plan.identity for the file-system uid.
func (p *sentryPlan) identity(l *vfork.Program) {
	const keep = ^uintptr(0)
	const procFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	l.Call("drop groups", unix.SYS_SETGROUPS, []vfork.Arg{0, 0}, vfork.Why("none of the host's"))
	l.Call("mount proc over the texts", unix.SYS_MOUNT, []vfork.Arg{"proc", "/proc", "proc", procFlags, "subset=pid,hidepid=invisible"},
		vfork.Why("for the maps of the user namespace, and gone with them"))
	l.Call("open proc", unix.SYS_OPENAT, []vfork.Arg{unix.AT_FDCWD, "/proc", unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, 0}, vfork.To(regRules), vfork.Why("by descriptor alone"))
	l.Call("unmount proc", unix.SYS_UMOUNT2, []vfork.Arg{"/proc", unix.MNT_DETACH}, vfork.Why("the sentry has none"))
	l.Call("set gid", unix.SYS_SETRESGID, []vfork.Arg{p.id, p.id, p.id}, vfork.Why("of this cell alone"))
	l.Call("set uid", unix.SYS_SETRESUID, []vfork.Arg{p.id, p.id, keep}, vfork.Why("of this cell alone; the saved one goes below"))
	l.Call("keep file-system uid", unix.SYS_SETFSUID, []vfork.Arg{0}, vfork.Why("until the maps are written"))
	l.Call("unshare user namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWUSER},
		vfork.Why("last of the namespaces: it owns none of them, so no capability in it counts for any"))
	for _, name := range []string{"setgroups", "uid_map", "gid_map"} {
		l.Call("open "+name, unix.SYS_OPENAT, []vfork.Arg{nil, "self/" + name, unix.O_WRONLY | unix.O_CLOEXEC, 0}, vfork.From(0, regRules), vfork.To(regFile),
			vfork.Why("to be written"))
		if name == "setgroups" {
			l.Call("write "+name, unix.SYS_WRITE, []vfork.Arg{nil, "deny", 4}, vfork.From(0, regFile), vfork.Why("one id, no other"))
		} else {
			l.Call("write "+name, unix.SYS_WRITE, []vfork.Arg{nil, vfork.Ptr{P: unsafe.Pointer(p.mapping)}, p.size}, vfork.From(0, regFile), vfork.Why("one id, no other, and not root"))
		}
		l.Call("close "+name, unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regFile), vfork.Why("it is written"))
	}
	l.Call("close proc", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regRules), vfork.Why("its last holder"))
	l.Call("set gid inside", unix.SYS_SETRESGID, []vfork.Arg{sentryID, sentryID, sentryID}, vfork.Why("the one that the map has"))
	l.Call("set uid inside", unix.SYS_SETRESUID, []vfork.Arg{sentryID, sentryID, sentryID}, vfork.Why("the saved root is gone"))
	for c := 0; c <= p.lastCap; c++ {
		l.Call("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.SYS_PRCTL, []vfork.Arg{unix.PR_CAPBSET_DROP, c, 0, 0, 0},
			vfork.Why("full again after the unshare; nothing can ever be gained"))
	}
}
