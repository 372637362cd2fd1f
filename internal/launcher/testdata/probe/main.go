// Command probe stands in for the egress process in tests: it does what the
// other end of its control conversation asks for, and says how that went. Each
// message is a command with its arguments, each answer is one message.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const control = 3

func main() {
	for {
		command, fds, err := receive()
		if err != nil || command == "" {
			os.Exit(0) // the conversation has ended
		}
		word, rest, _ := strings.Cut(command, " ")
		answer, err := do(word, rest, fds)
		if err != nil {
			answer = "error: " + err.Error()
		}
		if err := unix.Sendmsg(control, []byte(answer), nil, nil, unix.MSG_NOSIGNAL); err != nil {
			os.Exit(3)
		}
	}
}

func receive() (string, []int, error) {
	b, oob := make([]byte, 64<<10), make([]byte, 1024)
	for {
		n, oobn, _, _, err := unix.Recvmsg(control, b, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return "", nil, err
		}
		var fds []int
		if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) > 0 {
			fds, _ = unix.ParseUnixRights(&msgs[0]) // none is an answer too
		}
		return string(b[:n]), fds, nil
	}
}

func do(word, rest string, fds []int) (string, error) {
	switch word {
	case "pid":
		return strconv.Itoa(os.Getpid()), nil
	case "environ":
		return strings.Join(os.Environ(), " "), nil
	case "try":
		return try(), nil
	case "sockets":
		return sockets(), nil
	case "open":
		_, err := os.Open(rest)
		return fmt.Sprint(err), nil
	case "run":
		return fmt.Sprint(exec.Command(rest).Run()), nil
	case "addresses":
		addrs, err := net.InterfaceAddrs()
		return fmt.Sprint(addrs), err
	case "echo":
		return echo(rest)
	case "serve":
		return serve(fds[0])
	case "work":
		return work(), nil
	case "listen":
		_, err := net.Listen("tcp", "127.0.0.1:0")
		return fmt.Sprint(err), nil
	case "seize":
		return seize(fds), nil
	case "eat":
		return eat(rest), nil
	case "say":
		_, err := os.Stderr.WriteString(rest)
		return fmt.Sprint(err), nil
	case "panic":
		panic(rest)
	case "exit":
		code, _ := strconv.Atoi(rest)
		os.Exit(code)
	}
	return "", errors.New("unknown command")
}

// echo connects, sends a word and returns what comes back.
func echo(address string) (string, error) {
	network, address, _ := strings.Cut(address, " ")
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("a word\n")); err != nil {
		return "", err
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// serve accepts one connection on a socket that came, and sends back what
// comes in until its end.
func serve(fd int) (string, error) {
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return "", err
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer c.Close()
	n, err := io.Copy(c, c) // by splice
	return fmt.Sprintf("%s %d", c.LocalAddr(), n), err
}

// work keeps the runtime busy: threads, timers, garbage.
func work() string {
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 20 {
				_ = make([]byte, 1<<18)
				time.Sleep(time.Microsecond)
			}
		})
	}
	all.Wait()
	runtime.GC()
	return "done"
}

// eat takes memory and writes into it.
func eat(mib string) string {
	n, _ := strconv.Atoi(mib)
	var kept [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	return strconv.Itoa(len(kept))
}

// seize puts files in the place of the binary, one after another, and executes
// them: its own stderr, into which it writes a program, the conversation, and
// what came along.
func seize(fds []int) string {
	const binary, above = 4, 100
	for i, fd := range fds {
		fds[i], _ = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, above) // out of the way
	}
	var out strings.Builder
	_, err := os.Stderr.WriteString("\x7fELF\x02\x01\x01")
	for _, fd := range append([]int{2, control}, fds...) {
		unix.Close(binary)
		if at, _ := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, binary); at != binary {
			return "not seized"
		}
		empty := []byte{0}
		_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, binary, uintptr(unsafe.Pointer(&empty[0])), 0, 0, unix.AT_EMPTY_PATH, 0)
		fmt.Fprintf(&out, "%d: %s %v\n", fd, unix.ErrnoName(errno), err)
	}
	return out.String()
}

// try makes calls that the process has no use for, and says what came of each.
func try() string {
	noFile := ^uintptr(0)
	var out strings.Builder
	for _, c := range []struct {
		name string
		nr   uintptr
		args [6]uintptr
	}{
		{"openat", unix.SYS_OPENAT, [6]uintptr{noFile}},
		{"execve", unix.SYS_EXECVE, [6]uintptr{}},
		{"execveat control", unix.SYS_EXECVEAT, [6]uintptr{control, 0, 0, 0, unix.AT_EMPTY_PATH}},
		{"fork", unix.SYS_CLONE, [6]uintptr{uintptr(unix.SIGCHLD)}},
		{"ptrace", unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_ATTACH, 1}},
		{"mount", unix.SYS_MOUNT, [6]uintptr{}},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}},
		{"setns", unix.SYS_SETNS, [6]uintptr{noFile}},
		{"bpf", unix.SYS_BPF, [6]uintptr{noFile}},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1}},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{}},
		{"memfd_create", unix.SYS_MEMFD_CREATE, [6]uintptr{}},
		{"kill", unix.SYS_KILL, [6]uintptr{1, 0}},
		{"setuid", unix.SYS_SETUID, [6]uintptr{0}},
		{"prctl PDEATHSIG", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_PDEATHSIG, 0}},
		{"prlimit", unix.SYS_PRLIMIT64, [6]uintptr{0, unix.RLIMIT_NOFILE, 1}},
		{"mmap EXEC", unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANON, noFile}},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{}},
		{"listen", unix.SYS_LISTEN, [6]uintptr{control, 1}},
	} {
		_, _, errno := unix.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		fmt.Fprintf(&out, "%s: %s\n", c.name, unix.ErrnoName(errno))
	}
	return out.String()
}

// sockets lists every socket that can be made.
func sockets() string {
	var out strings.Builder
	for family := range 46 {
		for kind := range 11 {
			for _, protocol := range []int{0, 1, 6, 15, 16, 17, 132, 262} {
				fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
				if err == nil {
					unix.Close(fd)
					fmt.Fprintf(&out, "%d %d %d\n", family, kind, protocol)
				}
			}
		}
	}
	return out.String()
}
