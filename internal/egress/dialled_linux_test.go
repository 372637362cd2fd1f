package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/serve"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestWhatWasOpenIsKnown whichever way the process ends, and a line takes the
// place of what was dialled for it.
func TestWhatWasOpenIsKnown(t *testing.T) {
	say := func(call *peer) {
		call.say(ready(""))
		for _, host := range []string{"over.test", "a.test", "a.test"} {
			call.say(dialled(host, envelope.VerdictAllowed))
		}
		call.say(line("denied.test", 443, envelope.VerdictDenied))
		call.say(line("a.test", 443, envelope.VerdictCut))
		call.say(line("over.test", 443, envelope.VerdictFailed))
	}
	for name, p := range map[string]part{
		"it dies": {begin: func(f *fake, call *peer) {
			say(call)
			f.die()
		}},
		"it dies when it is to end the call": {begin: func(_ *fake, call *peer) { say(call) }, end: func(f *fake, _ *peer) { f.die() }},
		"it does not end the call":           {begin: func(_ *fake, call *peer) { say(call) }, end: func(*fake, *peer) {}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := client(t, p)
			s := open(t, c)
			heard(t, s, 3)
			c.current.times.end = soon
			e, err := s.Close(t.Context())
			if !errors.Is(err, ErrDied) || !e.Incomplete || len(e.Attempts) != 4 || e.Connections != 2 || e.Denied != 2 || e.Failed != 1 {
				t.Fatalf("%+v, %v", e, err)
			}
			if a := e.Attempts[3]; a.Host != "a.test" || a.Port != 443 || a.Address != "192.0.2.1:443" || a.Verdict != envelope.VerdictAllowed || a.Why != whyOpenDied {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestAnEndHidesNothing: what was dialled and has no line is listed.
func TestAnEndHidesNothing(t *testing.T) {
	c, _ := client(t, part{begin: func(_ *fake, call *peer) {
		call.say(ready(""))
		call.say(dialled("a.test", envelope.VerdictAllowed))
		call.say(line("b.test", 443, envelope.VerdictAllowed))
	}, end: func(_ *fake, call *peer) {
		call.say(wire.Message{Done: &wire.Done{Egress: envelope.Egress{Connections: 1, Incomplete: true}}})
	}})
	if e := shut(t, open(t, c)); e.Incomplete || e.Connections != 1 || len(e.Attempts) != 2 || e.Attempts[1].Host != "a.test" || e.Attempts[1].Why != whyOpenEnded {
		t.Errorf("%+v", e)
	}
}

const asProcess = "CALLCELL_TEST_EGRESS"

// TestAsTheProcess is the egress process of the next test.
func TestAsTheProcess(*testing.T) {
	if os.Getenv(asProcess) != "" {
		os.Exit(serve.Main(3, os.Stderr))
	}
}

// killable starts the egress process as one of its own.
type killable struct{ cmd *exec.Cmd }

// StartEgress implements Starter.
func (k *killable) StartEgress(_ context.Context, control *os.File) (Process, error) {
	k.cmd = exec.Command("/proc/self/exe", "-test.run=^TestAsTheProcess$")
	k.cmd.Env = append(os.Environ(), asProcess+"=1")
	k.cmd.ExtraFiles = []*os.File{control}
	return k, k.cmd.Start()
}

// Close implements Process.
func (k *killable) Close(context.Context) envelope.Report {
	_ = k.cmd.Process.Kill() // it may be dead
	_ = k.cmd.Wait()         // it was killed
	return envelope.Report{Complete: true}
}

// TestWhoKillsTheProcessDoesNotEraseWhatWasOpen: as soon as the other side
// knows of a connection, the row does.
func TestWhoKillsTheProcessDoesNotEraseWhatWasOpen(t *testing.T) {
	leak.Check(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &killable{}
	c := New(k, Options{Hosts: []wire.Host{{Name: "allowed.test", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}})
	defer c.Close(context.Background())
	port := l.Addr().(*net.TCPAddr).Port
	s, g := withGuest(t, c, envelope.Network{
		Allow:   []envelope.Allow{{Host: "allowed.test", Ports: []int{port}, Protocol: envelope.ProtocolTCP}},
		Private: []envelope.Private{{CIDR: "127.0.0.1/32", Why: "the test's server"}},
	})
	if _, err := io.WriteString(g.reach("allowed.test", port), "x"); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e := dies(t, s)
	if !e.Incomplete || e.Connections != 1 || len(e.Attempts) != 1 {
		t.Fatalf("%+v", e)
	}
	if a := e.Attempts[0]; a.Host != "allowed.test" || a.Port != port || a.Address != l.Addr().String() || a.Protocol != "tcp" || a.Why != whyOpenDied {
		t.Errorf("%+v", a)
	}
}
