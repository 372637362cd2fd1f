package launcher

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// An unpackPlan is everything the compiled list of an unpacker depends on, or of
// the check of its work.
type unpackPlan struct {
	jail
	ceilings conf.Image
	request  wire.Unpack
	staging  int  // a detached mount
	checks   bool // it reads what another has made
}

// unpackNamespaces are what clone makes for an unpacker: it needs no network,
// and has an empty one.
const unpackNamespaces = newNamespaces | unix.CLONE_NEWNET

// unpackFiles is how many files an unpacker may have open, and checkFiles the
// check of its work, which has a directory open for each name of a path.
const (
	unpackFiles = 64
	checkFiles  = unpackFiles + images.MaxDepth
)

// compile makes the list of system calls that turn a bare child into an
// unpacker.
func (p *unpackPlan) compile() *vfork.Program {
	l := vfork.New()
	p.enterGroup(l)
	l.Call("attach the staging", unix.SYS_MOVE_MOUNT, []vfork.Arg{p.staging, "", unix.AT_FDCWD, template.EmptyRoot, unix.MOVE_MOUNT_F_EMPTY_PATH},
		vfork.Why("the one place where it makes files: nosuid, nodev, noexec"))
	p.pivot(l, "it can open no other file: there is none", "unpack")
	stdin := "stdin: the stream"
	if p.checks {
		stdin = "stdin: the null device"
	}
	p.descriptors(l, [4]string{stdin, "stdout: the null device",
		"stderr: a page of memory, read when the process has ended; writing never waits", "where it says how it went"})
	l.Call("umask", unix.SYS_UMASK, []vfork.Arg{0o022}, vfork.Why("the same everywhere"))
	p.limits(l, p.rlimits())
	p.identity(l)
	p.confine(l, p.landlockRules, "a Go program needs that makes files of a stream")
	l.ExecFD(seccomp.EgressBinary, "callcell-image", p.argv(), goEnviron(p.ceilings.CPU, p.ceilings.Memory))
	return l
}

func (p *unpackPlan) argv() []string {
	flag := func(name string, value bool) string { return "-" + name + "=" + strconv.FormatBool(value) }
	r := &p.request
	if p.checks {
		return []string{"callcell-image", "check", "-bytes=" + strconv.FormatInt(r.Bytes, 10), "-entries=" + strconv.FormatInt(r.Entries+mountPoints, 10)}
	}
	return []string{"callcell-image", "unpack", "-bytes=" + strconv.FormatInt(r.Bytes, 10), "-entries=" + strconv.FormatInt(r.Entries, 10),
		flag("dir", r.Dir), flag("erofs", r.EROFS), flag("mountpoints", r.Mountpoints)}
}

func (p *unpackPlan) rlimits() []limit {
	files, why := int64(unpackFiles), "it has a few open at a time"
	if p.checks {
		files, why = checkFiles, "it has a directory open for each name of a path"
	}
	return slices.Concat([]limit{
		{"core", unix.RLIMIT_CORE, withinHard(unix.RLIMIT_CORE, 1), "no dumps: with 0 the kernel would still hand one to the host's handler"},
		{"file size", unix.RLIMIT_FSIZE, withinHard(unix.RLIMIT_FSIZE, p.fileSize()), "the image has all of the tree in it, each file in whole blocks"},
		{"open files", unix.RLIMIT_NOFILE, withinHard(unix.RLIMIT_NOFILE, files), why},
		{"processes", unix.RLIMIT_NPROC, 2*p.ceilings.Pids + 16, "behind the group's own limit; the uid is this process's alone"},
	}, usualLimits())
}

// What is allowed beside the bytes of the files themselves: of every entry, and
// of the whole.
const (
	perEntry = 4 << 10
	perTree  = 64 << 20
)

// fileSize bounds one file of an unpacker.
func (p *unpackPlan) fileSize() int64 { return p.request.Bytes + perEntry*p.request.Entries + perTree }

// landlockRules appends a second wall behind the root: files, directories and
// links in it, and the binary, to be executed.
func (p *unpackPlan) landlockRules(l *vfork.Program) {
	set, size := newRuleset(p.landlock)
	if p.landlock >= 4 {
		set.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size = max(size, 16)
	}
	const work = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlocked(l, set, size, "a second wall behind the root; no network either", func() {
		l.Call("open /", unix.SYS_OPENAT, []vfork.Arg{unix.AT_FDCWD, "/", unix.O_PATH | unix.O_CLOEXEC, 0}, vfork.To(regFile), vfork.Why("for its rule"))
		l.Call("number /", unix.SYS_DUP3, []vfork.Arg{nil, ruleFD, unix.O_CLOEXEC}, vfork.From(0, regFile), vfork.Why("the rule was written with that number"))
		landlockRule(l, set, ruleFD, work, "/", "its work: make, write, link, remove; no device, socket or fifo, nothing to execute")
		landlockRule(l, set, seccomp.EgressBinary, unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE, "the binary", "the exec needs it; no path leads there")
		l.Call("close /", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regFile), vfork.Why("the rule is written"))
		l.Call("close its number", unix.SYS_CLOSE, []vfork.Arg{ruleFD}, vfork.Why("the rule is written"))
	})
}
