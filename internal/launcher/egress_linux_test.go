package launcher

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// withProbe makes a place whose egress process is the one of testdata.
func withProbe(t testing.TB, settings ...string) place {
	t.Helper()
	return newPlace(t, append([]string{"egress.path = " + helper("callcell-egress-probe")}, settings...)...)
}

// A probed is an egress process that runs, and our end of the conversation
// with it.
type probed struct {
	slot    uint32
	pid     int // on this host
	control int
}

// egress starts an egress process.
func (c *client) egress(t testing.TB) *probed {
	t.Helper()
	before := members(c.parent)
	ours, theirs, err := wire.Pair()
	must(t, err)
	p := &probed{control: ours}
	t.Cleanup(func() { unix.Close(p.control) }) // a test may have done so: it is -1 then
	a := c.call(t, &wire.Egress{}, theirs)
	unix.Close(theirs)
	o, ok := a.body.(*wire.Opened)
	if !ok || len(a.fds) != 0 || o.Enforced == [32]byte{} {
		t.Fatalf("%+v with %d descriptors", a.body, len(a.fds))
	}
	p.slot = o.Slot
	must(t, unix.SetsockoptTimeval(ours, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}))
	for _, pid := range members(c.parent) {
		if !slices.Contains(before, pid) && procField(pid, "PPid") == itoa(c.pid) {
			p.pid = pid
		}
	}
	if p.pid == 0 {
		t.Fatalf("no process among %v", members(c.parent))
	}
	return p
}

// tell gives the probe a command and does not wait.
func (p *probed) tell(t testing.TB, command string, fds ...int) {
	t.Helper()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	must(t, unix.Sendmsg(p.control, []byte(command), rights, nil, unix.MSG_NOSIGNAL))
}

// hears returns the next answer, "" for the end of the conversation.
func (p *probed) hears(t testing.TB) string {
	t.Helper()
	b := make([]byte, 64<<10)
	for {
		n, err := unix.Read(p.control, b)
		switch err {
		case unix.EINTR:
			continue
		case unix.ECONNRESET:
			return ""
		}
		must(t, err)
		return string(b[:n])
	}
}

func (p *probed) ask(t testing.TB, command string, fds ...int) string {
	t.Helper()
	p.tell(t, command, fds...)
	return p.hears(t)
}

// TestEgressPlan pins the list that makes the egress process.
func TestEgressPlan(t *testing.T) {
	p := &egressPlan{jail: pinnedJail(), ceilings: conf.Default().Egress}
	pinned(t, "egress.golden", p.compile())
	inOrder(t, p.compile(), "enter the process's group", [][3]string{
		{"enter the process's group", "unshare cgroup namespace", "the process would see our group"},
		{"mount the empty root", "make it the root", "a root has to be a mount"},
		{"make it the root", "let go of the old root", "it would be let go of under our feet"},
		{"let go of the old root", "set uid", "letting go takes root"},
		{"close all others", "landlock rules", "the rules would be closed"},
		{"drop capability 40 from the bounding set", "set uid", "dropping takes a capability"},
		{"drop groups", "set uid", "the host's groups could not be dropped any more"},
		{"set gid", "set uid", "the gid could not be set any more"},
		{"set uid", "die with the launcher", "a change of credentials clears it"},
		{"no new privileges", "filter system calls", "the filter takes it"},
		{"no new privileges", "landlock", "the rules take it"},
	})
	defer func() {
		if recover() == nil {
			t.Error("a list without a filter was made")
		}
	}()
	list := vfork.New()
	defer list.Release()
	(&jail{}).confine(list, nil, "")
}

// pinnedJail is a jail as the golden lists have it.
func pinnedJail() jail {
	return jail{join: make([]int, 4), filter: make([]unix.SockFilter, 1), landlock: 7, lastCap: 40}
}

// TestEgressDoesItsWork: what the process is for is not held back.
func TestEgressDoesItsWork(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	if got := p.ask(t, "pid"); got != "1" {
		t.Errorf("it is process %s of its namespace", got)
	}
	if got, want := p.ask(t, "environ"), "GOMAXPROCS=2 GOMEMLIMIT=201326592"; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
	for _, network := range []string{"tcp 127.0.0.1:0", "tcp [::1]:0", "udp 127.0.0.1:0"} {
		kind, at, _ := strings.Cut(network, " ")
		at = echoing(t, kind, at)
		if got := p.ask(t, "echo "+kind+" "+at); got != "a word\n" {
			t.Errorf("%s: %q", network, got)
		}
	}
	if got := p.ask(t, "echo tcp 127.0.0.1:1"); !strings.Contains(got, "connection refused") {
		t.Errorf("a closed port: %q", got)
	}
	if got := p.ask(t, "addresses"); !strings.Contains(got, "127.0.0.1/8") {
		t.Errorf("addresses of this host: %q", got)
	}
	for range 5 {
		if got := p.ask(t, "work"); got != "done" {
			t.Errorf("%q", got)
		}
	}
	c.close(t, p.slot)
}

// echoing is a server of this host that sends back what comes.
func echoing(t *testing.T, network, at string) string {
	t.Helper()
	if network == "udp" {
		l, err := net.ListenPacket(network, at)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			b := make([]byte, 100)
			for {
				n, from, err := l.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = l.WriteTo(b[:n], from)
			}
		}()
		return l.LocalAddr().String()
	}
	l, err := net.Listen(network, at)
	if err != nil && strings.HasPrefix(at, "[") {
		t.Skipf("this host has no IPv6: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 100)
			n, _ := conn.Read(b) // nothing is an answer too
			_, _ = conn.Write(b[:n])
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestEgressServesACell: a connection out of a cell's network comes out at the
// process, through a socket that the launcher opened and the front passed on.
func TestEgressServesACell(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	slot, fds := c.gate(t, networked([]uint16{443}))
	p.tell(t, "serve", fds[3])
	closeAll(fds)
	pr := c.start(t, slot, "/bin/bash", "-c", `exec 3<>/dev/tcp/198.18.7.7/443; echo through the gate >&3; read -r line <&3; echo "$line"`)
	pr.says(t, "through the gate")
	pr.exit(t)
	if got := p.hears(t); got != "198.18.7.7:443 17" {
		t.Errorf("%q", got)
	}
	c.close(t, slot)
	c.close(t, p.slot)
	noGroups(t, c)
}

// TestEgressDoesNothingElse: what it has no use for is refused to it.
func TestEgressDoesNothingElse(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	lines := strings.Split(strings.TrimSpace(p.ask(t, "try")), "\n")
	if len(lines) < 19 {
		t.Errorf("only %q was tried", lines)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, ": EPERM") {
			t.Errorf("%s, want EPERM", line)
		}
	}
	want := map[string]bool{}
	for _, s := range seccomp.EgressSockets() {
		want[fmt.Sprintf("%d %d %d", s.Family, s.Type, s.Protocol)] = true
	}
	for _, line := range strings.Split(strings.TrimSpace(p.ask(t, "sockets")), "\n") {
		if !want[line] {
			t.Errorf("socket %s can be made", line)
		}
		delete(want, line)
	}
	if len(want) != 0 && os.Getenv("CALLCELL_TEST_SLOW") == "" {
		t.Errorf("sockets %v cannot be made", want)
	}
	for _, name := range []string{"/", ".", "..", "/etc/passwd", "/proc/self/status", "/dev/null", "/callcell-egress", "/proc/self/fd/4", "/dev/fd/3"} {
		if got := p.ask(t, "open "+name); !strings.Contains(got, "operation not permitted") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := p.ask(t, "run /bin/sh"); got == "<nil>" {
		t.Error("it starts a program")
	}
	if got := p.ask(t, "listen"); got == "<nil>" {
		t.Error("it listens")
	}
	c.close(t, p.slot)
}

// TestEgressExecutesNothing: not what it wrote itself; what it is given is no
// program, and nobody can make one of it.
func TestEgressExecutesNothing(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	pem := memfd(t, []byte("no program"))
	for i, line := range strings.Split(strings.TrimSpace(p.ask(t, "seize", int(pem.Fd()))), "\n") {
		want := ": EACCES <nil>"
		if i == 2 {
			want = ": ENOEXEC <nil>" // Landlock does not know files of memory
		}
		if !strings.HasSuffix(line, want) {
			t.Errorf("%q, want %q", line, want)
		}
	}
	c.close(t, p.slot)
}

// TestEgressIsNoCell: its slot takes no request but the one that ends it.
func TestEgressIsNoCell(t *testing.T) {
	c := dial(t, withProbe(t))
	p := c.egress(t)
	for _, body := range []wire.Body{
		&wire.Kill{Slot: p.slot, Cause: wire.CauseCancel}, &wire.Stop{Slot: p.slot}, &wire.Get{Slot: p.slot, Name: "x"},
		&wire.List{Slot: p.slot, Dir: "."}, &wire.Start{Slot: p.slot},
	} {
		c.refused(t, wire.KindState, body)
	}
	if got := p.ask(t, "pid"); got != "1" {
		t.Errorf("%q", got)
	}
	c.close(t, p.slot)
	if got := p.hears(t); got != "" {
		t.Errorf("after its end: %q", got)
	}
	dead(t, soon, []int{p.pid})
	c.refused(t, wire.KindState, &wire.Close{Slot: p.slot})
	noGroups(t, c)
}

// TestEgressIsHeldToWhatItGets: its one descriptor is the end of a
// conversation.
func TestEgressIsHeldToWhatItGets(t *testing.T) {
	c := dial(t, withProbe(t))
	a, b, err := wire.Pair()
	must(t, err)
	defer closeAll([]int{a, b})
	other := func(domain, kind int, listen bool) int {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		if listen {
			must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + t.Name()}), unix.Listen(fd, 1))
		}
		return fd
	}
	for name, fds := range map[string][]int{
		"none": nil, "two": {a, b}, "many": {a, a, a, a, a, a}, "a file": {opened(t, os.DevNull)}, "a directory": {opened(t, "/")},
		"a stream": {other(unix.AF_UNIX, unix.SOCK_STREAM, false)}, "of the network": {other(unix.AF_INET, unix.SOCK_DGRAM, false)},
		"a listener": {other(unix.AF_UNIX, unix.SOCK_SEQPACKET, true)},
	} {
		t.Run(name, func(t *testing.T) { c.refused(t, wire.KindSpec, &wire.Egress{}, fds...) })
	}
	noGroups(t, c)
	c.close(t, c.egress(t).slot)
}

// TestEgressWithoutABinary says where it was looked for.
func TestEgressWithoutABinary(t *testing.T) {
	for name, path := range map[string]string{
		"not there": "/nowhere/callcell-egress", "no program": write(t, "text"), "a directory": t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, newPlace(t, "egress.path = "+path))
			a, b, err := wire.Pair()
			must(t, err)
			defer closeAll([]int{a, b})
			f := c.refused(t, wire.KindSetup, &wire.Egress{}, b)
			if f.Errno == 0 || !strings.Contains(f.Step, "egress") {
				t.Errorf("%+v", f)
			}
			noGroups(t, c)
			c.close(t, c.open(t, spec())) // cells do not need it
		})
	}
}
