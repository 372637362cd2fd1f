// Command stuck is a launcher one of whose children gets stuck in the middle of
// its compiled list, for real: it waits in the kernel, and the launcher's thread
// with it. There is no hook for that in the launcher. A filter hands the system
// call that gives up root, which the list makes and the launcher never does, to
// another process, the warden; it lets the call go on, but for one that comes
// while there is a file CONFIG.stick, which it then renames to CONFIG.stuck.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-warden" {
		fatal(ward(os.Args[2]))
		return
	}
	if len(os.Args) != 3 || os.Args[1] != "-config" {
		fatal(errors.New("usage: -config FILE"))
	}
	fatal(underWatch(os.Args[2]))
	os.Exit(launcher.Main(os.Args[2], os.Stderr))
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "stuck:", err)
		os.Exit(1)
	}
}

// underWatch starts the warden, which is not under the filter itself, and then
// puts this process under it.
func underWatch(config string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "warden")
	cmd := exec.Command("/proc/self/exe", "-warden", config)
	cmd.ExtraFiles = []*os.File{theirs}
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return err
	}
	listener, err := filter()
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(listener), nil, 0)
}

// filter puts every thread of this process under the filter.
func filter() (listener int, err error) {
	list := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SETRESUID, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	prog := unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// ward answers until nobody is under the filter any more.
func ward(config string) error {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(3, b[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("no filter: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	for {
		poll := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[0].Revents&unix.POLLIN != 0 {
			answer(fds[0], config)
		} else if poll[0].Revents != 0 {
			return nil
		}
	}
}

// answer lets one call go on, or not.
func answer(listener int, config string) {
	var asked struct { // struct seccomp_notif
		id         uint64
		pid, flags uint32
		data       [8]uint64
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&asked))); errno != 0 {
		return // it was killed meanwhile
	}
	if os.Rename(config+".stick", config+".stuck") == nil {
		return
	}
	reply := struct { // struct seccomp_notif_resp
		id         uint64
		value      int64
		err, flags uint32
	}{id: asked.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&reply)))
}
