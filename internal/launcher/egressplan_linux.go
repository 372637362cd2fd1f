package launcher

import (
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
)

// wordsSize is how much the egress process can say on its stderr, in bytes.
const wordsSize = 4 << 10

// An egressPlan is everything the compiled list of the egress process depends
// on.
type egressPlan struct {
	limits   conf.Egress // as they are on this host
	id       int         // uid and gid
	join     []int       // cgroup v1: files into which the child writes "0"
	stdio    [5]int      // stdin stdout stderr control binary
	filter   []unix.SockFilter
	landlock int
	lastCap  int
}

// compile makes the list of system calls that turn a bare child into the
// egress process. It stays in the network namespace that it comes from: the
// host's.
func (p *egressPlan) compile() *vfork.Program {
	l := vfork.New()
	for _, fd := range p.join {
		l.Call("enter the process's group", unix.SYS_WRITE, []vfork.Arg{fd, "0", 1},
			vfork.Why("from here on, what is used is counted and bounded; first, so that nothing escapes it"))
	}
	l.Call("unshare cgroup namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWCGROUP}, vfork.Why("no group but its own is there; after entering it"))
	p.root(l)
	p.descriptors(l)
	for _, r := range p.rlimits() {
		v := &unix.Rlimit{Cur: uint64(r.value), Max: uint64(r.value)}
		l.Call("limit "+r.name, unix.SYS_PRLIMIT64, []vfork.Arg{0, r.which, vfork.Ptr{P: unsafe.Pointer(v)}, 0}, vfork.Why(r.why))
	}
	p.identity(l)
	p.confine(l)
	l.ExecFD(seccomp.EgressBinary, "callcell-egress", []string{"callcell-egress"}, p.environ())
	return l
}

// root leaves the process an empty directory and no way to another.
func (p *egressPlan) root(l *vfork.Program) {
	const bare = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	l.Call("mount the empty root", unix.SYS_MOUNT, []vfork.Arg{template.EmptyRoot, template.EmptyRoot, 0, unix.MS_BIND, 0}, vfork.Why("a root has to be a mount"))
	l.Call("make it bare", unix.SYS_MOUNT, []vfork.Arg{0, template.EmptyRoot, 0, bare, 0}, vfork.Why("read-only, nothing in it is executed"))
	l.Call("enter it", unix.SYS_CHDIR, []vfork.Arg{template.EmptyRoot}, vfork.Why("to make it the root"))
	l.Call("make it the root", unix.SYS_PIVOT_ROOT, []vfork.Arg{".", "."}, vfork.Why("the process can open no file: there is none"))
	l.Call("let go of the old root", unix.SYS_UMOUNT2, []vfork.Arg{".", unix.MNT_DETACH}, vfork.Why("it is under the new one"))
	l.Call("working directory", unix.SYS_CHDIR, []vfork.Arg{"/"}, vfork.Why("not the old one"))
	l.Call("set host name", unix.SYS_SETHOSTNAME, []vfork.Arg{"egress", 6}, vfork.Why("not the host's"))
}

func (p *egressPlan) descriptors(l *vfork.Program) {
	for i, fd := range p.stdio {
		flags := 0
		if i == seccomp.EgressBinary {
			flags = unix.O_CLOEXEC
		}
		l.Call(fmt.Sprintf("descriptor %d", i), unix.SYS_DUP3, []vfork.Arg{fd, i, flags}, vfork.Why([]string{
			"stdin: the null device", "stdout: the null device", "stderr: a page of memory, read when the process has ended; writing never waits",
			"the control conversation", "the binary, until the exec"}[i]))
	}
	l.Call("close all others", unix.SYS_CLOSE_RANGE, []vfork.Arg{len(p.stdio), uint64(1<<31 - 1), 0}, vfork.Why("nothing of the host's stays open"))
	l.Call("new session", unix.SYS_SETSID, nil, vfork.Why("no controlling terminal, nobody else's signals"))
	l.Call("umask", unix.SYS_UMASK, []vfork.Arg{0o077}, vfork.Why("it makes no file"))
}

// A limit is one resource limit with its reason.
type limit struct {
	name  string
	which int
	value int64
	why   string
}

func (p *egressPlan) rlimits() []limit {
	return []limit{
		{"core", unix.RLIMIT_CORE, withinHard(unix.RLIMIT_CORE, 1), "no picture of its memory, which may have keys in it: with 0 the kernel would still hand one to the host's handler"},
		{"file size", unix.RLIMIT_FSIZE, 2 * wordsSize, "it writes no file; the page of its stderr is held to its size by a seal"},
		{"open files", unix.RLIMIT_NOFILE, p.limits.OpenFiles, "egress.openFiles, or this host's hard limit"},
		{"processes", unix.RLIMIT_NPROC, 2*p.limits.Pids + 16, "behind the group's own limit; the uid is this process's alone"},
		{"locked memory", unix.RLIMIT_MEMLOCK, withinHard(unix.RLIMIT_MEMLOCK, 64<<10), "small"},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0, "kernel memory that no group counts"},
		{"pending signals", unix.RLIMIT_SIGPENDING, withinHard(unix.RLIMIT_SIGPENDING, 1024), "kernel memory"},
		{"real-time priority", unix.RLIMIT_RTPRIO, 0, "none"},
		{"nice", unix.RLIMIT_NICE, 0, "not above others"},
		{"stack", unix.RLIMIT_STACK, withinHard(unix.RLIMIT_STACK, 8<<20), "the usual"},
	}
}

// identity gives up the host's root for good.
func (p *egressPlan) identity(l *vfork.Program) {
	for c := 0; c <= p.lastCap; c++ {
		l.Call("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.SYS_PRCTL, []vfork.Arg{unix.PR_CAPBSET_DROP, c, 0, 0, 0},
			vfork.Why("nothing can ever be gained; before the uid, with which the right to do it goes"))
	}
	l.Call("drop groups", unix.SYS_SETGROUPS, []vfork.Arg{0, 0}, vfork.Why("none of the host's"))
	l.Call("set gid", unix.SYS_SETRESGID, []vfork.Arg{p.id, p.id, p.id}, vfork.Why("of this process alone"))
	l.Call("set uid", unix.SYS_SETRESUID, []vfork.Arg{p.id, p.id, p.id}, vfork.Why("of this process alone; every capability goes with root"))
}

func (p *egressPlan) confine(l *vfork.Program) {
	l.Call("no new privileges", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}, vfork.Why("an exec gains nothing"))
	l.Call("die with the launcher", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0},
		vfork.Why("beside the reaper; after the last change of credentials, which would clear it"))
	if p.landlock > 0 {
		p.landlockRules(l)
	}
	if len(p.filter) == 0 {
		panic("launcher: no system-call filter")
	}
	prog := &unix.SockFprog{Len: uint16(len(p.filter)), Filter: &p.filter[0]}
	l.Pin(unsafe.Pointer(&p.filter[0]))
	l.Call("filter system calls", unix.SYS_SECCOMP, []vfork.Arg{unix.SECCOMP_SET_MODE_FILTER, 0, vfork.Ptr{P: unsafe.Pointer(prog)}},
		vfork.Why("the last step but the exec: from here on only what a Go program needs that makes connections"))
}

// landlockRules appends a second wall behind the empty root: the binary, to be
// executed, and nothing else.
func (p *egressPlan) landlockRules(l *vfork.Program) {
	set, size := newRuleset(p.landlock)
	if p.landlock >= 4 {
		set.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
		size = max(size, 16)
	}
	l.Call("landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, []vfork.Arg{vfork.Ptr{P: unsafe.Pointer(set)}, size, 0},
		vfork.To(regRules), vfork.Why("a second wall behind the empty root; no port of the host's either"))
	rule := newPathRule((unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE)&set.fs, seccomp.EgressBinary)
	l.Call("rule for the binary", unix.SYS_LANDLOCK_ADD_RULE, []vfork.Arg{nil, unix.LANDLOCK_RULE_PATH_BENEATH, vfork.Ptr{P: unsafe.Pointer(rule)}, 0},
		vfork.From(0, regRules), vfork.Why("the exec needs it; no path leads there"))
	l.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, []vfork.Arg{nil, 0}, vfork.From(0, regRules), vfork.Why("from here on, for good"))
	l.Call("close rules", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regRules), vfork.Why("they hold"))
}

// environ is what the Go runtime is told: with an empty root it cannot look for
// the group's ceilings itself.
func (p *egressPlan) environ() []string {
	return []string{
		"GOMAXPROCS=" + strconv.FormatInt((p.limits.CPU+999)/1000, 10),
		"GOMEMLIMIT=" + strconv.FormatInt(p.limits.Memory/4*3, 10),
	}
}
