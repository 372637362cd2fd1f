package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is a launcher's.
type process struct {
	pid    int
	stderr *tail
	silent chan struct{} // closed when nobody has its stderr any more: it and its reaper have ended
	exited chan struct{} // closed when it is reaped
}

// unstarted is a launcher that could not be started.
func unstarted(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		path += " (make build puts it beside callcell; helpers, in the configuration, names another directory)"
	}
	return fmt.Errorf("start the launcher %s: %w", path, err)
}

// startProcess starts a launcher, or its starter, whose end of the pair is
// socket. It is package syscall's way and not os/exec's, which starts one more
// process to try the kernel out: a start is part of every one-shot call.
func startProcess(argv []string, socket int) (*process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := wordPipe()
	if err != nil {
		return nil, err
	}
	defer unix.Close(w)
	n := null.Fd()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{n, n, uintptr(w), uintptr(socket)},
		// A session of its own: what a terminal sends to our group (Ctrl-C)
		// is for us to act on, and ends the call as cancelled.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(r)
		return nil, unstarted(argv[0], err)
	}
	p := newProcess(pid, r)
	go p.reap()
	return p, nil
}

// wordPipe returns the ends of the pipe on which a process says what is wrong.
func wordPipe() (r, w int, err error) {
	var words [2]int
	err = unix.Pipe2(words[:], unix.O_CLOEXEC)
	return words[0], words[1], err
}

// newProcess hears what a process says, on a pipe that it takes over.
func newProcess(pid, words int) *process {
	p := &process{pid: pid, stderr: &tail{}, silent: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		defer close(p.silent)
		_ = unix.SetNonblock(words, true) // a valid descriptor: it cannot fail
		f := os.NewFile(uintptr(words), "launcher's stderr")
		defer f.Close()
		_, _ = io.Copy(p.stderr, f) // ends with the launcher and its reaper
	}()
	return p
}

// reap waits for the process, so that it does not stay a zombie.
func (p *process) reap() {
	defer close(p.exited)
	for {
		if _, err := syscall.Wait4(p.pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// mourn waits for a process that is the starter's to reap.
func (p *process) mourn(pidfd int) {
	defer close(p.exited)
	defer unix.Close(pidfd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// What a launcher is replaced for. Its collector begins at 64 MiB, and its heap
// has been seen at 90; a cell is 20 descriptors at most, and the kernel's table
// of them doubles as it grows.
const (
	mostResident   = 160 << 10 // KiB
	usualFDs       = 256       // beside those of cells
	fdsPerCell     = 20
	mostSizeStatus = 8 << 10 // bytes of /proc/PID/status
)

// grown reports whether the process has more memory or more descriptors than
// one needs that had so many cells at once. Where it cannot be looked at, it
// has not.
func (p *process) grown(cells int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostSizeStatus))
	return err == nil && sizeGrown(string(text), cells)
}

// sizeGrown is grown for a text of /proc/PID/status.
func sizeGrown(status string, cells int) bool {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			continue
		}
		if name == "VmRSS" && n > mostResident || name == "FDSize" && n > 4*(usualFDs+fdsPerCell*cells) {
			return true
		}
	}
	return false
}

// tail keeps the last bytes that the launcher wrote to stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
