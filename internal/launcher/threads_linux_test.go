package launcher

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThread(t *testing.T) {
	th := newThread()
	defer close(th.work)
	var tids [2]int
	for i := range tids {
		must(t, th.do(func() error {
			tids[i] = unix.Gettid()
			return nil
		}))
	}
	if tids[0] != tids[1] || tids[0] == 0 {
		t.Errorf("threads %v, want one", tids)
	}
	if err := th.do(func() error { return unix.EPERM }); !errors.Is(err, unix.EPERM) {
		t.Errorf("%v", err)
	}
}

// TestOnOwnThread: no two of them meet on one, none is the process's first, and
// none stays.
func TestOnOwnThread(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]bool{}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			onOwnThread(func() {
				mu.Lock()
				defer mu.Unlock()
				tid := unix.Gettid()
				if tid == os.Getpid() || seen[tid] {
					t.Errorf("thread %d is the first, or another's too", tid)
				}
				seen[tid] = true
			})
		})
	}
	all.Wait()
	eventually(t, "none of them is left", func() bool {
		now := threads(t)
		for tid := range seen {
			if now[tid] {
				return false
			}
		}
		return true
	})
}

func threads(t *testing.T) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	must(t, err)
	all := map[int]bool{}
	for _, e := range entries {
		all[number(e.Name())] = true
	}
	return all
}

// TestNetworkNamespaces: each is a new one, with its loopback up and nothing
// else, and the stock is what is kept.
func TestNetworkNamespaces(t *testing.T) {
	needRoot(t)
	n := newNetns()
	defer close(n.orders)
	runtime.LockOSThread() // never unlocked: it ends in a namespace of the test's
	seen := map[uint64]bool{inode(t, "/proc/thread-self/ns/net"): true}
	for range 2 * stock {
		fd, err := n.take()
		must(t, err)
		defer unix.Close(fd) // held, so that no number is used again
		var st unix.Stat_t
		must(t, unix.Fstat(fd, &st))
		if seen[st.Ino] {
			t.Error("a namespace twice")
		}
		seen[st.Ino] = true
		checkLoopback(t, fd)
	}
	eventually(t, "the stock", func() bool { return len(n.ready) == stock })
	for range stock {
		p := <-n.ready
		must(t, p.err, unix.Close(p.fd))
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Ino
}

// checkLoopback looks from inside, on the calling thread.
func checkLoopback(t *testing.T, netns int) {
	t.Helper()
	must(t, unix.Setns(netns, unix.CLONE_NEWNET))
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(s)
	to := func(ip [4]byte) error { return unix.Connect(s, &unix.SockaddrInet4{Port: 9, Addr: ip}) }
	if err := to([4]byte{127, 0, 0, 1}); err != nil {
		t.Errorf("loopback: %v", err)
	}
	if err := to([4]byte{192, 0, 2, 1}); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("elsewhere: %v, want ENETUNREACH", err)
	}
}
