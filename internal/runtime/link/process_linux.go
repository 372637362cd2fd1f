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

// startProcess starts a launcher whose end of the pair is socket. It is
// package syscall's way and not os/exec's, which starts one more process to
// try the kernel out: a start is part of every one-shot call.
func startProcess(path, conf string, socket int) (*process, error) {
	argv := []string{path}
	if conf != "" {
		argv = append(argv, "-config", conf)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	var words [2]int
	if err := unix.Pipe2(words[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	r, w := words[0], words[1]
	defer unix.Close(w)
	n := null.Fd()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{n, n, uintptr(w), uintptr(socket)},
		// A session of its own: what a terminal sends to our group (Ctrl-C)
		// is for us to act on, and ends the call as cancelled.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(r)
		return nil, unstarted(path, err)
	}
	p := &process{pid: pid, stderr: &tail{}, silent: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		defer close(p.silent)
		_ = unix.SetNonblock(r, true) // a valid descriptor: it cannot fail
		f := os.NewFile(uintptr(r), "launcher's stderr")
		defer f.Close()
		_, _ = io.Copy(p.stderr, f) // ends with the launcher and its reaper
	}()
	go p.reap()
	return p, nil
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
