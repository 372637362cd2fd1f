package e2e_test

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

var (
	//go:embed testdata/relay.py
	relayPy string
	//go:embed testdata/dns.py
	dnsPy string
)

// TestNetworkCases replays what went wrong with the network of other
// sandboxes, in real cells of the real command. docs/cases.md lists the cases
// by number.
func TestNetworkCases(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*testing.T, *stand)
	}{
		{"13 a list that is shown and not enforced", listIsEnforced},
		{"14 a policy with a misspelt key, or without its switch", policyIsClosed},
		{"15 a relay inside launders a CONNECT", relayLaundersNothing},
		{"17 names as a leak", namesLeakNothing},
		{"18 only IPv4 is filtered", bothFamilies},
		{"19 the host's own services by special names", hostIsOutOfReach},
		{"20 a wildcard and the bare name", wildcards},
		{"22 empty entries, final dots, capitals, ports in the entry", spellings},
		{"23 another name inside TLS, or in the request", otherNamesInside},
		{"24 a name opens every port of its address", portsOfAName},
		{"26 the guard dies and the cell lives on", deadGuard},
		{"27 an allowed name that leads to an address that is not public", namesOfPrivateAddresses},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.play(t, usual(t)) })
	}
}

func listIsEnforced(t *testing.T, s *stand) {
	for range 5 {
		enforced(t, s)
	}
}

// enforced tries ten times what is allowed and what is not, with the proxy and
// without it.
func enforced(t *testing.T, s *stand) {
	t.Helper()
	const script = `
for i in 1 2 3 4 5 6 7 8 9 10; do
for u in https://allowed.test/ https://denied.test/ http://denied.test:8080/ http://denied.test/ http://allowed.test/; do
	curl -s --cacert ca.pem -m20 -o /dev/null -w "$u %{http_code} %{time_total}\n" $u
	curl -s --cacert ca.pem -m20 -o /dev/null -w "$u %{http_code} %{time_total}\n" --noproxy '*' $u
done; done; true`
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, sh: script})
	a.ok(t)
	passed := 0
	for line := range strings.Lines(a.stdout) {
		var url, code string
		var seconds float64
		if _, err := fmt.Sscan(line, &url, &code, &seconds); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch allowed := url == "https://allowed.test/"; {
		case allowed && code == "200":
			passed++
		case allowed, code == "200", seconds >= quickly:
			t.Error(line)
		}
	}
	if passed != 20 {
		t.Errorf("%d of 20 requests passed\n%s\n%s", passed, a.stdout, a.end())
	}
	m.Only(t, "allowed.test:443")
	if hits := m.Hits(); len(hits) != 20 {
		t.Errorf("%d requests came", len(hits))
	}
}

func policyIsClosed(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	for _, tt := range []struct{ network, field string }{
		{"  alow: [{host: allowed.test, ports: [443]}]\n", "network.alow"},
		{"  allow: [{hosts: allowed.test, ports: [443]}]\n", "network.allow[0].hosts"},
		{"  mode: open\n", "network.mode"},
		{"  fetch: all\n", "network.fetch"},
		{"  allow: [{host: allowed.test}]\n", "network.allow[0].ports"},
		{"  allow: [{host: allowed.test, ports: []}]\n", "network.allow[0].ports"},
	} {
		a := s.run(call{network: tt.network, sh: "curl -sk -m4 https://denied.test/"})
		if a.Refusal == nil || a.Refusal.Reason != envelope.ReasonRequest || a.Refusal.Field != tt.field || a.Refusal.Hint == "" {
			t.Errorf("%s: %s", tt.network, a.end())
		}
	}
	for _, network := range []string{"  allow: []\n", "  {}\n", "  allow: null\n", "  fetch: public\n"} {
		a := s.run(call{network: network, sh: "curl -sk -m20 https://allowed.test/; test $? = 6 || exit 9; curl -sk -m20 https://93.184.216.12/; test $? = 7"})
		if a.Refusal == nil {
			a.ok(t)
		}
	}
	m.Nothing(t)
}

func relayLaundersNothing(t *testing.T, s *stand) {
	for _, tt := range []struct {
		target, want string
		lines        int
	}{
		{"denied.test:443", "HTTP/1.[01] 403 .*denied.test", 4},
		{"allowed.test:22", "HTTP/1.[01] 403 .*", 4},
		{"93.184.216.10:443", "HTTP/1.[01] 403 .*", 4},
		{"127.0.0.1:9931", "HTTP/1.[01] 403 .*", 4},
		{"allowed.test:443@denied.test:443", "HTTP/1.[01] 40[03] .*", 4},
		{"[::ffff:7f00:1]:443", "HTTP/1.[01] 403 .*", 4},
		{"allowed.test:443", "HTTP/1.[01] 200 .*", 4},
	} {
		m := s.world.Mark(t)
		a := s.run(call{network: everyday, argv: []string{"/usr/bin/python3", "relay.py", tt.target}, files: map[string]string{"relay.py": relayPy}})
		a.ok(t)
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		for _, line := range lines {
			if !regexp.MustCompile("^" + tt.want).MatchString(line) {
				t.Errorf("%s: %s", tt.target, line)
			}
		}
		if len(lines) != tt.lines {
			t.Errorf("%s: %s%s", tt.target, a.stdout, a.end())
		}
		if strings.Contains(tt.want, "200") {
			m.Only(t, "allowed.test:443")
		} else {
			m.Nothing(t)
		}
	}
}

func namesLeakNothing(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, sh: `
curl -s -f -m3 http://c2VjcmV0.leak.test/ && exit 1
curl -s -f -m3 --noproxy '*' http://c2VjcmV0.leak.test/ && exit 2
curl -s -f -m3 --noproxy '*' http://c2VjcmV0.allowed.test/ && exit 3
getent hosts aa.bb.leak.test && exit 4
for type in A AAAA TXT MX SRV HTTPS SVCB ANY NULL CNAME NS SOA PTR; do python3 dns.py $type zz.leak.test; done
python3 dns.py A 1.0.0.10.in-addr.arpa
echo done`, files: map[string]string{"dns.py": dnsPy}})
	a.ok(t)
	answers := strings.Split(strings.TrimSuffix(a.stdout, "done\n"), "\n")
	for _, line := range answers[:len(answers)-1] {
		if line != "udp rcode 3, 0 answers" && line != "tcp rcode 3, 0 answers" {
			t.Error(line)
		}
	}
	if len(answers) != 2*14+1 {
		t.Errorf("%d answers: %s", len(answers), a.stdout)
	}
	m.Nothing(t)
	a.row(t, "c2vjcmv0.leak.test", 0, envelope.VerdictDenied, "")
}

func bothFamilies(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	trials, _ := s.probe(everyday, each("tcp", 443, "2001:db8::10", "2606:2800:220::12", "2606:2800:220::13", world.NearAddr6, world.FarAddr6, "::1", "::", "fe80::1", "ff02::1")...)
	refused(t, trials)
	a := s.run(call{network: everyday, sh: unset + "curl -6 -sk -m20 https://denied.test/; test $? = 6 && curl -g -6 -sk -m20 'https://[2606:2800:220::14]/'; test $? = 7"})
	a.ok(t)
	m.Nothing(t)
	const six = "  allow: [{host: six.test, ports: [443]}, {host: dual.test, ports: [443]}]\n"
	m = s.world.Mark(t)
	s.run(call{network: six, sh: "curl -sS --cacert ca.pem https://six.test/ && curl -sS --cacert ca.pem https://dual.test/"}).ok(t)
	m.Only(t, "six.test:443", "dual.test:443")
}

func hostIsOutOfReach(t *testing.T, s *stand) {
	const names = "host.docker.internal host.containers.internal gateway.docker.internal localhost ip6-localhost vm metadata metadata.google.internal instance-data"
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, sh: `
gw=$(ip route 2>/dev/null | awk '/default/{print $3}')
for h in ` + names + ` $gw $(hostname) $(hostname -i) 169.254.169.254 100.100.100.200 172.17.0.1 10.0.2.2 ` + world.NearAddr + ` ` + world.FarAddr + ` 198.18.0.1 127.0.0.53; do
  for p in 80 2375 8080 9931; do timeout 20 bash -c "exec 3<>/dev/tcp/$h/$p" 2>/dev/null; case $? in 0) echo OPEN $h:$p;; 124) echo HANGS $h:$p;; esac; done; done; true`})
	a.ok(t)
	// The listener of a port that is allowed takes every connection and ends
	// those without a name.
	for line := range strings.Lines(a.stdout) {
		if !strings.HasSuffix(line, ":8080\n") || strings.HasPrefix(line, "HANGS") {
			t.Error(line)
		}
	}
	m.Nothing(t)
}

func wildcards(t *testing.T, s *stand) {
	const network = "  allow: [{host: '*.api.test', ports: [443]}]\n"
	m := s.world.Mark(t)
	a := s.run(call{network: network, sh: `
for h in a.api.test a.b.api.test api.test xapi.test; do
	curl -s --cacert ca.pem -o /dev/null -w "$h %{http_code} %{exitcode}\n" --noproxy '*' https://$h/
	curl -s --cacert ca.pem -o /dev/null -w "$h %{http_code} %{exitcode} proxy %{http_connect}\n" https://$h/
done; curl -s -p -x $HTTPS_PROXY https://api.test/; curl -v -s https://api.test/ 2>&1 | grep '^< '; true`})
	a.ok(t)
	for _, want := range []string{
		"a.api.test 200 0\n", "a.b.api.test 200 0\n", "api.test 000 6\n", "xapi.test 000 6\n",
		"a.api.test 200 0 proxy 200\n", "a.b.api.test 200 0 proxy 200\n", "api.test 000 56 proxy 403\n", "xapi.test 000 56 proxy 403\n",
	} {
		if !strings.Contains(a.stdout, want) {
			t.Errorf("want %s%s", want, a.stdout)
		}
	}
	a.row(t, "api.test", 0, envelope.VerdictDenied, "*.api.test")
	a.row(t, "api.test", 443, envelope.VerdictDenied, "*.api.test")
	for _, q := range m.Queries() {
		if q.Name != "a.api.test." && q.Name != "a.b.api.test." {
			t.Errorf("asked for %v", q)
		}
	}
}

func spellings(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	for _, host := range []string{"", ".", "*", "*.", "ALLOWED.test.", "allowed.test.", "Allowed.test", "allowed.test:443", "https://allowed.test/", "allowed.test/x", "*.test", "*.co.uk", "a.*.test", "user@allowed.test", "allowed test", "allowed..test", "-x.test"} {
		a := s.run(call{network: fmt.Sprintf("  allow: [{host: %q, ports: [443]}]\n", host), sh: "true"})
		if a.Refusal == nil || a.Refusal.Field != "network.allow[0].host" || a.Refusal.Hint == "" {
			t.Errorf("%q: %s", host, a.end())
		}
	}
	m.Nothing(t)
	a := s.run(call{network: everyday, sh: `
for u in https://denied.test./ https://DENIED.test/ https://allowed.test.denied.test./ https://ALLOWED.TEST./ https://Allowed.Test/ https://allowed.test./; do
	for p in '' '*'; do curl -s -k -m20 -o /dev/null -w "$u %{http_code} %{time_total}\n" --noproxy "$p" $u; done
done; true`})
	a.ok(t)
	good := 0
	for line := range strings.Lines(a.stdout) {
		if strings.Contains(line, " 200 ") != strings.HasPrefix(strings.ToLower(line), "https://allowed.test./") && strings.Contains(line, " 200 ") != strings.HasPrefix(line, "https://Allowed.Test/") {
			t.Error(line)
		}
		if strings.Contains(line, " 200 ") {
			good++
		}
	}
	if good != 6 {
		t.Errorf("%d of 6 spellings of the allowed name\n%s%s", good, a.stdout, a.end())
	}
	m.Only(t, "allowed.test:443")
}

func otherNamesInside(t *testing.T, s *stand) {
	for _, tt := range []struct{ name, script string }{
		{"TLS by the proxy", "openssl s_client -proxy ${HTTPS_PROXY#*//} -connect allowed.test:443 -servername denied.test </dev/null"},
		{"TLS", "openssl s_client -connect allowed.test:443 -servername denied.test </dev/null"},
		{"TLS without a name", "openssl s_client -connect allowed.test:443 -noservername </dev/null"},
		{"TLS without a name, by the proxy", "openssl s_client -proxy ${HTTPS_PROXY#*//} -connect allowed.test:443 -noservername </dev/null"},
		{"TLS of an allowed name to another one's address", "openssl s_client -connect allowed.test:443 -servername xallowed.test </dev/null"},
		{"a request", "curl -s -f -H 'Host: denied.test' http://allowed.test:8080/echo"},
		{"a request by the proxy", "curl -s -f -p -H 'Host: denied.test' http://allowed.test:8080/echo"},
		{"a request by the proxy, in absolute form", "curl -s -f --proxy $HTTP_PROXY --request-target http://denied.test:8080/echo http://allowed.test:8080/echo"},
		{"a request in absolute form", "curl -s -f --noproxy '*' --request-target http://denied.test:8080/echo http://allowed.test:8080/echo"},
		{"something that is no TLS", "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 20 bash -c 'exec 3<>/dev/tcp/allowed.test/443; cat >&3; cat <&3' | grep ."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			a := s.run(call{network: everyday, sh: "env | grep -i proxy >&2\n" + tt.script + "\nstatus=$?; test $status != 0 -a $status != 124"})
			a.ok(t)
			if hits := m.Hits(); len(hits) > 0 {
				t.Errorf("it came: %+v", hits)
			}
			lines := append(a.tried("allowed.test", 443), append(a.tried("allowed.test", 8080), a.tried("denied.test", 8080)...)...)
			if !slices.ContainsFunc(lines, stopped) {
				t.Errorf("the row: %s\n%s%s", a.end(), a.stdout, a.stderr)
			}
			m.Only(t, "allowed.test:443", "allowed.test:8080")
		})
	}
	t.Run("the second request of a connection", func(t *testing.T) {
		m := s.world.Mark(t)
		a := s.run(call{network: everyday, sh: unset + "curl -s http://allowed.test:8080/one -o one --next -s -H 'Host: denied.test' http://allowed.test:8080/two; grep ok one"})
		a.ok(t)
		if hits := m.Hits(); len(hits) != 1 || hits[0].Path != "/one" {
			t.Errorf("it came: %+v", hits)
		}
		a.row(t, "allowed.test", 8080, envelope.VerdictCut, "denied.test")
	})
	t.Run("a request inside TLS from end to end is not looked into, and the row says so", func(t *testing.T) {
		m := s.world.Mark(t)
		a := s.run(call{network: everyday, sh: "curl -sS -f --cacert ca.pem -H 'Host: denied.test' https://allowed.test/echo"})
		a.ok(t)
		if lines := a.tried("allowed.test", 443); len(lines) != 1 || lines[0].Unchecked != "fronting" {
			t.Errorf("the row: %s", a.end())
		}
		if hits := m.Hits(); len(hits) != 1 || hits[0].Host != "denied.test" || hits[0].At.Addr() != s.world.Addr("allowed.test") {
			t.Errorf("it came: %+v", hits)
		}
	})
}

func portsOfAName(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	var items [][]any
	for _, port := range []int{22, 25, 80, 8443, 9931, 53, 3128, 5432, 1, 65535} {
		items = append(items, []any{"name", "allowed.test", port})
	}
	trials, _ := s.probe(everyday, items...)
	refused(t, trials)
	m.Nothing(t)
	a := s.run(call{network: everyday, python: `
import socket
first = socket.gethostbyname("allowed.test")
assert all(socket.gethostbyname("allowed.test") == first for _ in range(2000)), "another address"
`})
	a.ok(t)
	m.Nothing(t)
	if a.Egress == nil || len(a.Egress.Attempts) > 1 {
		t.Errorf("counters: %s", a.end())
	}
}
