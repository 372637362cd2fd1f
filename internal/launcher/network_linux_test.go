package launcher

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// networked is a small cell with a network.
func networked(ports []uint16, addrs ...string) wire.Spec {
	s := spec()
	s.Ports = ports
	for _, text := range addrs {
		s.Addrs = append(s.Addrs, netip.MustParseAddr(text).As16())
	}
	return s
}

// gate opens a cell with a network, and returns its sockets, which are closed
// in the end.
func (c *client) gate(t testing.TB, s wire.Spec) (slot uint32, sockets []int) {
	t.Helper()
	a := c.call(t, &wire.Open{Spec: s})
	o, ok := a.body.(*wire.Opened)
	if !ok || len(a.fds) != len(s.Sockets()) {
		t.Fatalf("open: %+v with %d sockets, want %d", a.body, len(a.fds), len(s.Sockets()))
	}
	return o.Slot, a.fds
}

// python runs a script in a cell.
func (c *client) python(t testing.TB, slot uint32, script string, args ...string) *process {
	t.Helper()
	return c.start(t, slot, append([]string{"/usr/bin/python3", "-I", "-S", "-c", script}, args...)...)
}

// accepted takes a connection that waits, and returns the address at which it
// came in.
func accepted(t testing.TB, listener int) (fd int, at string) {
	t.Helper()
	var err error
	eventually(t, "a connection", func() bool {
		fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd, local(t, fd)
}

func local(t testing.TB, fd int) string {
	t.Helper()
	sa, err := unix.Getsockname(fd)
	must(t, err)
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return fmt.Sprintf("%T", sa)
}

// TestGate: the sockets are what they are said to be, in their order, and the
// launcher keeps none.
func TestGate(t *testing.T) {
	c := dial(t, newPlace(t))
	s := networked([]uint16{80, 443}, "203.0.113.5", "fd00::1")
	slot, fds := c.gate(t, s)
	want := []string{
		"127.0.0.53:53 udp", "127.0.0.53:53 tcp", "127.0.0.53:3128 tcp",
		"0.0.0.0:80 tcp", "0.0.0.0:443 tcp", "[::]:80 tcp", "[::]:443 tcp",
	}
	for i, fd := range fds {
		kind := map[int]string{unix.SOCK_DGRAM: "udp", unix.SOCK_STREAM: "tcp"}[option(t, fd, unix.SOL_SOCKET, unix.SO_TYPE)]
		if got := local(t, fd) + " " + kind; got != want[i] {
			t.Errorf("socket %d is %s, want %s", i, got, want[i])
		}
		if listens := option(t, fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) == 1; listens != (kind == "tcp") {
			t.Errorf("socket %d: listens %v", i, listens)
		}
		if s.Sockets()[i].V6 && option(t, fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY) != 1 {
			t.Errorf("socket %d is of IPv4 too", i)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("socket %d blocks: %#x, %v", i, flags, err)
		}
	}
	eventually(t, "the launcher holds the front's socket, the reaper's and init's, and no other", func() bool {
		return count(targets(fdsOf(t, c.pid)), "socket") == 3
	})
	c.close(t, slot)
	none, fds := c.gate(t, spec())
	if len(fds) != 0 {
		t.Errorf("%d sockets for a cell without a network", len(fds))
	}
	c.close(t, none)
}

func option(t testing.TB, fd, level, opt int) int {
	t.Helper()
	v, err := unix.GetsockoptInt(fd, level, opt)
	must(t, err)
	return v
}

// TestTheMostSockets come with one answer.
func TestTheMostSockets(t *testing.T) {
	c := dial(t, newPlace(t))
	s := networked(nil, "fd00::1")
	for p := range wire.MaxPorts {
		s.Ports = append(s.Ports, uint16(1000+p))
	}
	for range 3 {
		slot, fds := c.gate(t, s)
		if len(fds) != wire.MaxFDs-1 {
			t.Errorf("%d sockets, want %d", len(fds), wire.MaxFDs-1)
		}
		closeAll(fds)
		c.close(t, slot)
	}
}

// TestFirstInstructionAsksForAName: whatever the program does first, the
// sockets are there, and what it says waits for whoever reads.
func TestFirstInstructionAsksForAName(t *testing.T) {
	c := dial(t, newPlace(t))
	batches := 1
	if os.Getenv("CALLCELL_LONG") != "" {
		batches = 400
	}
	for i := range batches { // each closes what it has opened
		t.Run(itoa(i), func(t *testing.T) { askFirst(t, c) })
	}
}

// askFirst has some programs ask for a name first of all.
func askFirst(t *testing.T, c *client) {
	for range 25 {
		slot, fds := c.gate(t, networked([]uint16{443}))
		p := c.start(t, slot, "/bin/bash", "-c", `echo -n query >/dev/udp/127.0.0.53/53 && echo -n hello >/dev/tcp/198.18.1.1/443 && exec 3<>/dev/tcp/127.0.0.53/53 && echo asked`)
		p.says(t, "asked")
		b := make([]byte, 100)
		var n int
		var err error
		eventually(t, "the query", func() bool {
			n, _, err = unix.Recvfrom(fds[0], b, unix.MSG_DONTWAIT)
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil || string(b[:n]) != "query" {
			t.Fatalf("%q, %v", b[:max(n, 0)], err)
		}
		if _, at := accepted(t, fds[3]); at != "198.18.1.1:443" {
			t.Fatalf("a connection came in at %s", at)
		}
		p.exit(t)
		closeAll(fds)
		c.close(t, slot)
	}
}

const reach = `
import errno, socket, sys
for at in sys.argv[1:]:
    host, port = at.rsplit(" ", 1)
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try: s.connect((host, int(port))); print(at, "connected", flush=True)
    except OSError as e: print(at, errno.errorcode[e.errno], flush=True)
`

// TestWhatACellReaches: every address of names and every literal one, at the
// ports that it has, and nothing else.
func TestWhatACellReaches(t *testing.T) {
	c := dial(t, newPlace(t))
	slot, fds := c.gate(t, networked([]uint16{80, 443}, "203.0.113.5", "fd00::1"))
	v4, v6 := fds[4], fds[6] // port 443
	inside := map[string]int{
		"198.18.0.1 443": v4, "198.18.1.0 443": v4, "198.19.255.254 443": v4, "203.0.113.5 443": v4, "127.0.0.1 443": v4, "fd00::1 443": v6, "::1 443": v6,
	}
	outside := map[string]string{
		"203.0.113.6 443": "ENETUNREACH", "8.8.8.8 53": "ENETUNREACH", "fd00::2 443": "ENETUNREACH", "10.0.0.1 443": "ENETUNREACH",
		"198.18.1.0 8080": "ECONNREFUSED", "203.0.113.5 22": "ECONNREFUSED", "127.0.0.1 3128": "ECONNREFUSED", "fd00::1 22": "ECONNREFUSED",
	}
	var args []string
	for at := range inside {
		args = append(args, at)
	}
	for at := range outside {
		args = append(args, at)
	}
	p := c.python(t, slot, reach, args...)
	for range args {
		line, ok := await(t, "the program's word", p.stdout)
		at, got := line[:max(0, strings.LastIndex(line, " "))], line[strings.LastIndex(line, " ")+1:]
		want, out := outside[at]
		if !out {
			want = "connected"
		}
		if !ok || got != want {
			t.Errorf("%q, want %s", line, want)
		}
		if listener := inside[at]; got == "connected" && listener > 0 {
			host, port, _ := strings.Cut(at, " ")
			want := netip.MustParseAddr(host).String() + ":" + port
			if strings.Contains(host, ":") {
				want = "[" + host + "]:" + port
			}
			if _, came := accepted(t, listener); came != want {
				t.Errorf("%s came in at %s", at, came)
			}
		}
	}
	p.exit(t)
	c.close(t, slot)
}

// TestNamesOfACell: where they are asked for depends on whether there is a
// network, and the files are nobody's to change.
func TestNamesOfACell(t *testing.T) {
	c := dial(t, newPlace(t))
	script := "cat /etc/resolv.conf; grep ^hosts /etc/nsswitch.conf; grep -c resolv.conf /proc/self/mountinfo; true >/etc/resolv.conf || echo read-only"
	for name, tt := range map[string]struct {
		spec  wire.Spec
		lines []string
	}{
		"without": {spec(), []string{"# no names but those of /etc/hosts", "hosts: files", "0", "read-only"}},
		"with": {networked([]uint16{443}), []string{
			"nameserver 127.0.0.53", "options timeout:2 attempts:2 ndots:0", "hosts: files dns", "1", "read-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			slot, _ := c.gate(t, tt.spec)
			p := c.start(t, slot, "sh", "-c", script+" 2>/dev/null")
			for _, want := range tt.lines {
				for {
					line, ok := await(t, "a line", p.stdout)
					if line == want {
						break
					}
					if !ok || !strings.Contains(line, "ead-only file system") { // the shell's own word
						t.Fatalf("%q, want %q", line, want)
					}
				}
			}
			p.exit(t)
			c.close(t, slot)
		})
	}
}

// TestNetworkIsHeldToItsBounds by the launcher itself, whatever a front asks
// for.
func TestNetworkIsHeldToItsBounds(t *testing.T) {
	c := dial(t, newPlace(t))
	many := slices.Repeat([]uint16{1}, wire.MaxPorts+1)
	for i := range many {
		many[i] += uint16(i)
	}
	for name, s := range map[string]wire.Spec{
		"too many ports": networked(many), "port 0": networked([]uint16{0}), "a port twice": networked([]uint16{80, 80}),
		"out of order": networked([]uint16{443, 80}), "addresses without ports": networked(nil, "203.0.113.5"),
		"loopback": networked([]uint16{80}, "127.0.0.1"), "loopback of IPv6": networked([]uint16{80}, "::1"), "unspecified": networked([]uint16{80}, "0.0.0.0"),
		"multicast": networked([]uint16{80}, "224.0.0.1"), "out of the range of names": networked([]uint16{80}, "198.18.0.9"),
		"an address twice": networked([]uint16{80}, "203.0.113.5", "203.0.113.5"),
	} {
		if f := c.refused(t, wire.KindSpec, &wire.Open{Spec: s}); !strings.HasPrefix(f.Step, "ports:") && !strings.HasPrefix(f.Step, "addrs:") {
			t.Errorf("%s: %q", name, f.Step)
		}
	}
	noGroups(t, c)
}

// TestEnforcedCoversTheNetwork: two cells with other ways out never have one
// digest.
func TestEnforcedCoversTheNetwork(t *testing.T) {
	c := dial(t, newPlace(t))
	seen := map[[32]byte]int{}
	specs := []wire.Spec{
		spec(), networked([]uint16{80}), networked([]uint16{443}), networked([]uint16{80, 443}), networked([]uint16{443}, "203.0.113.5"),
		networked([]uint16{443}, "203.0.113.6"), networked([]uint16{443}, "203.0.113.5", "fd00::1"),
	}
	for i, s := range append(specs, specs...) {
		a := c.call(t, &wire.Open{Spec: s})
		o := a.body.(*wire.Opened)
		if first, ok := seen[o.Enforced]; ok != (i >= len(specs)) || ok && first != i%len(specs) {
			t.Errorf("spec %d: seen before %v, of %d", i, ok, first)
		}
		seen[o.Enforced] = i % len(specs)
		closeAll(a.fds)
		c.close(t, o.Slot)
	}
}

// onHostNetwork waits until every thread of a process is in the network
// namespace that it was started in: one that ends is elsewhere for a moment.
func onHostNetwork(t *testing.T, pid int) {
	t.Helper()
	host := inode(t, "/proc/self/ns/net")
	eventually(t, "every thread is in the host's network", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		must(t, err)
		return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(task string) bool {
			var st unix.Stat_t
			return unix.Stat(filepath.Join(task, "ns/net"), &st) == nil && st.Ino != host
		})
	})
}
