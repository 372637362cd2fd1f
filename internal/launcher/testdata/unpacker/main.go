// Command unpacker stands in for the unpacker in tests, as one that was taken
// over by what it unpacked: the stream is a script, a command a line, and what
// comes of each is a line on descriptor 3. As the check of its own work it is the
// one that is shipped: that one has read no stream.
package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
	"github.com/callcell/callcell/internal/image/unpack"
)

const answer = 3

func main() {
	out := os.NewFile(answer, "answer")
	if len(os.Args) > 1 && os.Args[1] == "check" {
		os.Exit(unpack.CheckMain(os.Args[2:], out, os.Stderr))
	}
	for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		word, rest, _ := strings.Cut(scan.Text(), " ")
		fmt.Fprintln(out, scan.Text()+": "+do(word, rest))
	}
}

func do(word, rest string) string {
	switch word {
	case "pid":
		return strconv.Itoa(os.Getpid())
	case "args":
		return strings.Join(os.Args, " ")
	case "environ":
		return strings.Join(os.Environ(), " ")
	case "file":
		name, size, _ := strings.Cut(rest, " ")
		return said(file(name, size))
	case "dir":
		return said(os.Mkdir(rest, 0o755))
	case "list":
		return said(list())
	case "deep":
		return said(deep(rest))
	case "link":
		name, to, _ := strings.Cut(rest, " ")
		return said(os.Symlink(to, name))
	case "hard":
		name, to, _ := strings.Cut(rest, " ")
		return said(unix.Linkat(unix.AT_FDCWD, to, unix.AT_FDCWD, name, 0))
	case "open":
		_, err := os.Open(rest)
		return said(err)
	case "setuid":
		fd, err := unix.Openat(unix.AT_FDCWD, rest, unix.O_CREAT|unix.O_WRONLY, 0o4755)
		return said(err) + " " + said(unix.Fchmod(fd, 0o4755))
	case "try":
		return try()
	case "run":
		return said(exec.Command(rest).Run())
	case "eat":
		n, _ := strconv.Atoi(rest)
		b := make([]byte, n<<20)
		for i := range b {
			b[i] = 1
		}
		return strconv.Itoa(len(b))
	case "wait":
		_, err := io.Copy(io.Discard, os.Stdin)
		return said(err)
	case "spin":
		time.Sleep(time.Hour)
	case "panic":
		panic(rest)
	case "exit":
		code, _ := strconv.Atoi(rest)
		os.Exit(code)
	}
	return "unknown command"
}

func said(err error) string {
	if err == nil {
		return "ok"
	}
	if no, ok := err.(*os.PathError); ok {
		err = no.Err
	}
	return err.Error()
}

func file(name, size string) error {
	n, _ := strconv.Atoi(size)
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, n))
	if err == nil {
		err = f.Close()
	}
	return err
}

// list writes the listing of root/ as it is now.
func list() error {
	root, err := node("root")
	if err != nil {
		return err
	}
	f, err := os.Create("tree.json")
	if err != nil {
		return err
	}
	return errors.Join(fstree.List(f, root), f.Close())
}

func node(name string) (*fstree.Node, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(name)
		return &fstree.Node{Kind: fstree.Symlink, Target: target}, err
	case !info.IsDir():
		text, err := os.ReadFile(name)
		return &fstree.Node{Kind: fstree.File, Exec: info.Mode()&0o111 != 0, Size: info.Size(), Sum: sha256.Sum256(text)}, err
	}
	dir := fstree.NewDir()
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		if dir.Entries[e.Name()], err = node(name + "/" + e.Name()); err != nil {
			return nil, err
		}
	}
	return dir, err
}

// deep makes directories one in the other, deeper than any path reaches.
func deep(rest string) error {
	n, _ := strconv.Atoi(rest)
	at, err := unix.Openat(unix.AT_FDCWD, "root", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for i := 0; i < n && err == nil; i++ {
		if err = unix.Mkdirat(at, "d", 0o755); err != nil {
			break
		}
		var next int
		next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		at = next
	}
	return err
}

// try is what the process has no use for, a word for each that is not refused.
func try() string {
	var open []string
	attempt := func(name string, err error) {
		if err == nil {
			open = append(open, name)
		}
	}
	_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	attempt("socket", err)
	_, err = net.Dial("tcp", "127.0.0.1:1")
	attempt("dial", err)
	attempt("mknod", unix.Mknod("/root/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	attempt("fifo", unix.Mkfifo("/root/fifo", 0o644))
	attempt("chown", os.Lchown("/root", 0, 0))
	attempt("xattr", unix.Setxattr("/root", "user.x", []byte("x"), 0))
	attempt("rename", os.Rename("/root", "/root2"))
	attempt("mount", unix.Mount("", "/root", "tmpfs", 0, ""))
	attempt("unshare", unix.Unshare(unix.CLONE_NEWUSER))
	attempt("chroot", unix.Chroot("/root"))
	attempt("ptrace", unix.PtraceAttach(1))
	attempt("kill", unix.Kill(1, 0))
	attempt("death signal", unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0))
	_, err = unix.MemfdCreate("x", 0)
	attempt("memfd", err)
	for _, name := range []string{"/etc/passwd", "/proc/self/status", "/dev/null", "/../etc/passwd", "/usr"} {
		_, err := os.Open(name)
		attempt(name, err)
	}
	if len(open) == 0 {
		return "refused"
	}
	return strings.Join(open, " ")
}
