package e2e_test

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

//go:embed testdata/probe.py
var probePy string

// quickly is how long a denial may take, in seconds, on a machine that does much
// else: what is dropped in silence takes the twenty that whoever tries has patience.
const quickly = 15

// A trial is one line of what the probe says.
type trial struct {
	what   string
	result string
	took   float64
}

// open reports whether something was reached, or was waited for in vain.
func (p trial) open() bool {
	return p.result == "answer" || p.result == "made" || p.result == "time-out"
}

// probe runs the probe in a cell. Each item is WHAT and its arguments.
func (s *stand) probe(network string, items ...[]any) ([]trial, *answer) {
	s.t.Helper()
	list, err := json.Marshal(items)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.run(call{network: network, argv: []string{"/usr/bin/python3", "probe.py", "items.json"},
		files: map[string]string{"probe.py": probePy, "items.json": string(list)}})
	a.ok(s.t)
	var trials []trial
	for lines := bufio.NewScanner(strings.NewReader(a.stdout)); lines.Scan(); {
		var what, result string
		var took float64
		if err := json.Unmarshal(lines.Bytes(), &[]any{&what, &result, &took}); err != nil {
			s.t.Fatalf("%s: %v", lines.Text(), err)
		}
		trials = append(trials, trial{what, result, took})
	}
	if len(trials) != len(items) {
		s.t.Fatalf("%d of %d were tried\n%s", len(trials), len(items), a.stderr)
	}
	return trials, a
}

// refused fails the test where a trial reached something or took long.
func refused(t testing.TB, trials []trial) {
	t.Helper()
	for _, p := range trials {
		if p.open() || p.took >= quickly {
			t.Errorf("%s: %s after %.3f s", p.what, p.result, p.took)
		}
	}
}

// each makes a trial of every host.
func each(what string, port int, hosts ...string) (items [][]any) {
	for _, host := range hosts {
		items = append(items, []any{what, host, port})
	}
	return items
}

func lookups(names ...string) (items [][]any) {
	for _, name := range names {
		items = append(items, []any{"resolve", name})
	}
	return items
}

// everywhere are addresses at which something would answer: of servers, of
// this host, of its network, of its metadata service.
func everywhere() []string {
	return []string{
		"93.184.216.10", "93.184.216.12", "2606:2800:220::13", "2606:2800:220::14", "::ffff:93.184.216.12", "64:ff9b::5db8:d80c",
		world.NearAddr, world.FarAddr, world.NearAddr6, world.FarAddr6, "10.0.0.5", "172.17.0.1", "192.168.1.1",
		"169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "224.0.0.251", "255.255.255.255", "198.51.100.7",
	}
}

// TestWhatIsNotAllowedFailsFast tries every other way out that a program has.
func TestWhatIsNotAllowedFailsFast(t *testing.T) { notAllowedFailsFast(t, usual(t)) }

func notAllowedFailsFast(t *testing.T, s *stand) {
	t.Helper()
	query := "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06denied\x04test\x00\x00\x01\x00\x01"
	for _, tt := range []struct {
		name  string
		items [][]any
	}{
		{"addresses", append(each("tcp", 443, everywhere()...), each("tcp", 9931, everywhere()...)...)},
		{"addresses of the cell that have no name", append(each("tcp", 443, "198.18.0.1", "198.18.1.77", "198.19.255.254", "127.0.0.1", "127.0.0.53", "127.1.2.3"),
			each("tcp", 8080, "198.18.1.77", "127.0.0.1", "0.0.0.0")...)},
		{"other ports of an allowed name", [][]any{{"name", "allowed.test", 22}, {"name", "allowed.test", 80}, {"name", "allowed.test", 8443},
			{"name", "allowed.test", 9931}, {"name", "allowed.test", 5432}, {"name", "db.test", 443}, {"name", "db.test", 8080}}},
		{"UDP", append(append(each("udp", 443, everywhere()...), each("udp", 53, everywhere()...)...),
			[]any{"udp", "198.18.0.1", 443}, []any{"udp", world.FarAddr, 53, query}, []any{"udp", world.FarAddr6, 53, query})},
		{"ICMP", [][]any{{"ping", "93.184.216.10", "SOCK_RAW"}, {"ping", "93.184.216.10", "SOCK_DGRAM"}, {"ping", world.FarAddr, "SOCK_DGRAM"},
			{"ping", "2606:2800:220::14", "SOCK_RAW"}, {"ping", "2606:2800:220::14", "SOCK_DGRAM"}}},
		{"other families", [][]any{{"family", 17, 3, 768}, {"family", 17, 2, 768}, {"family", 40, 1}, {"family", 38, 5}, {"family", 44, 3}, {"family", 2, 3, 255}, {"family", 10, 3, 255}}},
		{"names that look alike", lookups("denied.test", "xallowed.test", "allowed.test.evil.test", "www.allowed.test", "allowed-test", "allowed.tes", "allowed.testt",
			"allowed", "test", "all0wed.test", "\u0430llowed.test", "allowed.test\u3002evil", "allowed..test", "*.allowed.test", "allowed.test%00", "_443._tcp.allowed.test",
			strings.Repeat("a", 63)+".allowed.test", "c2VjcmV0.leak.test", "host.docker.internal", "host.containers.internal", "metadata.google.internal", "93.184.216.12.nip.test")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			trials, a := s.probe(everyday, tt.items...)
			for _, p := range trials {
				if strings.HasPrefix(p.what, "resolve ") && !strings.HasPrefix(p.result, "EAI ") && p.result != "no name" {
					t.Errorf("%s: %s", p.what, p.result)
				}
			}
			refused(t, trials)
			m.Nothing(t)
			if a.Egress == nil || a.Egress.Connections != 0 {
				t.Errorf("counters: %s", a.end())
			}
		})
	}
}

// TestWithoutNetworkThereIsNone: a call that names nothing has no names, no
// proxy and no listener.
func TestWithoutNetworkThereIsNone(t *testing.T) { withoutNetwork(t, usual(t)) }

func withoutNetwork(t *testing.T, s *stand) {
	t.Helper()
	m := s.world.Mark(t)
	items := append(lookups("allowed.test", "denied.test"), each("tcp", 443, append(everywhere(), "198.18.0.1", "127.0.0.1")...)...)
	items = append(items, []any{"tcp", "127.0.0.53", 3128}, []any{"tcp", "127.0.0.53", 53}, []any{"udp", "127.0.0.53", 53}, []any{"bind", "127.0.0.1", 8443})
	trials, a := s.probe("", items...)
	last := len(trials) - 1
	refused(t, trials[:last])
	if trials[last].result != "answer" {
		t.Errorf("the cell's own loopback: %+v", trials[last])
	}
	m.Nothing(t)
	if a.Egress != nil {
		t.Errorf("a row of attempts: %s", a.end())
	}
}

// stopped reports whether policy has ended an attempt.
func stopped(l envelope.Attempt) bool {
	return l.Verdict == envelope.VerdictDenied || l.Verdict == envelope.VerdictCut
}

// TestDenialsAreInTheRow: what a program tried, as the host saw it.
func TestDenialsAreInTheRow(t *testing.T) { denialsAreInTheRow(t, usual(t)) }

func denialsAreInTheRow(t *testing.T, s *stand) {
	t.Helper()
	_, a := s.probe(everyday, []any{"resolve", "denied.test"}, []any{"tcp", "198.18.1.77", 443}, []any{"name", "allowed.test", 443})
	for _, want := range []struct {
		host string
		port int
	}{{"denied.test", 0}, {"198.18.1.77", 443}} {
		if lines := a.tried(want.host, want.port); len(lines) == 0 || lines[0].Verdict.String() != "denied" || lines[0].Why == "" {
			t.Errorf("%s:%d: %s", want.host, want.port, a.end())
		}
	}
	if lines := a.tried("allowed.test", 443); len(lines) != 1 || !stopped(lines[0]) || lines[0].Why == "" {
		t.Errorf("a connection without TLS to a port of TLS: %s", a.end())
	}
	if a.Egress == nil || a.Egress.Denied < 2 {
		t.Errorf("counters: %+v", a.Egress)
	}
	row, err := json.Marshal(a.Egress)
	if err != nil || len(row) > 10_000 {
		t.Errorf("the row: %d bytes, %v", len(row), err)
	}
	for _, l := range a.attempts() {
		if l.At.IsZero() || l.Host == "" {
			t.Errorf("a line that says too little: %+v", l)
		}
	}
	if t.Failed() {
		t.Log(fmt.Sprint(a.end()))
	}
}
