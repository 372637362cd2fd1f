package e2e_test

import (
	"fmt"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// replaced starts a command with other files in the place of the host's own:
// pairs of file and place.
func replaced(pairs ...string) []string {
	script := ""
	for i := 0; i < len(pairs); i += 2 {
		script += fmt.Sprintf("mount --bind '%s' '%s' && ", pairs[i], pairs[i+1])
	}
	return []string{"unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script + `exec "$0" "$@"`}
}

const (
	resolvConf = "search evil.test other.evil.test\ndomain evil.test\nnameserver " + world.FarAddr + "\noptions ndots:5\n"
	oneGet     = "curl -sS -f --cacert ca.pem https://allowed.test/echo"
	oneDenied  = "curl -s -f -m5 --cacert ca.pem https://allowed.test/echo; test $? != 0"
)

// TestVariablesOfTheFrontChangeNothing: what stands in the environment of
// whoever starts callcell is no way out and no way around.
func TestVariablesOfTheFrontChangeNothing(t *testing.T) {
	s := usual(t)
	proxy := "http://" + world.FarAddr + ":3128"
	front := []string{"LOCALDOMAIN=evil.test", "RES_OPTIONS=ndots:15", "HOSTALIASES=" + s.write("aliases", "allowed.test denied.test\n"), "SSL_CERT_FILE=/dev/null", "GODEBUG=netdns=cgo"}
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUEST_METHOD"} {
		front = append(front, name+"="+proxy)
	}
	m := s.world.Mark(t)
	s.run(call{network: everyday, front: front, sh: oneGet + " && curl -sS -f http://allowed.test:8080/"}).ok(t)
	m.Only(t, "allowed.test:443", "allowed.test:8080")
	m = s.world.Mark(t)
	for _, u := range []string{"https://allowed.test/echo", "http://allowed.test/echo"} {
		if a := s.callcell(call{front: front}, []string{"fetch", "--json", u}); a.body() == "" {
			t.Errorf("%s: %s", u, a.end())
		}
	}
	m.Only(t, "allowed.test:443", "allowed.test:80")
}

// TestNamesAreNeverCompleted: a name goes to the host's resolver as it is, and
// only there; a search list changes nothing.
func TestNamesAreNeverCompleted(t *testing.T) {
	s := newStand(t, "  roots: ROOTS\n") // the resolver is the host's
	s.world.Set("*.evil.test", world.Always("93.184.216.12"))
	wrap := replaced(s.write("resolv.conf", resolvConf), "/etc/resolv.conf")
	m := s.world.Mark(t)
	s.run(call{network: everyday, wrap: wrap, sh: oneGet + "; curl -s -m3 https://allowed/; curl -s -m3 https://nosuch.test/; true"}).ok(t)
	m.Only(t, "allowed.test:443")
	const more = "  allow: [{host: nosuch.test, ports: [443]}, {host: allowed.test, ports: [443]}]\n"
	m = s.world.Mark(t)
	a := s.run(call{network: more, wrap: wrap, sh: "curl -s -m5 --cacert ca.pem https://nosuch.test/; test $? != 0"})
	a.ok(t)
	a.row(t, "nosuch.test", 443, envelope.VerdictFailed, "")
	for _, q := range m.Queries() {
		if q.Name != "nosuch.test." {
			t.Errorf("asked for %v", q)
		}
	}
	m.Only(t, "nosuch.test:443")
}

// TestTheHostsOwnTableIsHeard: /etc/hosts of the host comes first, and what it
// says is judged like any answer.
func TestTheHostsOwnTableIsHeard(t *testing.T) {
	s := usual(t)
	for _, tt := range []struct{ addr, script, reached string }{
		{"93.184.216.11", oneGet, "other.test:443"},
		{"10.0.0.5", oneDenied, ""},
		{"127.0.0.1", oneDenied, ""},
		{world.NearAddr, oneDenied, ""},
		{"::1", oneDenied, ""},
	} {
		m := s.world.Mark(t)
		hosts := s.write("hosts", "127.0.0.1 localhost\n"+tt.addr+" allowed.test\n")
		a := s.run(call{network: everyday, wrap: replaced(hosts, "/etc/hosts"), sh: tt.script})
		a.ok(t)
		if tt.reached != "" {
			m.Only(t, tt.reached)
			continue
		}
		m.Nothing(t)
		a.row(t, "allowed.test", 443, envelope.VerdictDenied, "address not allowed")
	}
}

// TestWithoutAResolverNothingLeaves: the call runs, and each connection fails
// and says why.
func TestWithoutAResolverNothingLeaves(t *testing.T) {
	s := newStand(t, "  resolvers: [\"10.9.9.9:53\"]\n  roots: ROOTS\n  limits: {dial: 2s}\n")
	a := s.run(call{network: everyday, sh: "curl -s -m40 --cacert ca.pem https://allowed.test/echo; test $? != 0 -a $? != 28"})
	a.ok(t)
	a.row(t, "allowed.test", 443, envelope.VerdictFailed, "")
	empty := newStand(t, "")
	wrap := replaced(empty.write("resolv.conf", "# none\n"), "/etc/resolv.conf")
	m := empty.world.Mark(t)
	if a := empty.run(call{network: everyday, wrap: wrap, sh: oneDenied}); a.Refusal == nil {
		a.ok(t)
	}
	for _, stray := range m.Strays() {
		if stray.Network != "udp" || stray.To.Port() != 53 { // an empty table means a resolver on the host itself
			t.Errorf("INT was hit: %v", stray)
		}
	}
	if sent := m.Packets(t); len(sent) > 0 {
		t.Errorf("packets left: %v", sent)
	}
}

// TestOperatorsDenyList: what the operator denies no envelope opens.
func TestOperatorsDenyList(t *testing.T) {
	s := newStand(t, egressConf+"  roots: ROOTS\n  deny: [93.184.216.0/28, 10.0.0.0/8]\n")
	m := s.world.Mark(t)
	a := s.run(call{network: everyday + "  private: [{cidr: 10.0.0.0/24, why: a test of it}]\n", sh: oneDenied})
	a.ok(t)
	a.row(t, "allowed.test", 443, envelope.VerdictDenied, "address not allowed")
	for _, p := range m.Packets(t) {
		if p.To.String() != world.Resolver {
			t.Errorf("a packet left: %+v", p)
		}
	}
	if a := s.fetch(public, "https://allowed.test/"); a.why() == "" {
		t.Errorf("fetched: %s", a.end())
	}
	s.run(call{network: "  allow: [{host: git.test, ports: [443]}]\n", sh: "curl -sS -f --cacert ca.pem https://git.test/"}).ok(t)
}
