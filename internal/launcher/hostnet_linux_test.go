package launcher

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// TestSandboxOnTheHostsNetwork: by the operator's file alone, a sandbox with a
// network comes with the host's sockets, in a network namespace of its own; one
// without a network does not; and nothing of either is left.
func TestSandboxOnTheHostsNetwork(t *testing.T) {
	for setting, host := range map[string]bool{"runsc.network = sandbox": false, "runsc.network = host": true} {
		t.Run(setting, func(t *testing.T) {
			c := dial(t, withSandbox(t, setting))
			if c.hello.HostNet != host {
				t.Errorf("it says %v", c.hello.HostNet)
			}
			for range 2 { // then there is a stock of namespaces
				slot, _ := c.networkedSandbox(t, wire.Spec{}, 0)
				c.close(t, slot)
			}
			var before []string
			eventually(t, "the stock of network namespaces", func() bool {
				before = targets(fdsOf(t, c.pid))
				return count(before, "net") == stock
			})
			for range 3 {
				s := networked([]uint16{80, 443}, "203.0.113.5", "fd00::1")
				want := 0
				if host {
					want = len(s.Sockets())
				}
				slot, pids := c.networkedSandbox(t, s, want)
				c.close(t, slot)
				dead(t, patience, pids)
			}
			eventually(t, "the launcher is as it was", func() bool { return len(more(before, targets(fdsOf(t, c.pid)))) == 0 })
			onHostNetwork(t, c.pid)
		})
	}
}

// networkedSandbox opens a cell of LevelUserkernel with the network of s, with
// which so many sockets are to come, and waits for its guest.
func (c *client) networkedSandbox(t *testing.T, s wire.Spec, sockets int) (slot uint32, pids []int) {
	t.Helper()
	spec := userkernel()
	spec.Ports, spec.Addrs = s.Ports, s.Addrs
	a := c.call(t, &wire.Open{Spec: spec})
	defer closeAll(a.fds)
	o, ok := a.body.(*wire.Opened)
	if !ok || len(a.fds) != 1+sockets {
		t.Fatalf("%+v with %d descriptors, want %d", a.body, len(a.fds), 1+sockets)
	}
	f := os.NewFile(uintptr(a.fds[0]), "channel")
	a.fds[0] = -1
	conn, err := net.FileConn(f)
	must(t, err, f.Close())
	defer conn.Close()
	x := &sandbox{channel: conn, lines: bufio.NewScanner(conn)}
	if got := x.says(t, "hello"); !strings.HasPrefix(got, "1 ") {
		t.Errorf("the guest says %q", got)
	}
	host := inode(t, "/proc/self/ns/net")
	pids = members(c.parent) // as long as the channel is there
	seen := 0
	for _, pid := range pids {
		var st unix.Stat_t
		err := unix.Stat("/proc/"+itoa(pid)+"/ns/net", &st)
		if errors.Is(err, unix.ENOENT) {
			continue // a stub that has ended
		}
		must(t, err)
		if seen++; st.Ino == host {
			t.Errorf("process %d is in the host's network", pid)
		}
	}
	if seen == 0 {
		t.Error("there is no sandbox to look at")
	}
	return o.Slot, pids
}
