package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// notPublic are addresses that no allowed name may lead to, with what they
// are.
func notPublic() map[string]string {
	return map[string]string{
		"127.0.0.1": "loopback", "127.8.9.10": "loopback", "::1": "loopback, IPv6",
		"0.0.0.0": "unspecified", "::": "unspecified, IPv6", "0.1.2.3": "this network",
		"10.0.0.5": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"100.64.0.1": "shared by carriers", "100.100.100.200": "metadata", "169.254.169.254": "metadata", "168.63.129.16": "metadata, public",
		"192.0.0.192": "metadata", "fd00:ec2::254": "metadata, IPv6",
		"169.254.1.1": "link", "fe80::1": "link, IPv6", "fe80::5efe:a00:1": "ISATAP",
		"224.0.0.251": "multicast", "ff02::1": "multicast, IPv6", "255.255.255.255": "broadcast", "240.0.0.1": "reserved",
		"192.0.2.7": "documentation", "198.51.100.7": "documentation", "203.0.113.7": "documentation", "2001:db8::10": "documentation, IPv6",
		"198.18.0.1": "benchmarks, and the cells' own", "198.19.255.255": "benchmarks",
		"::ffff:127.0.0.1": "mapped", "::ffff:10.0.0.5": "mapped", "::ffff:169.254.169.254": "mapped", "::7f00:1": "compatible",
		"64:ff9b::7f00:1": "NAT64", "64:ff9b::a9fe:a9fe": "NAT64", "64:ff9b:1::7f00:1": "NAT64 of the site",
		"2002:7f00:1::1": "6to4", "2002:a00:5::1": "6to4", "2001::80ff:fffe": "Teredo", "2001:0:4136:e378:8000:63bf:f5ff:fffa": "Teredo",
		"fc00::1": "unique local", "fd12:3456::1": "unique local", "fec0::1": "of the site", "100::1": "discard",
		world.NearAddr: "this host's own, public", world.NearAddr6: "this host's own, public, IPv6",
	}
}

// namesOfPrivateAddresses has a name for each address below one that is
// allowed, and one cell that tries them all.
func namesOfPrivateAddresses(t *testing.T, s *stand) {
	const network = "  allow: [{host: '*.pointed.test', ports: [9931], protocol: tcp}, {host: '*.pointed.test', ports: [8080], protocol: http}]\n"
	var items [][]any
	host := map[string]string{} // of an address
	for i, addr := range sortedKeys(notPublic()) {
		host[addr] = fmt.Sprintf("n%d.pointed.test", i)
		s.world.Set(host[addr], world.Always(addr))
		items = append(items, each("name", 9931, host[addr])...)
		items = append(items, each("web", 8080, host[addr])...)
	}
	m := s.world.Mark(t)
	trials, a := s.probe(network, items...)
	refused(t, trials)
	for _, p := range m.Packets(t) {
		if p.To.String() != world.Resolver {
			t.Errorf("a packet left: %+v", p)
		}
	}
	if strays := m.Strays(); len(strays) > 0 {
		t.Errorf("INT was hit: %v", strays)
	}
	for addr, what := range notPublic() {
		lines := a.tried(host[addr], 9931)
		if len(lines) != 1 || lines[0].Verdict != envelope.VerdictDenied || !strings.Contains(lines[0].Why, "address not allowed") {
			t.Errorf("%s, %s: %v", addr, what, lines)
		}
		a.row(t, host[addr], 8080, envelope.VerdictDenied, "address not allowed")
	}
	if t.Failed() {
		t.Log(a.end())
	}
	mixedAnswers(t, s)
	privateExceptions(t, s)
}

// mixedAnswers: of several addresses those that are public are dialled, and no
// other.
func mixedAnswers(t *testing.T, s *stand) {
	s.world.Set("mixed.pointed.test", world.Always("127.0.0.1", "10.0.0.5", "93.184.216.10", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1"))
	m := s.world.Mark(t)
	a := s.run(call{network: "  allow: [{host: mixed.pointed.test, ports: [8080], protocol: http}]\n", sh: "for i in 1 2 3 4 5; do curl -sS -f http://mixed.pointed.test:8080/ || exit 1; done"})
	a.ok(t)
	if hits, strays := m.Hits(), m.Strays(); len(hits) != 5 || len(strays) != 0 {
		t.Errorf("hits %v, INT %v", hits, strays)
	}
	for _, p := range m.Packets(t) {
		if to := p.To.String(); to != world.Resolver && to != "93.184.216.10:8080" {
			t.Errorf("a packet left: %+v", p)
		}
	}
}

// privateExceptions: a range that the envelope lists may be dialled, and no
// other, and this host's own addresses only where each is listed by itself.
func privateExceptions(t *testing.T, s *stand) {
	const private = "  allow: [{host: '*.pointed.test', ports: [9931], protocol: tcp}]\n  private: [%s]\n"
	entry := func(cidr string) string { return fmt.Sprintf(private, "{cidr: "+cidr+", why: a test of it}") }
	s.world.Set("ten.pointed.test", world.Always("10.0.0.5"))
	s.world.Set("own.pointed.test", world.Always(world.NearAddr))
	for _, tt := range []struct {
		cidr, host string
		stray      string // where it gets to; "" nowhere
	}{
		{"10.0.0.0/24", "ten.pointed.test", "10.0.0.5:9931"},
		{"10.0.1.0/24", "ten.pointed.test", ""},
		{"11.0.0.0/24", "own.pointed.test", ""},
		{world.NearAddr + "/32", "own.pointed.test", world.NearAddr + ":9931"},
	} {
		m := s.world.Mark(t)
		s.probe(entry(tt.cidr), each("name", 9931, tt.host)...)
		var got []string
		for _, stray := range m.Strays() {
			got = append(got, stray.To.String())
		}
		if strings.Join(got, " ") != tt.stray {
			t.Errorf("%s with %s: got to %q, want %q", tt.host, tt.cidr, got, tt.stray)
		}
	}
}

// waiter opens a connection, waits for its end, and then tries to get out as
// long as it lives.
const waiter = `
import socket, ssl, sys, time, urllib.request
context = ssl.create_default_context(cafile="ca.pem")
def get(path): return urllib.request.urlopen("https://allowed.test" + path, timeout=25, context=context)
print("before", get("/before").status, flush=True)
held = get("/drip")
held.read(1)
get("/ready")
try:
    while held.read(1): pass
    print("held ended", flush=True)
except OSError as e: print("held", type(e).__name__, flush=True)
tries = []
for i in range(5):
    began = time.monotonic()
    for url in ("https://allowed.test/after", "http://allowed.test:8080/after", "https://denied.test/after"):
        try: print("OPEN", url, urllib.request.urlopen(url, timeout=5, context=context).status, flush=True)
        except OSError as e: pass
    for host in ("allowed.test", "denied.test"):
        try: socket.getaddrinfo(host, 443)
        except OSError: pass
    print("took", time.monotonic() - began, flush=True)
`

// deadGuard kills the egress process in the middle of a call.
func deadGuard(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	killed := 0
	a := s.run(call{network: everyday, python: waiter, during: func() {
		awaitHit(t, m, "/ready")
		for _, pid := range s.processes("callcell-egress") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			killed++
		}
	}})
	if killed != 1 {
		t.Fatalf("%d egress processes were there\n%s", killed, a.end())
	}
	if a.Outcome != envelope.OutcomeBroken || !strings.HasPrefix(a.stdout, "before 200\n") {
		t.Errorf("%s\n%s%s", a.end(), a.stdout, a.stderr)
	}
	if strings.Contains(a.stdout, "OPEN") {
		t.Errorf("something was reached after it:\n%s", a.stdout)
	}
	for _, h := range m.Hits() {
		if h.Path == "/after" {
			t.Errorf("a request came after it: %+v", h)
		}
	}
	m.Only(t, "allowed.test:443")
	if a.Teardown == nil || !a.Teardown.Complete {
		t.Errorf("teardown: %+v", a.Teardown)
	}
	enforced(t, s)
}

// patience bounds what is waited for.
const patience = time.Minute

// awaitHit waits for a request.
func awaitHit(t *testing.T, m world.Mark, path string) {
	t.Helper()
	await(t, "no request for "+path, func() bool {
		return slices.ContainsFunc(m.Hits(), func(h world.Hit) bool { return h.Path == path })
	})
}

// await waits until something is so.
func await(t *testing.T, fault string, so func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline:
			t.Error(fault)
			return
		case <-tick.C:
		}
	}
}

// processes are the numbers of those that run one of our binaries.
func (s *stand) processes(binary string) (pids []int) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range links {
		if exe, err := os.Readlink(l); err != nil || exe != filepath.Join(s.bin, binary) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l)))
		if err != nil {
			s.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
