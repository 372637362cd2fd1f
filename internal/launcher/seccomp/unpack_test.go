//go:build linux

package seccomp

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// forEachUnpack runs a test with the policy of the unpacker on each
// architecture.
func forEachUnpack(t *testing.T, test func(t *testing.T, tab table, p Policy)) {
	t.Helper()
	forEachList(t, unpackLists(), test)
}

func TestUnpackMeansThePolicy(t *testing.T) {
	forEachUnpack(t, func(t *testing.T, _ table, p Policy) { meansThePolicy(t, p) })
}

// TestUnpackNames pins what the unpacker may call, all of it.
func TestUnpackNames(t *testing.T) {
	forEachUnpack(t, func(t *testing.T, _ table, p Policy) { namesArePinned(t, "unpack", p) })
}

func TestUnpackTablesNameWhatExists(t *testing.T) { namesWhatExists(t, unpackLists()) }

func TestUnpackAnswers(t *testing.T) {
	no := Errno(unix.EPERM)
	forEachUnpack(t, func(t *testing.T, _ table, p Policy) {
		givesAnswers(t, p, []expected{
			{"openat2", args{}, Allow},
			{"symlinkat", args{}, Allow},
			{"linkat", args{}, Allow},
			{"fchmod", args{3, 0o755}, Allow},
			{"fchmod", args{3, 0o4755}, no},
			{"fchmod", args{3, 0o4755 | high}, no},
			{"fchmod", args{3, 0o2755}, no},
			{"fchmod", args{3, 0o1755}, no},
			{"fchmodat", args{3, 0, 0o755}, Allow},
			{"fchmodat", args{3, 0, 0o6755}, no},
			{"fchmodat", args{3, 0o7777, 0o644}, Allow},
			{"execveat", args{4, 1, 1, 1, unix.AT_EMPTY_PATH}, Allow},
			{"execveat", args{3, 1, 1, 1, unix.AT_EMPTY_PATH}, no},
			{"execve", args{}, no},
			{"clone", args{threadFlags}, Allow},
			{"clone", args{uint64(unix.SIGCHLD)}, no},
			{"mmap", args{0, 4096, unix.PROT_EXEC}, no},
			{"fcntl", args{3, unix.F_SETLK}, no},
			{"prctl", args{unix.PR_SET_DUMPABLE, 0}, no},
		})
	})
}

// What the unpacker must not be able to do, in so many words, whatever else
// changes.
func TestUnpackRefuses(t *testing.T) {
	names := strings.Fields(`socket socketpair connect bind listen accept4 sendto sendmsg recvmsg mknod mknodat chown lchown fchown fchownat setxattr
		lsetxattr fsetxattr setxattrat fchmodat2 chmod ioctl truncate fallocate rename renameat renameat2 readlink execve fork vfork clone3
		ptrace process_vm_readv kcmp pidfd_open pidfd_getfd kill tkill bpf perf_event_open userfaultfd io_uring_setup io_setup add_key keyctl
		mount umount2 move_mount open_tree fsopen pivot_root chroot chdir fchdir unshare setns memfd_create shmget inotify_init1 fanotify_init
		seccomp landlock_create_ruleset dup dup2 dup3 splice vmsplice tee sendfile copy_file_range setuid setresuid setgroups capset
		setsid personality wait4 name_to_handle_at open_by_handle_at syslog prctl mremap umask flock sync syncfs mq_open`)
	forEachUnpack(t, func(t *testing.T, _ table, p Policy) { refuses(t, p, names, 70) })
}

func TestUnpackOfThisArchitecture(t *testing.T) {
	filter, err := Unpack()
	if err != nil {
		t.Skip("no profile for", runtime.GOARCH)
	}
	egress, err := Egress()
	if err != nil || len(filter) == 0 || Digest(filter) == Digest(egress) || len(UnpackRules()) == 0 {
		t.Errorf("%d instructions, %v", len(filter), err)
	}
}
