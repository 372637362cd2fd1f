package launcher

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestGateThatFails leaves nothing open, and no thread anywhere: what comes
// next is where it should be.
func TestGateThatFails(t *testing.T) {
	needRoot(t)
	leak.Check(t)
	s := networked([]uint16{80, 443}, "203.0.113.5")
	for name, netns := range map[string]func() int{
		"no descriptor":          func() int { return -1 },
		"a descriptor of a file": func() int { return opened(t, os.DevNull) },
		"another namespace":      func() int { return opened(t, "/proc/self/ns/uts") },
		"one that has a gate":    func() int { return withGate(t, &s) },
		"one with the last port": func() int { return withListener(t) },
	} {
		fds, err := openGate(netns(), &s)
		if err == nil || len(fds) != 0 {
			t.Errorf("%s: %v, %v", name, fds, err)
		}
	}
	onHostNetwork(t, os.Getpid())
}

func opened(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// ownNetwork makes a network namespace, which is let go of in the end.
func ownNetwork(t *testing.T) (fd int) {
	t.Helper()
	var err error
	onOwnThread(func() { fd, err = newNetworkNamespace() })
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// withGate returns a namespace that has its sockets already.
func withGate(t *testing.T, s *wire.Spec) int {
	t.Helper()
	fd := ownNetwork(t)
	fds, err := openGate(fd, s)
	must(t, err)
	t.Cleanup(func() { closeAll(fds) })
	return fd
}

// withListener returns a namespace in which somebody has the last socket's
// port.
func withListener(t *testing.T) int {
	t.Helper()
	fd, listener := ownNetwork(t), -1
	var err error
	onOwnThread(func() {
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err == nil {
			listener, err = openSocket(wire.Socket{Use: wire.UseListen, Port: 443})
		}
	})
	must(t, err)
	t.Cleanup(func() { unix.Close(listener) })
	return fd
}

// TestGateInManyNamespaces: each has its own, whatever thread makes it.
func TestGateInManyNamespaces(t *testing.T) {
	needRoot(t)
	leak.Check(t)
	s := networked([]uint16{443}, "fd00::1")
	for range 20 {
		fd := ownNetwork(t)
		fds, err := openGate(fd, &s)
		must(t, err)
		if len(fds) != len(s.Sockets()) || local(t, fds[0]) != "127.0.0.53:53" {
			t.Errorf("%d sockets", len(fds))
		}
		closeAll(fds)
	}
	onHostNetwork(t, os.Getpid())
}

// TestUnacceptedConnections: what waits is bounded, by number and by what each
// holds, and a program's own listeners have the bound that they always had.
func TestUnacceptedConnections(t *testing.T) {
	needRoot(t)
	fd := ownNetwork(t)
	fds, err := openGate(fd, &wire.Spec{Ports: []uint16{443}})
	must(t, err)
	defer closeAll(fds)
	onOwnThread(func() {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Bind(own, &unix.SockaddrInet4{Port: 9000}), unix.Listen(own, 1<<20))
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(own)
		for port, most := range map[int]int{443: gateBacklog + 1, 53: gateBacklog + 1, 9000: ownBacklog + 1} {
			waiting(t, port, most)
		}
	})
	conn, _ := accepted(t, fds[3])
	for _, opt := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if n := option(t, conn, unix.SOL_SOCKET, opt); n != socketBuffer {
			t.Errorf("a buffer of %d bytes, want %d", n, socketBuffer)
		}
	}
}

// waiting makes connections that nobody accepts, on the calling thread's network,
// and checks that so many of them are made and no more. Each is waited for before
// the next one is begun: the loopback may deliver a little later.
func waiting(t *testing.T, port, most int) {
	t.Helper()
	const more = 100
	at := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 53}}
	var made []int
	defer func() { closeAll(made) }()
	for i := range most + more {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		made = append(made, s)
		if err := unix.Connect(s, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Error(err)
		}
		if i < most && !connected(s, patience) {
			t.Errorf("%d connections to port %d wait, want %d", i, port, most)
			return
		}
	}
	for _, s := range made[most:] {
		if connected(s, 0) {
			t.Errorf("more than %d connections to port %d wait", most, port)
			return
		}
	}
}

// connected reports whether a connection is made, for which it waits so long.
func connected(s int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		p := []unix.PollFd{{Fd: int32(s), Events: unix.POLLOUT}}
		if _, err := unix.Poll(p, int(max(time.Until(deadline), 0).Milliseconds())); !errors.Is(err, unix.EINTR) {
			_, err := unix.Getpeername(s)
			return err == nil
		}
	}
}

// TestOurPortsAmongTheCells: a name server or a proxy elsewhere may be what a
// cell is to reach. Ours stay ours.
func TestOurPortsAmongTheCells(t *testing.T) {
	c := dial(t, newPlace(t))
	slot, fds := c.gate(t, networked([]uint16{53, 3128}))
	p := c.python(t, slot, reach, "127.0.0.53 53", "198.18.1.1 53", "127.0.0.53 3128", "198.18.1.1 3128", "127.0.0.1 3128")
	for i, at := range []string{"127.0.0.53:53", "198.18.1.1:53", "127.0.0.53:3128", "198.18.1.1:3128", "127.0.0.1:3128"} {
		p.says(t, strings.Replace(at, ":", " ", 1)+" connected")
		listener := fds[[]int{1, 3, 2, 4, 4}[i]]
		if _, came := accepted(t, listener); came != at {
			t.Errorf("%s came in at %s", at, came)
		}
	}
	p.exit(t)
	c.close(t, slot)
}

// TestProgramsCannotTakeOurPlace, by whatever option.
func TestProgramsCannotTakeOurPlace(t *testing.T) {
	const script = `
import errno, socket
for family, kind, host, port in ((2, 1, "0.0.0.0", 8443), (2, 1, "127.0.0.1", 8443), (2, 1, "198.18.1.1", 8443), (2, 1, "127.0.0.53", 3128), (2, 1, "0.0.0.0", 3128),
    (2, 2, "127.0.0.53", 53), (2, 2, "0.0.0.0", 53), (10, 1, "::", 8443), (10, 1, "fd00::1", 8443)):
    for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
        s = socket.socket(family, kind)
        for o in options: s.setsockopt(socket.SOL_SOCKET, o, 1)
        try:
            s.bind((host, port))
            if kind == 1: s.listen()
            print("TAKEN", host, port, options)
        except OSError as e:
            if e.errno not in (errno.EADDRINUSE, errno.EACCES): print(host, port, e)
for port in (9000, 3129):
    s = socket.socket(); s.bind(("0.0.0.0", port)); s.listen()
print("done")
`
	c := dial(t, newPlace(t))
	slot, _ := c.gate(t, networked([]uint16{3128, 8443}, "fd00::1"))
	p := c.python(t, slot, script)
	p.says(t, "done")
	p.exit(t)
	c.close(t, slot)
}

// TestManyCellsWithANetwork come and go, and leave the launcher as it was.
func TestManyCellsWithANetwork(t *testing.T) {
	c := dial(t, newPlace(t))
	c.close(t, c.open(t, spec()))
	c.close(t, c.open(t, spec())) // from now on there is a stock of namespaces
	settled := func() []string { return targets(fdsOf(t, c.pid)) }
	var before []string
	eventually(t, "the stock of network namespaces", func() bool {
		before = settled()
		return count(before, "net") == stock && count(before, "socket") == 2
	})
	for range 10 {
		var answers []<-chan answered
		for range 6 {
			answers = append(answers, c.ask(&wire.Open{Spec: networked([]uint16{80, 443, 8080}, "203.0.113.5")}))
		}
		for _, ch := range answers {
			a, _ := await(t, "an answer", ch)
			o, ok := a.body.(*wire.Opened)
			if !ok || len(a.fds) != 6 {
				t.Fatalf("%+v with %d sockets", a.body, len(a.fds))
			}
			closeAll(a.fds)
			c.close(t, o.Slot)
		}
	}
	eventually(t, "the launcher is as it was", func() bool { return len(more(before, settled())) == 0 })
	onHostNetwork(t, c.pid)
	c.hangUp(t)
	c.ended(t, 0)
}
