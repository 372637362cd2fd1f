package launcher

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// statusFD is init's end of its conversation with us.
const statusFD = 3

// insideID is the uid and gid of the code as it sees itself.
const insideID = 1000

// newNamespaces are what clone makes; the network's exists before, the
// cgroup's is made after the cell's group is entered, the user's comes last.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// A plan is everything the compiled list of a cell depends on.
type plan struct {
	bounds   bounds
	joins    int               // cgroup v1: how many files the child writes "0" into
	filter   []unix.SockFilter // system calls
	landlock int               // ABI; 0: none
	lastCap  int               // number of the kernel's last capability
}

// bounds are what the list has of a spec. What the cells of one spec do not have
// in common is in parts.
type bounds struct {
	fileSize, openFiles, pids int64
	network                   bool
}

func boundsOf(s *wire.Spec) bounds {
	return bounds{fileSize: s.FileSize, openFiles: s.OpenFiles, pids: s.Pids, network: len(s.Ports) > 0}
}

// parts are what the list is given for one cell.
type parts struct {
	id      int   // uid and gid on the host
	join    []int // cgroup v1: files into which the child writes "0"
	netns   int   // the network namespace
	scratch int   // the detached tmpfs
	status  int   // init's end of the conversation with us
}

// Registers of the list. The last ones are the groups' files.
const (
	regFile vfork.Reg = iota + 1
	regRules
	regID
	regMapSize
	regNetns
	regScratch
	regStatus
	regJoin
)

// A compiled list starts cells of one plan, one after another.
type compiled struct {
	bounds  bounds
	list    *vfork.Program
	mapping *[64]byte // the text of uid_map and gid_map
}

// compile makes the list of system calls that turn a bare child into the
// cell's init. The order matters, and each entry says what for.
func (p *plan) compile() *compiled {
	c := &compiled{bounds: p.bounds, list: vfork.New(), mapping: new([64]byte)}
	l := c.list
	p.enterGroup(l)
	p.mounts(l)
	p.descriptors(l)
	p.limits(l)
	p.identity(l, c.mapping)
	p.confine(l)
	l.Exec(template.InitPath, []string{"callcell-init"}, nil)
	return c
}

// start starts a cell's init on the calling thread; into is -1 or the group's
// directory, where the kernel puts the child into it.
func (c *compiled) start(p parts, into int) (pid, pidfd int, err error) {
	size := copy(c.mapping[:], strconv.Itoa(insideID)+" "+strconv.Itoa(p.id)+" 1")
	c.list.Set(regID, p.id)
	c.list.Set(regMapSize, size)
	c.list.Set(regNetns, p.netns)
	c.list.Set(regScratch, p.scratch)
	c.list.Set(regStatus, p.status)
	for i, fd := range p.join {
		c.list.Set(regJoin+vfork.Reg(i), fd)
	}
	return c.list.Start(newNamespaces, into)
}

func (p *plan) enterGroup(l *vfork.Program) {
	for i := range p.joins {
		l.Call("enter the cell's group", unix.SYS_WRITE, []vfork.Arg{nil, "0", 1}, vfork.From(0, regJoin+vfork.Reg(i)),
			vfork.Why("from here on, what is used is counted and bounded; first, so that nothing escapes it"))
	}
	l.Call("unshare cgroup namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWCGROUP},
		vfork.Why("the cell sees its own group as the root; after entering it, or it would see ours"))
	l.Call("enter network namespace", unix.SYS_SETNS, []vfork.Arg{nil, unix.CLONE_NEWNET}, vfork.From(0, regNetns),
		vfork.Why("made for this cell, loopback only; in the child, so that a failure cannot leave the launcher in it"))
}

func (p *plan) mounts(l *vfork.Program) {
	const procFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	l.Call("mount proc on /proc", unix.SYS_MOUNT, []vfork.Arg{"proc", "/proc", "proc", procFlags, "subset=pid,hidepid=invisible"},
		vfork.Why("processes of this cell alone; no /proc/sys, no kernel state"))
	l.Call("attach scratch", unix.SYS_MOVE_MOUNT, []vfork.Arg{nil, "", unix.AT_FDCWD, template.ScratchPoint, unix.MOVE_MOUNT_F_EMPTY_PATH}, vfork.From(0, regScratch),
		vfork.Why("the one writable place; the launcher keeps it by descriptor"))
	for _, part := range template.Parts() {
		l.Call("bind "+part.Target, unix.SYS_MOUNT, []vfork.Arg{template.ScratchPoint + "/" + part.Dir, part.Target, 0, unix.MS_BIND, 0},
			vfork.Why("its parts share one limit"))
	}
	if p.bounds.network {
		for _, c := range template.Covers() {
			l.Call("cover "+c.Target, unix.SYS_MOUNT, []vfork.Arg{c.Source, c.Target, 0, unix.MS_BIND, 0},
				vfork.Why("names are asked for at the cell's own loopback, where a socket of ours is"))
		}
	}
	l.Call("set host name", unix.SYS_SETHOSTNAME, []vfork.Arg{"cell", 4}, vfork.Why("not the host's"))
}

func (p *plan) descriptors(l *vfork.Program) {
	l.Call("descriptor 3", unix.SYS_DUP3, []vfork.Arg{nil, statusFD, 0}, vfork.From(0, regStatus),
		vfork.Why("our conversation with init, by which the program's streams and the payload come; for init alone"))
	l.Call("close those below", unix.SYS_CLOSE_RANGE, []vfork.Arg{0, statusFD - 1, 0}, vfork.Why("the program's own streams take these numbers"))
	l.Call("close all others", unix.SYS_CLOSE_RANGE, []vfork.Arg{statusFD + 1, uint64(1<<31 - 1), 0},
		vfork.Why("nothing of the host's stays open"))
	l.Call("new session", unix.SYS_SETSID, nil, vfork.Why("no controlling terminal, nobody else's signals"))
	l.Call("umask", unix.SYS_UMASK, []vfork.Arg{0o022}, vfork.Why("the same everywhere"))
}

func (p *plan) limits(l *vfork.Program) {
	for _, r := range []struct {
		name  string
		which int
		value int64
		why   string
	}{
		{"core", unix.RLIMIT_CORE, withinHard(unix.RLIMIT_CORE, 1), "no dumps: with 0 the kernel would still hand one to the host's handler"},
		{"file size", unix.RLIMIT_FSIZE, p.bounds.fileSize, "resources.fileSize"},
		{"open files", unix.RLIMIT_NOFILE, p.bounds.openFiles, "resources.openFiles"},
		{"processes", unix.RLIMIT_NPROC, 2*p.bounds.pids + 16, "behind the group's own limit, which counts its hits; the uid is this cell's alone"},
		{"locked memory", unix.RLIMIT_MEMLOCK, withinHard(unix.RLIMIT_MEMLOCK, 64<<10), "small"},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0, "kernel memory that no group counts"},
		{"pending signals", unix.RLIMIT_SIGPENDING, withinHard(unix.RLIMIT_SIGPENDING, 1024), "kernel memory"},
		{"real-time priority", unix.RLIMIT_RTPRIO, 0, "none"},
		{"nice", unix.RLIMIT_NICE, 0, "not above others"},
		{"stack", unix.RLIMIT_STACK, withinHard(unix.RLIMIT_STACK, 8<<20), "the usual; memory is counted in the group"},
	} {
		v := &unix.Rlimit{Cur: uint64(r.value), Max: uint64(r.value)}
		l.Call("limit "+r.name, unix.SYS_PRLIMIT64, []vfork.Arg{0, r.which, vfork.Ptr{P: unsafe.Pointer(v)}, 0}, vfork.Why(r.why))
	}
}

// identity gives up the host's root and enters the cell's own user namespace.
//
// The child shares our memory, so a change of credentials in another child
// clears "dumpable" for this one too, and /proc/self then belongs to root: the
// file-system uid stays 0 until the maps are written.
func (p *plan) identity(l *vfork.Program, mapping *[64]byte) {
	const keep = ^uintptr(0)
	l.Call("drop groups", unix.SYS_SETGROUPS, []vfork.Arg{0, 0}, vfork.Why("none of the host's"))
	l.Call("set gid", unix.SYS_SETRESGID, []vfork.Arg{nil, nil, nil}, vfork.From(0, regID), vfork.From(1, regID), vfork.From(2, regID),
		vfork.Why("of this cell alone"))
	l.Call("set uid", unix.SYS_SETRESUID, []vfork.Arg{nil, nil, keep}, vfork.From(0, regID), vfork.From(1, regID),
		vfork.Why("of this cell alone; the saved one goes below"))
	l.Call("keep file-system uid", unix.SYS_SETFSUID, []vfork.Arg{0}, vfork.Why("until the maps are written"))
	l.Call("unshare user namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWUSER},
		vfork.Why("last of the namespaces: it owns none of them, so no capability in it counts for any"))
	for _, name := range []string{"setgroups", "uid_map", "gid_map"} {
		l.Call("open "+name, unix.SYS_OPENAT, []vfork.Arg{unix.AT_FDCWD, "/proc/self/" + name, unix.O_WRONLY | unix.O_CLOEXEC, 0}, vfork.To(regFile),
			vfork.Why("to be written"))
		if name == "setgroups" {
			l.Call("write "+name, unix.SYS_WRITE, []vfork.Arg{nil, "deny", 4}, vfork.From(0, regFile), vfork.Why("one id, no other"))
		} else {
			l.Call("write "+name, unix.SYS_WRITE, []vfork.Arg{nil, vfork.Ptr{P: unsafe.Pointer(mapping)}, nil}, vfork.From(0, regFile), vfork.From(2, regMapSize),
				vfork.Why("one id, no other"))
		}
		l.Call("close "+name, unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regFile), vfork.Why("it is written"))
	}
	l.Call("set gid inside", unix.SYS_SETRESGID, []vfork.Arg{insideID, insideID, insideID}, vfork.Why("the one that the map has"))
	l.Call("set uid inside", unix.SYS_SETRESUID, []vfork.Arg{insideID, insideID, insideID}, vfork.Why("the saved root is gone"))
	for c := 0; c <= p.lastCap; c++ {
		l.Call("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.SYS_PRCTL, []vfork.Arg{unix.PR_CAPBSET_DROP, c, 0, 0, 0},
			vfork.Why("full again after the unshare; nothing can ever be gained"))
	}
}

func (p *plan) confine(l *vfork.Program) {
	l.Call("no new privileges", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}, vfork.Why("set-uid programs gain nothing"))
	l.Call("die with the launcher", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0},
		vfork.Why("beside the reaper; after the last change of credentials, which would clear it"))
	l.Call("enter "+template.Work, unix.SYS_CHDIR, []vfork.Arg{template.Work}, vfork.Why("working directory"))
	if p.landlock > 0 {
		p.landlockRules(l)
	}
	if len(p.filter) == 0 {
		panic("launcher: no system-call filter")
	}
	prog := &unix.SockFprog{Len: uint16(len(p.filter)), Filter: &p.filter[0]}
	l.Pin(unsafe.Pointer(&p.filter[0]))
	l.Call("filter system calls", unix.SYS_SECCOMP, []vfork.Arg{unix.SECCOMP_SET_MODE_FILTER, 0, vfork.Ptr{P: unsafe.Pointer(prog)}},
		vfork.Why("the last step but the exec: from here on only what the filter allows"))
}
