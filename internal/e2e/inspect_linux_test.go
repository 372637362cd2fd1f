package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// inspected has TLS looked into.
const inspected = "  allow: [{host: allowed.test, ports: [443], inspect: true}, {host: denied.test, ports: [8443], protocol: tls}]\n"

var authority = program("authority")

func authorityProgram(t *testing.T) string {
	t.Helper()
	name, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestInspectedTLSWorksWithOrdinaryTools: the cell tells programs of the
// call's own authority, and they need no word of it.
func TestInspectedTLSWorksWithOrdinaryTools(t *testing.T) {
	s := usual(t)
	const url = "https://allowed.test/echo"
	for _, tt := range []struct{ name, needs, script, answer string }{
		{"curl", "/usr/bin/curl", "curl -sS " + url, `"sni":"allowed.test"`},
		{"urllib", "/usr/bin/python3", "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"" + url + "\", timeout=30).read().decode())'", `"sni":"allowed.test"`},
		{"node", "/usr/bin/node", "node fetch.mjs " + url, `"sni":"allowed.test"`},
		{"java", "/usr/bin/java", "java -XX:TieredStopAtLevel=1 Fetch.java " + url, `"sni":"allowed.test"`},
		{"git", "/usr/bin/git", "rm -rf clone; git clone -q https://allowed.test/git/repo.git clone && cat clone/answer.txt", "42\n"},
		{"wget", "/usr/bin/wget", "wget -nv -O - --ca-certificate $SSL_CERT_FILE " + url, `"sni":"allowed.test"`},
		{"WebSocket", "/usr/bin/node", "node --experimental-websocket socket.mjs wss://allowed.test/ws hello", "hello"},
		{"openssl", "/usr/bin/openssl", "printf 'GET /echo HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect allowed.test:443 -servername allowed.test", `"sni":"allowed.test"`},
		{"curl, sending", "/usr/bin/curl", "head -c 900000 /dev/zero | tr '\\0' z >big; curl -sS -T big " + url + " | wc -c | grep -q '^90[0-9]*$'; curl -sS --http1.1 -H 'Transfer-Encoding: chunked' -T big " + url + " | wc -c | grep '^90[0-9]*$'", "90"},
		{"curl, a stream", "/usr/bin/curl", "curl -sSN --max-time 2.5 https://allowed.test/drip || test $? = 28", "xx"},
		{"Go", "/usr/bin/env", "chmod +x authority; ./authority " + url + " allowed.test", `sni`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			needSocket(t, tt.script)
			m := s.world.Mark(t)
			a := s.run(call{network: inspected, sh: "set -e\nrm ca.pem\n" + tt.script + "\necho ==\n" + unset + tt.script + "\n",
				files: map[string]string{"fetch.mjs": fetchJS, "socket.mjs": socketJS, "Fetch.java": fetchJava, "authority": authorityProgram(t)}})
			a.ok(t)
			if with, without, _ := strings.Cut(a.stdout, "==\n"); !strings.Contains(with, tt.answer) || !strings.Contains(without, tt.answer) {
				t.Errorf("with proxy variables:\n%s\nwithout:\n%s\n%s", with, without, a.stderr)
			}
			m.Only(t, "allowed.test:443")
			for _, l := range a.tried("allowed.test", 443) {
				if l.Verdict != envelope.VerdictAllowed || l.Unchecked != "" || l.Requests == 0 {
					t.Errorf("the row: %s, %d requests", attempt(l), l.Requests)
				}
			}
			if len(a.tried("allowed.test", 443)) < 2 {
				t.Errorf("the row: %s", a.end())
			}
		})
	}
}

// TestInspectedTLSCutsOtherNames: each request of a connection is judged by
// the name in it.
func TestInspectedTLSCutsOtherNames(t *testing.T) {
	s := usual(t)
	for _, tt := range []struct {
		name, script string
		want         []string // in what it prints
		not          []string
		hits         int
	}{
		{"a Host header", "curl -sS -H 'Host: denied.test' https://allowed.test/echo", nil, []string{"sni"}, 0},
		{"a Host header, HTTP/1.1", "curl -sS --http1.1 -H 'Host: denied.test' https://allowed.test/echo", nil, []string{"sni"}, 0},
		{"a Host header with another port", "curl -sS --http1.1 -H 'Host: allowed.test:8443' https://allowed.test/echo", nil, []string{"sni"}, 0},
		{"the second request of a connection", "curl -sS --http1.1 https://allowed.test/one --next -sS --http1.1 -H 'Host: denied.test' https://allowed.test/two", []string{"ok\n"}, nil, 1},
		{"absolute form", "curl -sS --http1.1 --request-target http://denied.test/x https://allowed.test/", nil, []string{"ok\n"}, 0},
		{"absolute form within HTTP/2", "curl -sS --http2 --request-target http://denied.test/x https://allowed.test/", nil, []string{"ok\n"}, 0},
		{"the second stream of a connection", "./authority https://allowed.test/one allowed.test denied.test allowed.test",
			[]string{"allowed.test new HTTP/2.0 200 \"ok\\n\""}, []string{"denied.test same HTTP/2.0 200", "denied.test new HTTP/2.0 200"}, -1},
		{"TLS of another name", "curl -sS -k --connect-to denied.test:443:allowed.test:443 https://denied.test/", nil, []string{"ok\n"}, 0},
		{"TLS without a name", "openssl s_client -quiet -connect allowed.test:443 -noservername </dev/null", nil, []string{"ok\n"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			a := s.run(call{network: inspected, sh: "chmod +x authority; " + tt.script + "; true", files: map[string]string{"authority": authorityProgram(t)}})
			a.ok(t)
			for _, want := range tt.want {
				if !strings.Contains(a.stdout, want) {
					t.Errorf("want %q:\n%s%s", want, a.stdout, a.stderr)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(a.stdout, not) {
					t.Errorf("%q came:\n%s", not, a.stdout)
				}
			}
			for _, h := range m.Hits() {
				if h.Host != "allowed.test" || h.SNI != "allowed.test" {
					t.Errorf("it came: %+v", h)
				}
			}
			if n := len(m.Hits()); tt.hits >= 0 && n != tt.hits {
				t.Errorf("%d requests came, want %d", n, tt.hits)
			}
			m.Only(t, "allowed.test:443")
			stopped := 0
			for _, l := range a.attempts() {
				if l.Verdict == envelope.VerdictDenied || l.Verdict == envelope.VerdictCut {
					stopped++
				}
			}
			if stopped == 0 {
				t.Errorf("the row: %s\n%s", a.end(), a.stderr)
			}
		})
	}
}

// TestAuthorityOfACallIsItsOwn: no call trusts another one's authority, and
// what is not inspected does not come from it.
func TestAuthorityOfACallIsItsOwn(t *testing.T) {
	s := usual(t)
	issuer := func(network string) string {
		t.Helper()
		a := s.run(call{network: network, sh: "openssl s_client -connect allowed.test:443 -servername allowed.test -showcerts </dev/null 2>/dev/null | openssl x509 -noout -issuer -fingerprint -sha256"})
		a.ok(t)
		return a.stdout
	}
	one, two := issuer(inspected), issuer(inspected)
	if one == two || strings.Contains(one, "test world") || !strings.Contains(one, "issuer") {
		t.Errorf("the certificates of two calls: %s%s", one, two)
	}
	if through := issuer(everyday); !strings.Contains(through, "test world") {
		t.Errorf("without inspect: %s", through)
	}
	// A server that this host does not trust is not trusted for the call.
	strict := newStand(t, egressConf)
	a := strict.run(call{network: inspected, sh: "curl -sS -k https://allowed.test/echo; true"})
	a.ok(t)
	if strings.Contains(a.stdout, "sni") {
		t.Errorf("a server without a trusted certificate was talked to: %s%s", a.stdout, a.end())
	}
	a.row(t, "allowed.test", 443, envelope.VerdictFailed, "")
}
