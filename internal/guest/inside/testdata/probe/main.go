// Command probe is the program that the tests of the guest run.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	args := os.Args[2:]
	switch os.Args[1] {
	case "exit":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		os.Exit(number(args[0]))
	case "signal":
		must(syscall.Kill(os.Getpid(), syscall.Signal(number(args[0]))))
		select {}
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		must(err)
	case "flood": // so many bytes, on both
		n := int64(number(args[0]))
		go io.CopyN(os.Stderr, zeros{}, n)
		io.CopyN(os.Stdout, zeros{}, n)
	case "show":
		show()
	case "attack":
		attack()
	case "read":
		for _, name := range args {
			b, err := os.ReadFile(name)
			st, _ := os.Stat(name)
			fmt.Printf("%s %q %v %v\n", name, b, err, st.Mode())
		}
	case "leave": // files of all kinds
		leave()
	case "fill":
		fill(args[0], number(args[1]))
	case "orphan":
		orphan()
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "bomb":
		bomb()
	case "files":
		for i := 0; ; i++ {
			if _, err := os.Open("/"); err != nil {
				fmt.Println(i, err)
				return
			}
		}
	case "talk":
		talk(args)
	case "load": // so many bytes there, and as many as come back
		c, err := net.Dial("tcp", args[0])
		must(err)
		_, err = io.CopyN(c, zeros{}, int64(number(args[1])))
		must(err)
		must(c.(*net.TCPConn).CloseWrite())
		n, err := io.Copy(io.Discard, c)
		must(err)
		fmt.Println(n)
	case "resolve":
		resolve(args)
	}
}

func number(s string) int { n, err := strconv.Atoi(s); must(err); return n }

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func show() {
	groups, _ := os.Getgroups()
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	dir, _ := os.Getwd()
	fmt.Println("ids", os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid(), groups)
	fmt.Println("session", int(sid) == os.Getpid(), "parent", os.Getppid(), "dir", dir)
	for _, limit := range []int{syscall.RLIMIT_CORE, syscall.RLIMIT_FSIZE, 6 /* NPROC */} {
		var l syscall.Rlimit
		must(syscall.Getrlimit(limit, &l))
		fmt.Println("limit", limit, l.Cur, l.Max)
	}
	for fd := range 1024 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT != 0 {
			fmt.Println("descriptor", fd)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(status), "\n") {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			fmt.Println(strings.Join(strings.Fields(line), " "))
		}
	}
	for _, v := range os.Environ() {
		fmt.Println("variable", v)
	}
}

// attack does to the guest what a program must not be able to.
func attack() {
	fmt.Println("signal:", syscall.Kill(1, syscall.SIGKILL))
	fmt.Println("trace:", syscall.PtraceAttach(1))
	for _, name := range []string{"/proc/1/mem", "/proc/1/environ", "/proc/1/fd/256"} {
		_, err := os.OpenFile(name, os.O_RDONLY, 0)
		fmt.Println("open:", err)
	}
	fmt.Println("root:", syscall.Setuid(0))
	fmt.Println("mount:", syscall.Mount("x", "/tmp", "tmpfs", 0, ""))
	fmt.Println("unmount:", syscall.Unmount("/tmp", 0))
	fmt.Println("cover:", os.WriteFile("/etc/resolv.conf", []byte("x"), 0o644))
	fmt.Println("run:", os.WriteFile("/run/ours", []byte("x"), 0o644))
}

func leave() {
	must(os.WriteFile("plain", []byte("plain"), 0o600))
	must(os.WriteFile("run.sh", []byte("#!"), 0o755))
	must(os.MkdirAll("deep/er", 0o700))
	must(os.WriteFile("deep/er/file", []byte("deep"), 0))
	must(os.Symlink("/etc/passwd", "link"))
	must(os.Symlink("deep", "dirlink"))
	must(syscall.Mkfifo("fifo", 0o600))
	must(os.WriteFile("bad\n\xffname", nil, 0o600))
	f, err := os.Create("sparse")
	must(err)
	must(f.Truncate(1 << 20))
}

func fill(name string, bytes int) {
	f, err := os.Create(name)
	must(err)
	n, err := io.CopyN(f, zeros{}, int64(bytes))
	fmt.Println(n, err)
}

// orphan leaves processes behind that hold the output open.
func orphan() {
	for range 3 {
		c := exec.Command("/bin/probe", "sleep")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(c.Start())
	}
	fmt.Println("gone")
}

// bomb starts processes until one cannot be. Neither they nor what follows may want
// a thread of Go's, of which there are none left: nothing but system calls.
func bomb() {
	said := []byte("no bound\n")
	for range 1000 {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		for errno == 0 && pid == 0 {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
		if errno != 0 {
			said = []byte(errno.Error() + "\n")
			break
		}
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&said[0])), uintptr(len(said)))
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}

// talk connects, says a text, ends its side, and prints what comes.
func talk(args []string) {
	for _, at := range args {
		c, err := net.DialTimeout("tcp", at, time.Minute)
		if err != nil {
			fmt.Println(at, "connect", err)
			continue
		}
		_, err1 := io.WriteString(c, "hello")
		err2 := c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		if err == nil && (err1 != nil || err2 != nil) { // who is told first that it is broken is told alone
			err = syscall.ECONNRESET
		}
		fmt.Printf("%s %q %v\n", at, b, err)
	}
}

// resolve sends datagrams to the name server, and prints the answers.
func resolve(args []string) {
	c, err := net.Dial("udp", "127.0.0.53:53")
	must(err)
	for _, text := range args {
		_, err := c.Write([]byte(text))
		must(err)
	}
	must(c.SetReadDeadline(time.Now().Add(5 * time.Second)))
	b := make([]byte, 512)
	for _, text := range args {
		if text == "none" {
			continue // it has no answer
		}
		n, err := c.Read(b)
		fmt.Printf("%q %v\n", b[:n], err)
	}
}
