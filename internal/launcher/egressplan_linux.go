package launcher

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
)

// An egressPlan is everything the compiled list of the egress process depends
// on.
type egressPlan struct {
	jail
	ceilings conf.Egress // as they are on this host
}

// compile makes the list of system calls that turn a bare child into the
// egress process. It stays in the network namespace that it comes from: the
// host's.
func (p *egressPlan) compile() *vfork.Program {
	l := vfork.New()
	p.enterGroup(l)
	p.root(l)
	p.descriptors(l, [4]string{"stdin: the null device", "stdout: the null device",
		"stderr: a page of memory, read when the process has ended; writing never waits", "the control conversation"})
	l.Call("umask", unix.SYS_UMASK, []vfork.Arg{0o077}, vfork.Why("it makes no file"))
	p.limits(l, p.rlimits())
	p.identity(l)
	p.confine(l, p.landlockRules, "a Go program needs that makes connections")
	l.ExecFD(seccomp.EgressBinary, "callcell-egress", []string{"callcell-egress"}, goEnviron(p.ceilings.CPU, p.ceilings.Memory))
	return l
}

// root leaves the process an empty directory and no way to another.
func (p *egressPlan) root(l *vfork.Program) {
	const bare = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	l.Call("mount the empty root", unix.SYS_MOUNT, []vfork.Arg{template.EmptyRoot, template.EmptyRoot, 0, unix.MS_BIND, 0}, vfork.Why("a root has to be a mount"))
	l.Call("make it bare", unix.SYS_MOUNT, []vfork.Arg{0, template.EmptyRoot, 0, bare, 0}, vfork.Why("read-only, nothing in it is executed"))
	p.pivot(l, "the process can open no file: there is none", "egress")
}

func (p *egressPlan) rlimits() []limit {
	return slices.Concat([]limit{
		{"core", unix.RLIMIT_CORE, withinHard(unix.RLIMIT_CORE, 1), "no picture of its memory, which may have keys in it: with 0 the kernel would still hand one to the host's handler"},
		{"file size", unix.RLIMIT_FSIZE, 2 * wordsSize, "it writes no file; the page of its stderr is held to its size by a seal"},
		{"open files", unix.RLIMIT_NOFILE, p.ceilings.OpenFiles, "egress.openFiles, or this host's hard limit"},
		{"processes", unix.RLIMIT_NPROC, 2*p.ceilings.Pids + 16, "behind the group's own limit; the uid is this process's alone"},
	}, usualLimits())
}

// landlockRules appends a second wall behind the empty root: the binary, to be
// executed, and nothing else.
func (p *egressPlan) landlockRules(l *vfork.Program) {
	set, size := newRuleset(p.landlock)
	if p.landlock >= 4 {
		set.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
		size = max(size, 16)
	}
	landlocked(l, set, size, "a second wall behind the empty root; no port of the host's either", func() {
		landlockRule(l, set, seccomp.EgressBinary, unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE, "the binary", "the exec needs it; no path leads there")
	})
}
