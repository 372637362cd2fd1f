package launcher

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The notes of the launcher to its reaper; init/reaper.c has the picture.
const (
	noteSetup = iota + 1
	noteOpen
	notePID
	noteDone
)

const (
	noteName    = 64
	reaperSlots = 1024 + otherSlots // MAX_SLOTS
)

// A reaper is the process that ends the cells when we cannot.
type reaper struct {
	pid  int
	sock int
	mu   sync.Mutex    // serialises notes
	gone chan struct{} // closed when it is dead
}

// startReaper starts the reaper. front is our end of the front's socket; the
// reaper looks at its hang-up alone.
func startReaper(init string, front int) (*reaper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reaper: socketpair: %w", err)
	}
	defer unix.Close(pair[1])
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	defer null.Close()
	n := null.Fd()
	pid, err := syscall.ForkExec(init, []string{"callcell-reaper"}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{n, n, n, uintptr(pair[1]), uintptr(front)},
	})
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("reaper: start %s: %w", init, err)
	}
	r := &reaper{pid: pid, sock: pair[0], gone: make(chan struct{})}
	go r.await()
	return r, nil
}

func (r *reaper) await() {
	reap(r.pid)
	close(r.gone)
}

func (r *reaper) note(op, slot int, name string, fds ...int) error {
	var b [8 + noteName]byte
	binary.LittleEndian.PutUint32(b[0:], uint32(op))
	binary.LittleEndian.PutUint32(b[4:], uint32(slot))
	copy(b[8:8+noteName-1], name)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		err := unix.Sendmsg(r.sock, b[:], rights, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("reaper: %w", err)
		}
		return nil
	}
}

// setup tells the reaper who we are, what claims the groups' parent, and where
// groups live.
func (r *reaper) setup(claim int, parents []int) error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("reaper: pidfd of ourselves: %w", err)
	}
	defer unix.Close(self)
	return r.note(noteSetup, 0, "", append([]int{self, claim}, parents...)...)
}

func (r *reaper) open(slot int, group string, l *lease) error {
	return r.note(noteOpen, slot, group, l.fd)
}

func (r *reaper) started(slot, pidfd int) error { return r.note(notePID, slot, "", pidfd) }

func (r *reaper) done(slot int) error { return r.note(noteDone, slot, "") }
