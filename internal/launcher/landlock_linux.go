package launcher

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
)

// ruleFD is the number under which a rule's directory is open for a moment,
// so that the rule can be written before the directory is opened. It is the
// third above the program's own and below leastOpenFiles, which holds already.
const ruleFD = stdioFDs + 2

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockEdit = landlockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockNodes = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled returns the rights that the kernel's ABI can hold back.
func handled(abi int) uint64 {
	all := uint64(landlockEdit | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
	if abi >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi < 3 {
		all &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 2 {
		all &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	return all
}

// ruleset is struct landlock_ruleset_attr.
type ruleset struct{ fs, net, scoped uint64 }

// pathRule is struct landlock_path_beneath_attr, which is packed.
type pathRule [12]byte

func newPathRule(access uint64, fd int32) *pathRule {
	r := new(pathRule)
	*(*uint64)(unsafe.Pointer(&r[0])) = access
	*(*int32)(unsafe.Pointer(&r[8])) = fd
	return r
}

// newRuleset returns what holds back every right on files that the kernel's ABI
// knows, and what is outside of the own processes; and how many of its bytes
// the kernel knows.
func newRuleset(abi int) (set *ruleset, size int) {
	set, size = &ruleset{fs: handled(abi)}, 8
	if abi >= 6 {
		set.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = 24
	}
	return set, size
}

// landlockRules appends a second wall behind the mount namespace: read and
// execute everywhere, write only where the scratch is.
func (p *plan) landlockRules(l *vfork.Program) {
	set, size := newRuleset(p.landlock)
	l.Call("landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, []vfork.Arg{vfork.Ptr{P: unsafe.Pointer(set)}, size, 0},
		vfork.To(regRules), vfork.Why("a second wall behind the mounts"))
	type pathAccess struct {
		path   string
		access uint64
		why    string
	}
	rules := []pathAccess{
		{"/", landlockRead, "read and execute, everywhere"},
		{"/proc", landlockNodes, "and write, as its own rules have it"},
		{"/dev", landlockNodes, "and write to the devices"},
	}
	for _, part := range template.Parts() {
		rules = append(rules, pathAccess{part.Target, landlockEdit, "a part of the scratch: and make, write, remove"})
	}
	for _, r := range rules {
		l.Call("open "+r.path, unix.SYS_OPENAT, []vfork.Arg{unix.AT_FDCWD, r.path, unix.O_PATH | unix.O_CLOEXEC, 0}, vfork.To(regFile), vfork.Why("for its rule"))
		l.Call("number "+r.path, unix.SYS_DUP3, []vfork.Arg{nil, ruleFD, unix.O_CLOEXEC}, vfork.From(0, regFile), vfork.Why("the rule was written with that number"))
		l.Call("close "+r.path, unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regFile), vfork.Why("the number remains"))
		rule := newPathRule(r.access&set.fs, ruleFD)
		l.Call("rule for "+r.path, unix.SYS_LANDLOCK_ADD_RULE, []vfork.Arg{nil, unix.LANDLOCK_RULE_PATH_BENEATH, vfork.Ptr{P: unsafe.Pointer(rule)}, 0},
			vfork.From(0, regRules), vfork.Why(r.why))
	}
	l.Call("close rule", unix.SYS_CLOSE, []vfork.Arg{ruleFD}, vfork.Why("the last one's number"))
	l.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, []vfork.Arg{nil, 0}, vfork.From(0, regRules), vfork.Why("from here on, for good"))
	l.Call("close rules", unix.SYS_CLOSE, []vfork.Arg{nil}, vfork.From(0, regRules), vfork.Why("they hold"))
}

// landlockABI returns the kernel's, 0 where it has none or has it turned off.
func landlockABI() int {
	const versionFlag = 1
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	if errno != 0 {
		return 0
	}
	return int(v)
}
