package cell

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/runsc/internal/filters"
)

// errConfined wraps what is wrong with the place that the parent made.
var errConfined = errors.New("not confined")

// lastFD is how far descriptors are looked for. The parent has closed all that
// it did not mean; this finds what it forgot.
const lastFD = 4096

// confined looks at what can be seen of this process's place, and says what is
// not as the package doc wants it. It comes first of all, while the process is
// still what the parent made.
func confined(fds []int) error {
	for _, look := range []func() error{firstProcess, identity, capabilities, emptyRoot, func() error { return descriptors(fds) }} {
		if err := look(); err != nil {
			return fmt.Errorf("%w: %w", errConfined, err)
		}
	}
	return nil
}

// firstProcess: with this process goes everything that it started. The filters
// rely on it too.
func firstProcess() error {
	if pid, parent := os.Getpid(), os.Getppid(); pid != filters.PID || parent != 0 {
		return fmt.Errorf("process %d with parent %d, not the first of a PID namespace", pid, parent)
	}
	return nil
}

func identity() error {
	ruid, euid, suid := unix.Getresuid()
	rgid, egid, sgid := unix.Getresgid()
	if slices.Contains([]int{ruid, euid, suid, rgid, egid, sgid}, 0) {
		return fmt.Errorf("an identity is root's: uids %d %d %d, gids %d %d %d", ruid, euid, suid, rgid, egid, sgid)
	}
	if groups, err := unix.Getgroups(); err != nil || len(groups) > 1 || len(groups) == 1 && groups[0] != egid {
		return fmt.Errorf("supplementary groups %v (%v)", groups, err)
	}
	return nil
}

// capabilities must be gone from every set, and never come back.
func capabilities() error {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if data != ([2]unix.CapUserData{}) {
		return fmt.Errorf("capabilities %+v", data)
	}
	for c := 0; ; c++ {
		set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // past the last that the kernel knows
		}
		if set != 0 {
			return fmt.Errorf("capability %d in the bounding set", c)
		}
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 1 {
		return fmt.Errorf("no_new_privs is %d (%v)", set, err)
	}
	return nil
}

// emptyRoot: nothing to write, and nothing to open but texts. No procfs: all of
// the root is one file system.
func emptyRoot() error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		return fmt.Errorf("statfs /: %w", err)
	}
	if fs.Flags&unix.ST_RDONLY == 0 {
		return errors.New("the root can be written")
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "proc" {
			return fmt.Errorf("/%s is there", e.Name())
		}
	}
	var root, below unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return fmt.Errorf("stat /: %w", err)
	}
	for _, dir := range []string{"/proc", "/proc/self", "/proc/sys", "/proc/sys/vm"} {
		if err := unix.Stat(dir, &below); err != nil || below.Dev != root.Dev {
			return fmt.Errorf("%s is not the root's own (%v)", dir, err)
		}
	}
	return nil
}

// descriptors: those that the flags name are there, no directory among them.
// Besides, only what the runtime and gVisor's packages have opened by now may
// be open, which are pipes and nameless files: what else came was forgotten.
func descriptors(fds []int) error {
	open, err := opened()
	if err != nil {
		return err
	}
	for _, fd := range append(open, append(fds, 0, 1, 2)...) {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		named, kind := fd < 3 || slices.Contains(fds, fd), st.Mode&unix.S_IFMT
		switch {
		case err != nil && named:
			return fmt.Errorf("descriptor %d: %w", fd, err)
		case err != nil:
		case kind == unix.S_IFDIR:
			return fmt.Errorf("descriptor %d is a directory", fd)
		case !named && kind != 0 && kind != unix.S_IFIFO:
			return fmt.Errorf("descriptor %d is open, of kind %#o, and no flag names it", fd, kind)
		}
	}
	return nil
}

// opened are the descriptors that are open, as far as they are looked for. One
// poll tells: to ask for each takes half a millisecond of every start.
func opened() (open []int, err error) {
	all := make([]unix.PollFd, lastFD)
	for fd := range all {
		all[fd].Fd = int32(fd)
	}
	for {
		if _, err = unix.Poll(all, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	for _, p := range all {
		if p.Revents&unix.POLLNVAL == 0 {
			open = append(open, int(p.Fd))
		}
	}
	return open, nil
}
