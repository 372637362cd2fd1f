//go:build linux

package seccomp

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files")

// forEachEgress runs a test with the policy of the egress process on each
// architecture.
func forEachEgress(t *testing.T, test func(t *testing.T, tab table, p Policy)) {
	t.Helper()
	forEachList(t, egressLists(), test)
}

// forEachList runs a test with the policy of a process on each architecture.
func forEachList(t *testing.T, l lists, test func(t *testing.T, tab table, p Policy)) {
	t.Helper()
	for goarch, tab := range tables(t) {
		t.Run(goarch, func(t *testing.T) { test(t, tab, admit(tab.arch, tab.numbers, tab.newest, l)) })
	}
}

func TestEgressMeansThePolicy(t *testing.T) {
	forEachEgress(t, func(t *testing.T, _ table, p Policy) { meansThePolicy(t, p) })
}

func TestEgressAllowsTheSocketsItNames(t *testing.T) {
	forEachEgress(t, func(t *testing.T, _ table, p Policy) { allowsTheSockets(t, p, EgressSockets()) })
	for _, s := range EgressSockets() {
		if s.Family == unix.AF_UNIX {
			t.Errorf("%+v: what is reached by that is on this host", s)
		}
	}
}

// TestEgressNames pins what the process may call, all of it: a name that comes
// is to be seen.
func TestEgressNames(t *testing.T) {
	forEachEgress(t, func(t *testing.T, _ table, p Policy) { namesArePinned(t, "egress", p) })
}

// namesArePinned compares what a policy allows with its golden list.
func namesArePinned(t *testing.T, of string, p Policy) {
	t.Helper()
	var text strings.Builder
	for _, r := range p.Rules {
		if r.Action == Allow || r.Cases != nil {
			fmt.Fprintf(&text, "%-18s %-12s %s\n", r.Name, r.Action, r.Args)
		}
	}
	test, arch, _ := strings.Cut(t.Name(), "/")
	golden := "testdata/" + of + "_" + arch + ".golden"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != text.String() {
		t.Errorf("%v: the list changed (go test -run %s -update writes it anew):\n%s", err, test, text.String())
	}
}

// Each name of the tables is one of some architecture, stands there once, and
// carries a reason.
func TestEgressTablesNameWhatExists(t *testing.T) { namesWhatExists(t, egressLists()) }

func namesWhatExists(t *testing.T, l lists) {
	t.Helper()
	exists, seen := map[string]bool{}, map[string]bool{}
	for _, tab := range tables(t) {
		for _, k := range tab.numbers {
			exists[k.name] = true
		}
	}
	row := func(name, why string) {
		if !exists[name] || seen[name] || why == "" {
			t.Errorf("%s: exists %v, seen before %v, reason %q", name, exists[name], seen[name], why)
		}
		seen[name] = true
	}
	for _, a := range l.allowed {
		for _, name := range a.names {
			row(name, a.why)
		}
	}
	for _, r := range l.narrowed {
		row(r.Name, r.Why)
		if len(r.Cases) == 0 || r.Args == "" || r.Action == Allow {
			t.Errorf("%s: an allow list of arguments is to be there, in words too", r.Name)
		}
	}
}

// egressAnswers are what the policy is for, in words that do not come from its
// tables.
var egressAnswers = []expected{
	{"read", args{}, Allow},
	{"connect", args{}, Allow},
	{"accept4", args{}, Allow},
	{"recvmsg", args{}, Allow},
	{"splice", args{}, Allow},
	{"rt_sigreturn", args{}, Allow},
	{"openat", args{}, Errno(unix.EPERM)},
	{"openat2", args{}, Errno(unix.EPERM)},
	{"execve", args{}, Errno(unix.EPERM)},
	{"execveat", args{4, 1, 1, 1, unix.AT_EMPTY_PATH}, Allow},
	{"execveat", args{4 | high, 1, 1, 1, unix.AT_EMPTY_PATH | high}, Allow}, // what the kernel reads is the same
	{"execveat", args{4, 1, 1, 1, 0}, Errno(unix.EPERM)},
	{"execveat", args{3, 1, 1, 1, unix.AT_EMPTY_PATH}, Errno(unix.EPERM)},
	{"execveat", args{unix.AT_FDCWD & low32, 1, 1, 1, unix.AT_EMPTY_PATH}, Errno(unix.EPERM)},
	{"clone", args{threadFlags}, Allow},
	{"clone", args{threadFlags | unix.CLONE_SETTLS}, Allow},
	{"clone", args{uint64(unix.SIGCHLD)}, Errno(unix.EPERM)},
	{"clone", args{0}, Errno(unix.EPERM)},
	{"clone", args{threadFlags | unix.CLONE_NEWNET}, Errno(unix.EPERM)},
	{"clone", args{threadFlags &^ unix.CLONE_THREAD}, Errno(unix.EPERM)},
	{"clone3", args{}, Errno(unix.EPERM)},
	{"listen", args{}, Errno(unix.EPERM)},
	{"bind", args{3, 1, unix.SizeofSockaddrNetlink}, Allow},
	{"bind", args{3, 1, unix.SizeofSockaddrInet4}, Errno(unix.EPERM)},
	{"bind", args{3, 1, unix.SizeofSockaddrInet6}, Errno(unix.EPERM)},
	{"bind", args{3, 1, unix.SizeofSockaddrInet4 | high}, Errno(unix.EPERM)},
	{"socket", args{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, Allow},
	{"socket", args{unix.AF_INET6, unix.SOCK_DGRAM}, Allow},
	{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, Allow},
	{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_UNIX, unix.SOCK_STREAM}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, Errno(unix.EAFNOSUPPORT)},
	{"socket", args{unix.AF_VSOCK, unix.SOCK_STREAM}, Errno(unix.EAFNOSUPPORT)},
	{"socketpair", args{unix.AF_UNIX, unix.SOCK_STREAM}, Errno(unix.EPERM)},
	{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_LINGER}, Allow},
	{"setsockopt", args{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, Allow},
	{"setsockopt", args{3, unix.IPPROTO_TCP, unix.TCP_ULP}, Errno(unix.ENOPROTOOPT)},
	{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_MARK}, Errno(unix.ENOPROTOOPT)},
	{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_BINDTODEVICE | high}, Errno(unix.ENOPROTOOPT)},
	{"getsockopt", args{3, unix.SOL_SOCKET, unix.SO_ERROR}, Allow},
	{"getsockopt", args{3, unix.SOL_SOCKET, unix.SO_PEERCRED}, Errno(unix.ENOPROTOOPT)},
	{"mmap", args{0, 4096, unix.PROT_READ | unix.PROT_WRITE}, Allow},
	{"mmap", args{0, 4096, unix.PROT_EXEC}, Errno(unix.EPERM)},
	{"mmap", args{0, 4096, unix.PROT_EXEC | highWord}, Errno(unix.EPERM)},
	{"mprotect", args{0, 4096, unix.PROT_READ | unix.PROT_EXEC}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_DUMPABLE, 0}, Allow},
	{"prctl", args{unix.PR_SET_DUMPABLE, 1}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_PDEATHSIG, 0}, Errno(unix.EPERM)},
	{"prctl", args{unix.PR_SET_PDEATHSIG, 9}, Errno(unix.EPERM)},
	{"prlimit64", args{0, unix.RLIMIT_NOFILE, 0, 1}, Allow},
	{"prlimit64", args{0, unix.RLIMIT_NOFILE, 1}, Errno(unix.EPERM)},
	{"prlimit64", args{1, unix.RLIMIT_NOFILE, 0, 1}, Errno(unix.EPERM)},
	{"fcntl", args{3, unix.F_DUPFD_CLOEXEC}, Allow},
	{"fcntl", args{3, unix.F_SETLK}, Errno(unix.EPERM)},
	{"fcntl", args{3, unix.F_SETOWN}, Errno(unix.EPERM)},
	{"futex", args{0, 128}, Allow},
	{"futex", args{0, 129}, Allow},
	{"futex", args{0, 0}, Errno(unix.EPERM)},
	{"futex", args{0, 6 | 128}, Errno(unix.EPERM)}, // LOCK_PI
	{"file_getattr", args{}, Errno(unix.ENOSYS)},
}

func TestEgressAnswers(t *testing.T) {
	forEachEgress(t, func(t *testing.T, _ table, p Policy) { givesAnswers(t, p, egressAnswers) })
}

// refuses wants names to be refused whatever their arguments are, of which least
// are known on every architecture.
func refuses(t *testing.T, p Policy, names []string, least int) {
	t.Helper()
	rules := map[string]Rule{}
	for _, r := range p.Rules {
		rules[r.Name] = r
	}
	found := 0
	for _, name := range names {
		r, ok := rules[name]
		if !ok {
			continue // not on this architecture
		}
		found++
		if r.Action == Allow || r.Cases != nil {
			t.Errorf("%s: %v", name, r.Action)
		}
	}
	if found < least {
		t.Errorf("only %d of %d names are known", found, len(names))
	}
}

// What the process must not be able to do, in so many words, whatever else
// changes.
func TestEgressRefuses(t *testing.T) {
	names := strings.Fields(`open openat openat2 creat stat newfstatat statx access readlink getdents64 chdir fchdir unlink rename mkdir link symlink
		mknod chmod chown truncate execve fork vfork clone3 ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd
		pidfd_send_signal kill tkill rt_sigqueueinfo listen socketpair bpf perf_event_open userfaultfd io_uring_setup io_uring_enter
		io_uring_register io_setup add_key keyctl request_key mount umount2 move_mount open_tree fsopen fsmount pivot_root chroot
		unshare setns memfd_create memfd_secret shmget msgget semget mq_open inotify_init1 fanotify_init seccomp landlock_create_ruleset
		ioctl dup dup2 dup3 vmsplice tee sendfile copy_file_range setuid setgid setresuid setgroups capset setsid personality
		wait4 waitid name_to_handle_at open_by_handle_at syslog reboot settimeofday clock_settime init_module
		kexec_load swapon quotactl acct sethostname remap_file_pages mremap pkey_mprotect timer_create setitimer`)
	forEachEgress(t, func(t *testing.T, tab table, p Policy) {
		refuses(t, p, names, 80)
		if len(p.Rules) != len(tab.numbers) || !slices.IsSortedFunc(p.Rules, func(a, b Rule) int { return int(a.Nr) - int(b.Nr) }) {
			t.Errorf("%d rules for %d numbers, or not in order", len(p.Rules), len(tab.numbers))
		}
	})
}

func TestEgressOfThisArchitecture(t *testing.T) {
	filter, err := Egress()
	if err != nil {
		t.Skip("no profile for", runtime.GOARCH)
	}
	cell, err := Cell()
	if err != nil || len(filter) == 0 || Digest(filter) == Digest(cell) {
		t.Errorf("%d instructions, %v", len(filter), err)
	}
	for _, r := range EgressRules() {
		if r.Action != Allow && len(r.Cases) == 0 {
			t.Errorf("%s allows nothing", r.Name)
		}
	}
}
