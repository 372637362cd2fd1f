//go:build linux

package seccomp

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// interesting are calls of r at and beside each of its cases: with every bit
// of every argument turned over, and with other high words.
func interesting(arch uint32, r Rule) []call {
	if r.Cases == nil {
		return []call{{arch: arch, nr: r.Nr}, {arch: arch, nr: r.Nr, args: args{all64, all64, all64, all64, all64, all64}}}
	}
	base := []args{{}, {all64, all64, all64, all64, all64, all64}}
	for _, cs := range r.Cases {
		var met args
		for _, w := range cs.When {
			met[w.Arg] = w.Value
		}
		base = append(base, met)
	}
	out := make([]call, 0, len(base)*arguments*68)
	for _, near := range base {
		for i := range near {
			values := []uint64{near[i], near[i] + 1, near[i] - 1, near[i] | highWord, 0}
			for bit := range 64 {
				values = append(values, near[i]^1<<bit)
			}
			for _, v := range values {
				q := call{arch: arch, nr: r.Nr, args: near}
				q.args[i] = v
				out = append(out, q)
			}
		}
	}
	return out
}

func TestCellMeansThePolicy(t *testing.T) {
	forEachArch(t, func(t *testing.T, _ table, p Policy) { meansThePolicy(t, p) })
}

// meansThePolicy holds a policy's filter to it, call by call.
func meansThePolicy(t *testing.T, p Policy) {
	t.Helper()
	c := compare(t, p)
	for _, r := range p.Rules {
		for _, q := range interesting(p.Arch, r) {
			c.ask(t, q)
		}
	}
	numbers := []uint32{601, 1023, 1 << 16, x32 - 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<31 | x32}
	for nr := range uint32(601) {
		numbers = append(numbers, nr, x32|nr, 1<<31|nr)
	}
	for _, nr := range numbers {
		for _, arg := range []uint64{0, 1, all64, 1 << 32} {
			all := args{arg, arg, arg, arg, arg, arg}
			c.ask(t, call{arch: p.Arch, nr: nr, args: all})
			c.ask(t, call{arch: unix.AUDIT_ARCH_I386, nr: nr, args: all})
		}
	}
	t.Logf("%d calls, tree %d instructions, chain %d", c.calls, len(c.tree), len(c.chain))
}

func TestCellAllowsTheSocketsItNames(t *testing.T) {
	forEachArch(t, func(t *testing.T, _ table, p Policy) { allowsTheSockets(t, p, Sockets()) })
}

// allowsTheSockets holds every socket that can be asked for against a set.
func allowsTheSockets(t *testing.T, p Policy, set []Socket) {
	t.Helper()
	want := make(map[Socket]bool)
	for _, s := range set {
		want[s] = true
	}
	protocols := []int{0, 1, 2, 6, 9, 15, 16, 17, 58, 115, 132, 136, 255, 256, 262, -1}
	filter, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	nr := number(t, p, "socket")
	made := 0
	for family := -1; family <= 50; family++ {
		for typ := range 17 {
			for _, protocol := range protocols {
				for _, above := range []uint64{0, high, highWord} {
					q := call{arch: p.Arch, nr: nr}
					q.args[0] = uint64(uint32(family)) | above
					q.args[1] = uint64(typ|unix.SOCK_CLOEXEC) | above
					q.args[2] = uint64(uint32(protocol)) | above
					got, _, err := interpret(filter, q)
					if err != nil || (got == Allow) != want[Socket{family, typ, protocol}] {
						t.Fatalf("%d %d %d %x: %v, %v", family, typ, protocol, above, got, err)
					}
					if got == Allow {
						made++
					}
				}
			}
		}
	}
	if made != 3*len(want) {
		t.Errorf("%d of %d sockets were tried", made/3, len(want))
	}
}

// number is the number of a name in a policy.
func number(t testing.TB, p Policy, name string) uint32 {
	t.Helper()
	i := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		t.Fatal("no rule for", name)
	}
	return p.Rules[i].Nr
}

type args = [arguments]uint64

// high is the lowest bit that the kernel does not see in an int.
const high = 1 << 32

// answers are what the policy is for, in words that do not come from its
// tables.
var answers = []expected{
	{"read", args{}, Allow},
	{"execve", args{}, Allow},
	{"openat2", args{}, Allow},
	{"faccessat2", args{}, Allow},
	{"fsync", args{}, Allow},
	{"seccomp", args{}, Allow},
	{"landlock_restrict_self", args{}, Allow},
	{"clone", args{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, Allow},
	{"clone", args{uint64(unix.SIGCHLD)}, Allow},
	{"clone", args{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, Errno(unix.EPERM)},
	{"clone", args{unix.CLONE_NEWUSER | high}, Errno(unix.EPERM)},
	{"clone", args{high}, Allow},
	{"clone", args{unix.CLONE_NEWNS}, Errno(unix.EPERM)},
	{"clone", args{0x80}, Errno(unix.EPERM)},
	{"clone3", args{}, Errno(unix.ENOSYS)},
	{"socket", args{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, Allow},
	{"socket", args{unix.AF_INET | high, unix.SOCK_STREAM | high, high}, Allow},
	{"socket", args{unix.AF_INET, unix.SOCK_STREAM, 262}, Errno(unix.EPROTONOSUPPORT)}, // MPTCP
	{"socket", args{unix.AF_INET6, unix.SOCK_STREAM, 132}, Errno(unix.EPROTONOSUPPORT)},
	{"socket", args{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, Errno(unix.EPERM)},
	{"socket", args{unix.AF_INET, unix.SOCK_PACKET | unix.SOCK_CLOEXEC}, Errno(unix.EPERM)},
	{"socket", args{unix.AF_PACKET, unix.SOCK_RAW}, Errno(unix.EPERM)},
	{"socket", args{unix.AF_PACKET, unix.SOCK_DGRAM}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_VSOCK, unix.SOCK_STREAM}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_VSOCK | high, unix.SOCK_STREAM}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_ALG, unix.SOCK_SEQPACKET}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, Errno(unix.EAFNOSUPPORT)},
	{"socketpair", args{unix.AF_UNIX, unix.SOCK_STREAM}, Allow},
	{"socketpair", args{unix.AF_VSOCK, unix.SOCK_STREAM}, Errno(unix.EOPNOTSUPP)},
	{"setsockopt", args{9, unix.SOL_SOCKET, unix.SO_REUSEADDR}, Allow},
	{"setsockopt", args{9, unix.SOL_TCP | high, unix.TCP_ULP | high}, Errno(unix.ENOENT)},
	{"personality", args{0xffffffff}, Allow},
	{"personality", args{0x20008}, Allow},               // UNAME26 and PER_LINUX32
	{"personality", args{0x0040000}, Errno(unix.EPERM)}, // ADDR_NO_RANDOMIZE
	{"personality", args{0x0040000 | high}, Errno(unix.EPERM)},
	{"personality", args{0x0400000}, Errno(unix.EPERM)}, // READ_IMPLIES_EXEC
	{"prctl", args{unix.PR_SET_NAME}, Allow},
	{"prctl", args{unix.PR_SET_SECCOMP, 2}, Allow},
	{"prctl", args{unix.PR_SET_PDEATHSIG, uint64(unix.SIGKILL)}, Allow},
	{"prctl", args{unix.PR_SET_PDEATHSIG, 0}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_PDEATHSIG | high, 0}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_PDEATHSIG, high}, Allow}, // the kernel reads 64 bits: EINVAL
	{"prctl", args{unix.PR_SET_MM | high}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_PTRACER, all64}, Errno(unix.EINVAL)},
	{"prctl", args{unix.PR_SET_SPECULATION_CTRL, 0, unix.PR_SPEC_ENABLE}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_SPECULATION_CTRL, 0, unix.PR_SPEC_FORCE_DISABLE}, Allow},
	{"prctl", args{unix.PR_SCHED_CORE}, Errno(unix.EINVAL)},
	{"ioctl", args{0, unix.TIOCGWINSZ}, Allow},
	{"ioctl", args{0, unix.TIOCSTI}, Errno(unix.EPERM)},
	{"ioctl", args{0, unix.TIOCSTI | high}, Errno(unix.EPERM)},
	{"ioctl", args{0, unix.TIOCSTI | highWord}, Errno(unix.EPERM)},
	{"ioctl", args{0, unix.TIOCLINUX | high}, Errno(unix.EPERM)},
	{"ioctl", args{0, unix.TIOCSETD | high}, Errno(unix.EPERM)},
	{"ioctl", args{0, unix.TIOCCONS | high}, Errno(unix.EPERM)},
	{"madvise", args{0, 0, unix.MADV_DONTNEED}, Allow},
	{"madvise", args{0, 0, unix.MADV_MERGEABLE | high}, Errno(unix.EINVAL)},
	{"file_getattr", args{}, Errno(unix.ENOSYS)},
}

func TestCellAnswers(t *testing.T) {
	forEachArch(t, func(t *testing.T, _ table, p Policy) { givesAnswers(t, p, answers) })
}

// An expected is one call with its answer.
type expected struct {
	name string
	args args
	want Action
}

func givesAnswers(t *testing.T, p Policy, answers []expected) {
	t.Helper()
	filter, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range answers {
		got, _, err := interpret(filter, call{arch: p.Arch, nr: number(t, p, tt.name), args: tt.args})
		if err != nil || got != tt.want {
			t.Errorf("%s %#x: %v, %v, want %v", tt.name, tt.args, got, err, tt.want)
		}
	}
}

// What the design refuses in so many words, whatever else changes.
func TestCellRefuses(t *testing.T) {
	names := strings.Fields(`ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd userfaultfd perf_event_open bpf
		io_uring_setup io_uring_enter io_uring_register add_key keyctl request_key mount umount2 move_mount open_tree
		fsopen fsmount fsconfig fspick mount_setattr pivot_root chroot unshare setns clone3 name_to_handle_at
		open_by_handle_at syslog acct swapon swapoff kexec_load init_module finit_module delete_module reboot
		settimeofday clock_settime clock_adjtime adjtimex quotactl quotactl_fd vhangup vmsplice fanotify_init
		fanotify_mark memfd_secret move_pages migrate_pages mbind set_mempolicy`)
	forEachArch(t, func(t *testing.T, _ table, p Policy) {
		for _, name := range names {
			for _, r := range p.Rules {
				if r.Name == name && (r.Action == Allow || r.Cases != nil) {
					t.Errorf("%s: %v", name, r.Action)
				}
			}
			number(t, p, name)
		}
		filter, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for q, want := range map[call]Action{
			{arch: unix.AUDIT_ARCH_I386, nr: 4}: KillProcess,
			{arch: p.Arch, nr: x32}:             enosys, // read(2) of x32
			{arch: p.Arch, nr: 1<<32 - 1}:       enosys,
			{arch: p.Arch, nr: 1000}:            enosys,
			{arch: p.Arch, nr: p.Newest + 1}:    enosys,
			{arch: p.Arch, nr: 400}:             eperm, // never assigned
		} {
			if got, _, err := interpret(filter, q); err != nil || got != want {
				t.Errorf("%+v: %v, %v, want %v", q, got, err, want)
			}
		}
	})
}

// What is handed out is the caller's.
func TestRulesAreCopies(t *testing.T) {
	first := Rules()
	if len(first) == 0 {
		t.Skip("no profile for", runtime.GOARCH)
	}
	for i := range first {
		first[i].Action = Allow
		for j := range first[i].Cases {
			first[i].Cases[j].Then = Allow
			first[i].Cases[j].When[0] = Cond{}
		}
	}
	Sockets()[0].Family = unix.AF_VSOCK
	if _, err := Cell(); err != nil {
		t.Fatal(err)
	}
	for _, r := range Rules() {
		if r.Name == "ptrace" && r.Action == Allow {
			t.Error("a caller changed the policy")
		}
	}
	if Sockets()[0].Family != unix.AF_UNIX {
		t.Error("a caller changed the sockets")
	}
}
