package launcher

import (
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
)

// wordsSize is how much a process of ours can say on its stderr, in bytes.
const wordsSize = 4 << 10

// A jail is what the processes of ours have in common that are no cells: the
// egress process and the unpacker.
type jail struct {
	id       int    // uid and gid
	join     []int  // cgroup v1: files into which the child writes "0"
	stdio    [5]int // stdin, stdout, stderr, the fourth, the binary
	filter   []unix.SockFilter
	landlock int
	lastCap  int
}

// A limit is one resource limit with its reason.
type limit struct {
	name  string
	which int
	value int64
	why   string
}

func (j *jail) enterGroup(l *vfork.Program) {
	for _, fd := range j.join {
		l.Call("enter the process's group", unix.SYS_WRITE, []vfork.Arg{fd, "0", 1},
			vfork.Why("from here on, what is used is counted and bounded; first, so that nothing escapes it"))
	}
	l.Call("unshare cgroup namespace", unix.SYS_UNSHARE, []vfork.Arg{unix.CLONE_NEWCGROUP}, vfork.Why("no group but its own is there; after entering it"))
}

// pivot makes what is mounted at the empty root the root.
func (j *jail) pivot(l *vfork.Program, why, name string) {
	l.Call("enter it", unix.SYS_CHDIR, []vfork.Arg{template.EmptyRoot}, vfork.Why("to make it the root"))
	l.Call("make it the root", unix.SYS_PIVOT_ROOT, []vfork.Arg{".", "."}, vfork.Why(why))
	l.Call("let go of the old root", unix.SYS_UMOUNT2, []vfork.Arg{".", unix.MNT_DETACH}, vfork.Why("it is under the new one"))
	l.Call("working directory", unix.SYS_CHDIR, []vfork.Arg{"/"}, vfork.Why("not the old one"))
	l.Call("set host name", unix.SYS_SETHOSTNAME, []vfork.Arg{name, len(name)}, vfork.Why("not the host's"))
}

// descriptors gives the process its own, each with its reason, and no other.
func (j *jail) descriptors(l *vfork.Program, why [4]string) {
	for i, fd := range j.stdio {
		flags, reason := unix.O_CLOEXEC, "the binary, until the exec"
		if i != seccomp.EgressBinary {
			flags, reason = 0, why[i]
		}
		l.Call(fmt.Sprintf("descriptor %d", i), unix.SYS_DUP3, []vfork.Arg{fd, i, flags}, vfork.Why(reason))
	}
	l.Call("close all others", unix.SYS_CLOSE_RANGE, []vfork.Arg{len(j.stdio), uint64(1<<31 - 1), 0}, vfork.Why("nothing of the host's stays open"))
	l.Call("new session", unix.SYS_SETSID, nil, vfork.Why("no controlling terminal, nobody else's signals"))
}

func (j *jail) limits(l *vfork.Program, limits []limit) {
	for _, r := range limits {
		v := &unix.Rlimit{Cur: uint64(r.value), Max: uint64(r.value)}
		l.Call("limit "+r.name, unix.SYS_PRLIMIT64, []vfork.Arg{0, r.which, vfork.Ptr{P: unsafe.Pointer(v)}, 0}, vfork.Why(r.why))
	}
}

// usualLimits are those that are the same for all.
func usualLimits() []limit {
	return []limit{
		{"locked memory", unix.RLIMIT_MEMLOCK, withinHard(unix.RLIMIT_MEMLOCK, 64<<10), "small"},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0, "kernel memory that no group counts"},
		{"pending signals", unix.RLIMIT_SIGPENDING, withinHard(unix.RLIMIT_SIGPENDING, 1024), "kernel memory"},
		{"real-time priority", unix.RLIMIT_RTPRIO, 0, "none"},
		{"nice", unix.RLIMIT_NICE, 0, "not above others"},
		{"stack", unix.RLIMIT_STACK, withinHard(unix.RLIMIT_STACK, 8<<20), "the usual"},
	}
}

// identity gives up the host's root for good.
func (j *jail) identity(l *vfork.Program) {
	for c := 0; c <= j.lastCap; c++ {
		l.Call("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.SYS_PRCTL, []vfork.Arg{unix.PR_CAPBSET_DROP, c, 0, 0, 0},
			vfork.Why("nothing can ever be gained; before the uid, with which the right to do it goes"))
	}
	l.Call("drop groups", unix.SYS_SETGROUPS, []vfork.Arg{0, 0}, vfork.Why("none of the host's"))
	l.Call("set gid", unix.SYS_SETRESGID, []vfork.Arg{j.id, j.id, j.id}, vfork.Why("of this process alone"))
	l.Call("set uid", unix.SYS_SETRESUID, []vfork.Arg{j.id, j.id, j.id}, vfork.Why("of this process alone; every capability goes with root"))
}

// confine is the end of the list but for the exec. rules appends those of
// Landlock, where the kernel has it.
func (j *jail) confine(l *vfork.Program, rules func(*vfork.Program), why string) {
	l.Call("no new privileges", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}, vfork.Why("an exec gains nothing"))
	l.Call("die with the launcher", unix.SYS_PRCTL, []vfork.Arg{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0},
		vfork.Why("beside the reaper; after the last change of credentials, which would clear it"))
	if j.landlock > 0 {
		rules(l)
	}
	if len(j.filter) == 0 {
		panic("launcher: no system-call filter")
	}
	prog := &unix.SockFprog{Len: uint16(len(j.filter)), Filter: &j.filter[0]}
	l.Pin(unsafe.Pointer(&j.filter[0]))
	l.Call("filter system calls", unix.SYS_SECCOMP, []vfork.Arg{unix.SECCOMP_SET_MODE_FILTER, 0, vfork.Ptr{P: unsafe.Pointer(prog)}},
		vfork.Why("the last step but the exec: from here on only what "+why))
}

// landlockRule appends the rule for what is open as fd.
func landlockRule(l *vfork.Program, set *ruleset, fd int32, access uint64, name, why string) {
	rule := newPathRule(access&set.fs, fd)
	l.Call("rule for "+name, unix.SYS_LANDLOCK_ADD_RULE, []vfork.Arg{nil, unix.LANDLOCK_RULE_PATH_BENEATH, vfork.Ptr{P: unsafe.Pointer(rule)}, 0},
		vfork.From(0, regRules), vfork.Why(why))
}

// landlocked appends what holds a set of rights back but for its rules.
func landlocked(l *vfork.Program, set *ruleset, size int, why string, rules func()) {
	l.Call("landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, []vfork.Arg{vfork.Ptr{P: unsafe.Pointer(set)}, size, 0}, vfork.To(regRules), vfork.Why(why))
	rules()
	l.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, []vfork.Arg{nil, 0}, vfork.From(0, regRules), vfork.Why("from here on, for good"))
	l.Call("close rules", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regRules), vfork.Why("they hold"))
}

// goEnviron is what the Go runtime is told of a process's ceilings: in a jail it
// cannot look for the group's itself.
func goEnviron(cpu, memory int64) []string {
	return []string{
		"GOMAXPROCS=" + strconv.FormatInt((cpu+999)/1000, 10),
		"GOMEMLIMIT=" + strconv.FormatInt(memory/4*3, 10),
	}
}
