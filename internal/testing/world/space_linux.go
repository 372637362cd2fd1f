package world

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A space is one network namespace, and the thread in it. The namespace is
// gone when the thread, the sockets that were made in it and the processes
// that were started in it are.
type space struct {
	work chan func()
	once sync.Once
	fd   *os.File // of the namespace
}

// newSpace makes a namespace. It needs root.
func newSpace() (*space, error) {
	s := &space{work: make(chan func())}
	made := make(chan error)
	go s.thread(made)
	if err := <-made; err != nil {
		return nil, fmt.Errorf("world: new network namespace: %w", err)
	}
	return s, nil
}

// thread holds a thread in the namespace, and ends with it. It must not be the
// process's first one: that one cannot end, and /proc/self shows its namespace.
func (s *space) thread(made chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		ended := make(chan struct{})
		go func() { // on another one, because this one is held
			defer close(ended)
			s.thread(made)
		}()
		<-ended
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		s.fd, err = os.Open("/proc/thread-self/ns/net")
	}
	made <- err
	if err != nil {
		return
	}
	for f := range s.work {
		f()
	}
}

// do runs f on the space's thread. What f makes by itself, sockets and
// processes, is in the namespace; goroutines that it starts are not.
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// start starts a process in the namespace.
func (s *space) start(c *exec.Cmd) (err error) {
	s.do(func() { err = c.Start() })
	return err
}

// close ends the thread.
func (s *space) close() error {
	var err error
	s.once.Do(func() {
		close(s.work)
		err = s.fd.Close()
	})
	return err
}

// ip has iproute2 carry out commands, one a line, in the namespace. A
// namespace of another space is @N, its place among others.
func (s *space) ip(lines []string, others ...*space) error {
	text := strings.Join(lines, "\n") + "\n"
	c := exec.Command("ip", "-batch", "-")
	for i, o := range others {
		c.ExtraFiles = append(c.ExtraFiles, o.fd)
		text = strings.ReplaceAll(text, fmt.Sprintf("@%d", i), fmt.Sprintf("/proc/self/fd/%d", 3+i))
	}
	var out strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text), &out, &out
	if err := s.start(c); err != nil {
		return fmt.Errorf("world: ip: %w (scripts/setup installs iproute2)", err)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("world: ip: %w\n%s", err, out.String())
	}
	return nil
}

// The cable's ends.
const (
	NearAddr  = "11.0.0.2"
	FarAddr   = "11.0.0.1"
	NearAddr6 = "2606:2800:220:ff::2"
	FarAddr6  = "2606:2800:220:ff::1"
	Resolver  = FarAddr + ":53"
)

// SilentAddr is an address of far, silent.test, from which nothing comes back.
const SilentAddr = "93.184.216.66"

// join lays the cable. Far takes whatever arrives as its own, so it may have
// no other way to near than by the cable's own range.
func join(near, far *space) error {
	err := near.ip([]string{
		"link set lo up",
		"link add near0 type veth peer name far0",
		"link set far0 netns @0",
		"addr add " + NearAddr + "/24 dev near0",
		"addr add " + NearAddr6 + "/64 dev near0 nodad",
		"link set near0 up",
	}, far)
	if err != nil {
		return err
	}
	err = far.ip([]string{
		"link set lo up",
		"addr add " + FarAddr + "/24 dev far0",
		"addr add " + FarAddr6 + "/64 dev far0 nodad",
		"link set far0 up",
		"route add local 0.0.0.0/0 dev lo table main",
		"route add local ::/0 dev lo table main",
		"route add blackhole " + SilentAddr + "/32",
	})
	if err != nil {
		return err
	}
	return near.ip([]string{
		"route add 0.0.0.0/0 via " + FarAddr,
		"route add ::/0 via " + FarAddr6,
	})
}

// possible reports why no world can be made here, or nil.
func possible() error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network namespaces")
	}
	return nil
}
