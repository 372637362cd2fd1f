// Command init is the first process of the test machine that package vm
// starts: it makes the system that cells need, runs the plan, and turns the
// machine off. It is for nothing else, and does harm anywhere else.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/vm"
)

// runner is the argument with which init is the process that runs the plan.
const runner = "run-the-plan"

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == runner:
		if err := runPlan(); err != nil {
			fmt.Println(vm.WordFault, err)
			os.Exit(1)
		}
	case os.Getpid() != 1:
		fmt.Fprintln(os.Stderr, "init: not the first process of a machine")
		os.Exit(2)
	default:
		if err := first(); err != nil {
			fmt.Println(vm.WordFault, err)
		}
		fmt.Println(vm.WordEnd)
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

// first is the whole life of the machine.
func first() error {
	for _, step := range []func() error{leaveRootfs, mountAll, console, loopback, openFiles, checkGroups} {
		if err := step(); err != nil {
			return err
		}
	}
	pid, err := syscall.ForkExec("/init", []string{"init", runner}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start the runner: %w", err)
	}
	for { // orphans come to us, and are let go
		gone, err := syscall.Wait4(-1, nil, 0, nil)
		if gone == pid || err != nil && !errors.Is(err, syscall.EINTR) {
			return nil
		}
	}
}

// leaveRootfs puts a mount over the one that the kernel began with: no process
// could pivot_root out of that one.
func leaveRootfs() error {
	if err := unix.Mkdir("/.root", 0o755); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	if err := unix.Mount("/", "/.root", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	if err := unix.Chdir("/.root"); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	return unix.Chdir("/")
}

// mountAll mounts what a host has, shared as an ordinary init leaves it.
func mountAll() error {
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"cgroup2", "/sys/fs/cgroup", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devtmpfs", "/dev", "mode=755", unix.MS_NOSUID},
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RELATIME, ""); err != nil {
		return fmt.Errorf("root's flags: %w", err)
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// console makes the second serial port stdout and stderr: the kernel has the
// first for itself.
func console() error {
	fd, err := unix.Open("/dev/ttyS1", unix.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("second serial port: %w", err)
	}
	defer unix.Close(fd)
	for to := 1; to <= 2; to++ {
		if err := unix.Dup3(fd, to, 0); err != nil {
			return err
		}
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	return unix.Dup3(null, 0, 0)
}

// loopback brings lo up.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var req struct { // struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("loopback: %w", errno)
	}
	return nil
}

// openFiles sets the limits that an ordinary init does.
func openFiles() error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 512 << 10})
}

// checkGroups makes sure that this is the kernel that the tests are meant for.
func checkGroups() error {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return fmt.Errorf("control groups of version 2: %w", err)
	}
	for _, want := range []string{"memory", "pids", "cpu"} {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+want+" ") {
			return fmt.Errorf("no controller %s: %s", want, text)
		}
	}
	return nil
}

// runPlan runs one suite after another, whatever becomes of each.
func runPlan() error {
	var plan vm.Plan
	text, err := os.ReadFile(vm.PlanFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	fmt.Println(vm.WordBoot, unix.ByteSliceToString(u.Release[:]), "landlock", landlock())
	for _, s := range plan.Suites {
		fmt.Println(vm.WordRun, s.Name)
		began := time.Now()
		status := run(s, plan.Env)
		fmt.Printf("\n%s %s %d %.1f\n", vm.WordResult, s.Name, status, time.Since(began).Seconds())
	}
	return nil
}

// landlock returns the ABI that the kernel has, 0 for none.
func landlock() int {
	const versionFlag = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// run returns the exit status, -1 for a program that a signal ended or that
// could not be started.
func run(s vm.Step, env []string) int {
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, env, os.Stdout, os.Stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || err != nil && cmd.ProcessState.ExitCode() <= 0 {
		fmt.Println(err)
		return -1
	}
	return cmd.ProcessState.ExitCode()
}
