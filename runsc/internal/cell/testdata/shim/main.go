// Command shim puts runsc into its place for the tests, as callcell's launcher
// does: the test has made the namespaces. It makes the root, gives up what is
// left, and becomes runsc. What it is told to leave out, runsc has to miss.
//
//	shim RUNSC-FD WRONG ARG...
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // identity is a thread's own
	fd, err := strconv.Atoi(os.Args[1])
	must("number", err)
	wrong := os.Args[2]
	must("close the rest", unix.CloseRange(uint(fd)+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
	root(wrong)
	if wrong == "directory" {
		_, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must("open /", err)
	}
	if wrong == "forgotten" {
		_, err := unix.Open("/proc/cpuinfo", unix.O_RDONLY, 0)
		must("open", err)
	}
	giveUp(wrong)
	unix.CloseOnExec(fd)
	become(fd, os.Args[3:])
}

func must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "shim: %s: %v\n", what, err)
		os.Exit(99)
	}
}

// root makes the read-only root with the texts, and goes there.
func root(wrong string) {
	const at = "/tmp"
	must("slave", unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""))
	texts := map[string][]byte{"proc/self/maps": nil, "proc/self/auxv": auxv()}
	for _, name := range []string{"proc/cpuinfo", "proc/sys/vm/mmap_min_addr"} {
		text, err := os.ReadFile("/" + name)
		must("read", err)
		texts[name] = text
	}
	must("tmpfs", unix.Mount("root", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m"))
	for name, text := range texts {
		must("mkdir", os.MkdirAll(filepath.Join(at, filepath.Dir(name)), 0o755))
		must("write", os.WriteFile(filepath.Join(at, name), text, 0o444))
	}
	switch wrong {
	case "procfs":
		must("proc", unix.Mount("proc", filepath.Join(at, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	case "file":
		must("write", os.WriteFile(filepath.Join(at, "secret"), nil, 0o444))
	}
	if wrong != "writable" {
		must("read-only", unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	}
	must("chdir", unix.Chdir(at))
	must("pivot", unix.PivotRoot(".", "."))
	must("umount", unix.Unmount(".", unix.MNT_DETACH))
	must("chdir", unix.Chdir("/"))
}

// auxv is what gVisor wants to know of the auxiliary vector.
func auxv() (out []byte) {
	const hwcap, hwcap2 = 16, 26
	vec, err := unix.Auxv()
	must("auxv", err)
	for _, pair := range append(vec, [2]uintptr{}) {
		if pair[0] == hwcap || pair[0] == hwcap2 || pair[0] == 0 {
			out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&pair)), unsafe.Sizeof(pair))...)
		}
	}
	return out
}

// giveUp leaves nothing that runsc could use.
func giveUp(wrong string) {
	if wrong != "bounding" {
		for c := 0; unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0) == nil; c++ {
		}
	}
	if wrong != "capabilities" {
		must("ambient", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		var none [2]unix.CapUserData
		must("capset", unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
	}
	if wrong != "privileges" {
		must("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	}
	must("death signal", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}

// become executes the file behind a descriptor, which closes with it, in an
// empty environment.
func become(fd int, args []string) {
	argv := make([]*byte, len(args)+1)
	for i, a := range args {
		p, err := unix.BytePtrFromString(strings.Clone(a))
		must("argument", err)
		argv[i] = p
	}
	empty, env := new(byte), new(*byte)
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(env)), unix.AT_EMPTY_PATH, 0)
	must("execveat", errno)
}
