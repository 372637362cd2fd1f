//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// Numbers of the kernel's interface that x/sys has no name for.
const (
	// cloneNewTime is CLONE_NEWTIME. In clone(2) its bit lies among those of
	// the exit signal, so that no kernel takes it there; it costs nothing to
	// refuse it too.
	cloneNewTime = 0x80
	// personalities of linux/personality.h, and the query.
	perLinux32 = 0x0008
	uname26    = 0x0020000
	perQuery   = 0xffffffff
	// perBits covers perLinux32 and uname26, the only bits a cell may set.
	perBits = perLinux32 | uname26
)

// newNamespaces are the clone flags that make a namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | cloneNewTime

// narrowed are the calls that depend on their arguments. Nr is filled in for
// the architecture.
func narrowed() []Rule {
	return []Rule{
		narrowedClone(),
		narrowedSocket(),
		narrowedSocketpair(),
		narrowedSetsockopt(),
		narrowedPersonality(),
		narrowedPrctl(),
		narrowedIoctl(),
		narrowedMadvise(),
	}
}

// narrowedClone: the kernel reads the low 32 bits of an unsigned long.
func narrowedClone() Rule {
	return Rule{
		Name:   "clone",
		Action: eperm,
		Cases:  []Case{{When: []Cond{noneOf(0, newNamespaces)}, Then: Allow}},
		Args:   "no CLONE_NEW* flag",
		Why:    "threads and processes, but no namespace: a user namespace gives capabilities back",
	}
}

// narrowedSetsockopt: level and optname are int.
func narrowedSetsockopt() Rule {
	return Rule{
		Name:   "setsockopt",
		Action: Allow,
		Cases: []Case{{
			When: []Cond{int32Is(1, unix.IPPROTO_TCP), int32Is(2, unix.TCP_ULP)},
			Then: Errno(unix.ENOENT),
		}},
		Args: "not IPPROTO_TCP with TCP_ULP",
		Why:  "kernel TLS and its kin are a steady source of holes; the answer is that of a kernel without the module, and libraries encrypt on their own then",
	}
}

// narrowedPersonality: the argument is unsigned int.
func narrowedPersonality() Rule {
	return Rule{
		Name:   "personality",
		Action: eperm,
		Cases: []Case{
			{When: []Cond{{Arg: 0, Mask: low32 &^ perBits}}, Then: Allow},
			{When: []Cond{int32Is(0, perQuery)}, Then: Allow},
		},
		Args: "0, PER_LINUX32, UNAME26, both, or the query 0xffffffff",
		Why:  "moby's values; ADDR_NO_RANDOMIZE is not among them, nor what makes memory executable",
	}
}

// narrowedPrctl: option is int, the others unsigned long.
func narrowedPrctl() Rule {
	einval := Errno(unix.EINVAL)
	option := func(n uint32) Cond { return int32Is(0, n) }
	return Rule{
		Name:   "prctl",
		Action: Allow,
		Cases: []Case{
			{When: []Cond{option(unix.PR_SET_PDEATHSIG), int64Is(1, 0)}, Then: eperm},
			{When: []Cond{option(unix.PR_SET_MM)}, Then: eperm},
			{When: []Cond{option(unix.PR_SET_PTRACER)}, Then: einval},
			{When: []Cond{option(unix.PR_SET_SPECULATION_CTRL), int64Is(2, unix.PR_SPEC_ENABLE)}, Then: eperm},
			{When: []Cond{option(unix.PR_SCHED_CORE)}, Then: einval},
			{When: []Cond{option(unix.PR_SET_MEMORY_MERGE)}, Then: einval},
		},
		Args: "not PR_SET_PDEATHSIG with 0, PR_SET_MM, PR_SET_PTRACER, PR_SET_SPECULATION_CTRL with PR_SPEC_ENABLE, PR_SCHED_CORE, PR_SET_MEMORY_MERGE",
		Why: "no clearing of the signal that ends the cell with its launcher (setting another stays: databases do, and only PID 1, which is ours, has one to lose), " +
			"no false memory map, no opening to tracers, no weaker speculation barriers, no claim on the host's hyperthreads, no pages merged with another cell's",
	}
}

// narrowedIoctl: the command is unsigned int.
func narrowedIoctl() Rule {
	rule := Rule{
		Name:   "ioctl",
		Action: Allow,
		Args:   "not TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD",
		Why:    "no typing into a terminal that somebody else reads, no console, and no line discipline, which loads old kernel code",
	}
	for _, cmd := range []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS, unix.TIOCSETD} {
		rule.Cases = append(rule.Cases, Case{When: []Cond{int32Is(1, cmd)}, Then: eperm})
	}
	return rule
}

// narrowedMadvise: the advice is int.
func narrowedMadvise() Rule {
	return Rule{
		Name:   "madvise",
		Action: Allow,
		Cases:  []Case{{When: []Cond{int32Is(2, unix.MADV_MERGEABLE)}, Then: Errno(unix.EINVAL)}},
		Args:   "not MADV_MERGEABLE",
		Why:    "the time of a write to a merged page tells what is in another cell's memory; the answer is that of a kernel without KSM",
	}
}
