package serve

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// space is a network namespace like a cell's: there is a loopback alone, and
// 198.18.0.0/15 is local. What is made in it stays there.
type space struct {
	work chan func()
}

// newSpace makes one, for as long as the test runs.
func newSpace(t testing.TB) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	s := &space{work: make(chan func())}
	made := make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopback()
		}
		made <- err
		for f := range s.work {
			f()
		}
	}()
	t.Cleanup(func() {
		close(s.work)
		<-ended
	})
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	return s
}

// do runs f in the namespace. f must make its sockets itself.
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// loopback brings lo up, with 198.18.0.1/15 beside what it has.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, step := range []struct {
		name string
		req  uint
		set  func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
		{"lo:1", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{198, 18, 0, 1}) }},
		{"lo:1", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 254, 0, 0}) }},
	} {
		r, err := unix.NewIfreq(step.name)
		if err != nil {
			return err
		}
		if err := step.set(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, step.req, r); err != nil {
			return err
		}
	}
	return nil
}

// listen makes a listener in the namespace and returns its descriptor, which
// is the caller's.
func (s *space) listen(t testing.TB, addr string) *os.File {
	t.Helper()
	var f *os.File
	var err error
	s.do(func() {
		var l net.Listener
		if l, err = net.Listen("tcp4", addr); err == nil {
			f, err = l.(*net.TCPListener).File()
			_ = l.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// packets makes a UDP socket.
func (s *space) packets(t testing.TB, addr string) *os.File {
	t.Helper()
	var f *os.File
	var err error
	s.do(func() {
		var pc net.PacketConn
		if pc, err = net.ListenPacket("udp4", addr); err == nil {
			f, err = pc.(*net.UDPConn).File()
			_ = pc.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// dial connects in the namespace.
func (s *space) dial(network, addr string) (c net.Conn, err error) {
	s.do(func() { c, err = net.Dial(network, addr) })
	return c, err
}

// at writes an address of the namespace.
func at(a netip.Addr, port int) string { return netip.AddrPortFrom(a, uint16(port)).String() }
