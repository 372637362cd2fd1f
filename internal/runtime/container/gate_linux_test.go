package container_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/testing/leak"
)

// networked is the shape of a cell that may reach hosts.
func networked(allow ...envelope.Allow) cell.Shape {
	s := shape()
	s.Envelope.Network.Allow = allow
	return s
}

// openGated opens a cell and takes its sockets, which are closed in the end.
func openGated(t *testing.T, r *container.Runtime, s cell.Shape) (cell.Cell, *cell.Gate) {
	t.Helper()
	c, err := r.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wholly(t, c.Close(context.Background())) })
	gate, err := c.(cell.Gated).Gate()
	if err != nil {
		t.Fatal(err)
	}
	if gate != nil {
		t.Cleanup(gate.Close)
	}
	return c, gate
}

func wholly(t *testing.T, report envelope.Report) {
	t.Helper()
	if !report.Complete || len(report.Checks) == 0 {
		t.Errorf("teardown: %+v", report)
	}
}

// TestGate: the ports of all entries, each once, and the addresses of those
// that are addresses.
func TestGate(t *testing.T) {
	r := newRuntime(t)
	_, gate := openGated(t, r, networked(
		envelope.Allow{Host: "b.example.com", Ports: []int{443, 80}}, envelope.Allow{Host: "*.a.example.com", Ports: []int{8080, 443}},
		envelope.Allow{Host: "203.0.113.5", Ports: []int{22}}))
	var ports []int
	for _, l := range gate.Listen {
		ports = append(ports, l.Port)
	}
	if !slices.Equal(ports, []int{22, 80, 443, 8080}) || len(gate.Files()) != 7 {
		t.Errorf("ports %v, %d files", ports, len(gate.Files()))
	}
	udp, err := net.FilePacketConn(gate.DNS)
	if err != nil || udp.LocalAddr().String() != cell.NameServer+":53" {
		t.Errorf("%v, %v", udp, err)
	} else {
		udp.Close()
	}
	for i, f := range gate.Files()[1:] {
		l, err := net.FileListener(f)
		if err != nil {
			t.Error(err)
			continue
		}
		want := []string{cell.NameServer + ":53", cell.ProxyAddress, "0.0.0.0:22", "0.0.0.0:80", "0.0.0.0:443", "0.0.0.0:8080"}[i]
		if l.Addr().String() != want {
			t.Errorf("socket %d is at %s, want %s", i+1, l.Addr(), want)
		}
		l.Close()
	}
	_, both := openGated(t, r, networked(envelope.Allow{Host: "2001:db8::5", Ports: []int{443}}))
	if len(both.Listen) != 2 || both.Listen[0].Port != 443 || both.Listen[1].Port != 443 {
		t.Errorf("%+v, want one listener of each family", both.Listen)
	}
	if _, none := openGated(t, r, shape()); none != nil {
		t.Errorf("%+v without a network", none)
	}
}

// TestGateIsTakenOnce, and what nobody takes is closed with its cell.
func TestGateIsTakenOnce(t *testing.T) {
	r := newRuntimeOf(t, 1)
	ctx := context.Background()
	c, err := r.Open(ctx, shape())
	if err != nil {
		t.Fatal(err)
	}
	wholly(t, c.Close(ctx))
	leak.Check(t) // the launcher runs
	web := envelope.Allow{Host: "example.com", Ports: []int{443}}
	c, err = r.Open(ctx, networked(web))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := c.(cell.Gated).Gate()
	if err != nil || gate == nil {
		t.Fatal(gate, err)
	}
	if again, err := c.(cell.Gated).Gate(); again != nil || !errors.Is(err, cell.ErrState) {
		t.Errorf("a second time: %v, %v", again, err)
	}
	gate.Close()
	wholly(t, c.Close(ctx))
	for range 3 {
		c, err := r.Open(ctx, networked(web))
		if err != nil {
			t.Fatal(err)
		}
		wholly(t, c.Close(ctx))
		if late, err := c.(cell.Gated).Gate(); late != nil || err == nil {
			t.Errorf("after the close: %v, %v", late, err)
		}
	}
}

// TestThroughTheGate: what a program sends to an allowed port comes out here,
// from its first instruction on, and nothing else does.
func TestThroughTheGate(t *testing.T) {
	r := newRuntime(t)
	c, gate := openGated(t, r, networked(envelope.Allow{Host: "example.com", Ports: []int{443}}))
	l, err := net.FileListener(gate.Listen[0].File)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := make([]byte, 100)
		n, _ := conn.Read(b) // nothing is an answer too
		_, _ = io.WriteString(conn, conn.LocalAddr().String()+" got "+string(b[:n]))
	}()
	var out locked
	script := `exec 3<>/dev/tcp/198.18.4.4/443; echo hello >&3; read -r line <&3; echo "$line"
(exec 4<>/dev/tcp/198.18.4.4/80) 2>/dev/null || echo no other port
(exec 4<>/dev/tcp/192.0.2.1/443) 2>/dev/null || echo no other address`
	x, err := c.Exec(context.Background(), cell.Command{Argv: []string{"/bin/bash", "-c", script}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil || x.Code != 0 {
		t.Fatalf("%+v, %v\n%s", x, err, out.String())
	}
	if want := "198.18.4.4:443 got hello\nno other port\nno other address\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if !strings.HasPrefix(x.Enforced, "sha256:") {
		t.Errorf("%q", x.Enforced)
	}
}

// TestMoreNetworkThanACellHas is refused, by its field, before a launcher is
// asked.
func TestMoreNetworkThanACellHas(t *testing.T) {
	r := newRuntime(t)
	var ports []int
	for p := range 33 {
		ports = append(ports, 1000+p)
	}
	for name, allow := range map[string]envelope.Allow{
		"ports": {Host: "example.com", Ports: ports}, "loopback": {Host: "127.0.0.1", Ports: []int{80}}, "a name's own range": {Host: "198.18.0.1", Ports: []int{80}},
	} {
		_, err := r.Open(context.Background(), networked(allow))
		var refused *cell.Error
		if !errors.As(err, &refused) || refused.Reason != envelope.ReasonPolicy || refused.Step != "network.allow" || refused.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunFiles: files of ours are there when the program starts, with their
// modes, and count as inputs do.
func TestRunFiles(t *testing.T) {
	r := newRuntime(t)
	run := func(s cell.Shape, files ...cell.RunFile) (string, cell.Exit, error) {
		c, err := r.Open(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { wholly(t, c.Close(context.Background())) }()
		if err := c.Put([]envelope.File{{Name: "callcell/ca.pem", Data: []byte("the call's")}}); err != nil {
			t.Fatal(err)
		}
		var out locked
		x, err := c.Exec(context.Background(), cell.Command{
			Argv: []string{"/bin/sh", "-c", "cd /run; find . -type f -printf '%P %m\\n' | sort; cat callcell/ca.pem /work/callcell/ca.pem"}, Env: environ(), Run: files, Stdout: &out, Stderr: &out})
		return out.String(), x, err
	}
	files := []cell.RunFile{{Name: "callcell/ca.pem", Data: []byte("ours\n"), Mode: 0o444}, {Name: "credentials/key", Data: []byte("k"), Mode: 0o400}}
	out, x, err := run(shape(), files...)
	if want := "callcell/ca.pem 444\ncredentials/key 400\nours\nthe call's"; err != nil || x.Code != 0 || out != want {
		t.Errorf("%+v, %v\n%q, want\n%q", x, err, out, want)
	}
	for name, f := range map[string]cell.RunFile{
		"up": {Name: "../etc/x", Mode: 0o444}, "from the root": {Name: "/etc/x", Mode: 0o444}, "no name": {Mode: 0o444}, "writable": {Name: "x", Mode: 0o644}, "no mode": {Name: "x"},
	} {
		if _, _, err := run(shape(), f); !errors.Is(err, cell.ErrNotStarted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	small := shape()
	small.Envelope.Files.Scratch = 64 << 10
	big := cell.RunFile{Name: "callcell/big", Data: make([]byte, 1<<20), Mode: 0o444}
	_, _, err = run(small, files[0], big)
	var refused *cell.Error
	if !errors.As(err, &refused) || refused.Step != `write "/run/callcell/big"` || !strings.Contains(refused.Hint, "files.scratch") {
		t.Errorf("more than the scratch: %v", err)
	}
}

// TestOpenWithANetworkThatNobodyAwaits gives the sockets back too.
func TestOpenWithANetworkThatNobodyAwaits(t *testing.T) {
	r := newRuntimeOf(t, 1)
	one(t, r, "/usr/bin/true")
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
	defer cancel()
	for range 10 {
		if c, err := r.Open(ctx, networked(envelope.Allow{Host: "example.com", Ports: []int{443}})); err == nil {
			wholly(t, c.Close(context.Background()))
		}
	}
	one(t, r, "/usr/bin/true") // behind the ten
}
