package e2e_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// newSecret is a value that is nowhere else.
func newSecret() string { return "s3cr-" + rand.Text() }

// forms are how a secret is looked for: as it is, as text of two bytes a letter,
// in hex of both cases, and in base64 at each alignment.
func forms(value string) []string {
	var wide []byte
	for _, c := range []byte(value) {
		wide = append(wide, c, 0)
	}
	digits := hex.EncodeToString([]byte(value))
	out := []string{value, string(wide), digits, strings.ToUpper(digits)}
	for shift := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + value))
		out = append(out, coded[4:len(coded)-2])
	}
	return out
}

// clean fails the test where text has the secret in it.
func clean(t testing.TB, what, text, value string) {
	t.Helper()
	for _, form := range forms(value) {
		if strings.Contains(text, form) {
			t.Errorf("%s: the secret is in it, as %.8s...", what, form)
		}
	}
}

// bound is a network with a credential in a header of allowed.test, and more
// than the credential is bound to. SOURCE is its source.
const bound = `  allow:
  - {host: allowed.test, ports: [443]}
  - {host: allowed.test, ports: [8443], protocol: tls, inspect: true}
  - {host: allowed.test, ports: [80, 8080], protocol: http}
  - {host: other.test, ports: [443], inspect: true}
credentials:
  gh: {source: "SOURCE", use: {header: Authorization, format: "Bearer {}", host: allowed.test, methods: [GET], path: /repos/}}
  to: {source: "SOURCE", use: {header: X-Key, host: allowed.test, methods: [GET], path: /to}}
`

// bearer counts the lines of a request that have the credential as it is to
// be.
func bearer(h world.Hit, value string) int {
	return strings.Count("\r\n"+h.Header, "\r\nAuthorization: Bearer "+value+"\r\n")
}

// TestHeaderCredentialArrives: ordinary programs use a credential that they do
// not have, over either way out, and what they send in its place is dropped.
func TestHeaderCredentialArrives(t *testing.T) { headerArrives(t, usual(t)) }

func headerArrives(t *testing.T, s *stand) {
	t.Helper()
	value := newSecret()
	network := strings.ReplaceAll(bound, "SOURCE", "file:"+s.write("key", value+"\n"))
	const url = "https://allowed.test/repos/a?by="
	script := "curl -sS -f " + url + "curl\n" +
		"curl -sS -f --http1.1 -H 'authorization: Basic b3duOm93bg==' -H 'Authorization: own' -u own:own " + url + "own\n" +
		"python3 -c 'import urllib.request as u; print(u.urlopen(u.Request(\"" + url + "python\", headers={\"Authorization\": \"own\"}), timeout=30).read().decode())'\n" +
		"node fetch.mjs " + url + "node\n"
	m := s.world.Mark(t)
	a := s.run(call{network: network, files: map[string]string{"fetch.mjs": fetchJS}, sh: "set -e\n" + script + unset + script})
	a.ok(t)
	hits := m.Hits()
	for _, h := range hits {
		if bearer(h, value) != 1 || strings.Count(h.Header, "Authorization") != 1 || strings.Contains(strings.ToLower(h.Header), "own") {
			t.Errorf("%s: %q", h.Path, strings.ReplaceAll(h.Header, value, "SECRET"))
		}
	}
	if len(hits) != 8 || a.Egress == nil || a.Egress.Credentials["gh"] != 8 || a.Egress.Masked != 8 {
		t.Errorf("%d requests came: %+v", len(hits), a.Egress)
	}
	clean(t, "what the program printed", a.stdout+a.stderr, value)
	if n := strings.Count(a.stdout, "redacted:gh"); n != 8 {
		t.Errorf("masks in the answers: %d\n%s", n, a.stdout)
	}
}

// elsewhere are requests that are not what the credential is bound to. The
// query says what they are to do there: come, without it, or stay away.
func elsewhere() string {
	const host, curl = "https://allowed.test", "curl -sS -m30 --path-as-is -H 'Authorization: own' "
	var lines []string
	for _, arg := range []string{
		"https://other.test/repos/?come=host",
		host + ":8443/repos/?come=port",
		"http://allowed.test/repos/?come=plain",
		"http://allowed.test:8080/repos/?come=plainport",
		"-X POST -d x '" + host + "/repos/?come=post'",
		"-X PUT -d x '" + host + "/repos/?come=put'",
		"-X get '" + host + "/repos/?come=small'",
		"-X POST -H 'X-HTTP-Method-Override: GET' '" + host + "/repos/?come=override'",
		host + "/repos?come=short",
		host + "/repository/?come=longer",
		host + "/REPOS/?come=capitals",
		host + "/x/repos/?come=below",
		"-H 'X-Original-URL: /repos/' " + host + "/?come=rewrite",
		host + "/repos/%2e%2e/admin?stay=escaped",
		host + "/repos/%2E./admin?stay=half",
		host + "/repos/../admin?stay=dots",
		host + "/repos/x/..%2fadmin?stay=slash",
		"'" + host + "/repos/..\\admin?stay=backslash'",
		host + "//repos?stay=double",
		host + "//repos/?stay=doubleslash",
		"--http1.1 -H 'Upgrade: x' -H 'Connection: Upgrade' " + host + "/repos/?stay=upgrade",
		"--http1.1 -H 'Upgrade: h2c' -H 'Connection: Upgrade, HTTP2-Settings' -H 'HTTP2-Settings: AAMAAABk' " + host + "/repos/?stay=h2c",
		"--http1.1 -X TRACE '" + host + "/repos/?stay=trace'",
		"--http1.1 -X CONNECT '" + host + "/repos/?stay=connect'",
		"--http1.1 -H 'Host: other.test' '" + host + "/repos/?stay=fronted'",
		"-L --location-trusted '" + host + "/to?u=https://other.test/repos/%3Fcome%3Dredirect'",
		"-L --location-trusted '" + host + "/to?u=http://allowed.test/repos/%3Fcome%3Dcleartext'",
		"-L --location-trusted '" + host + "/to?u=https://allowed.test:8443/repos/%3Fcome%3Dredirectport'",
	} {
		lines = append(lines, curl+arg+" >>answers; echo")
	}
	return strings.Join(lines, "\n") + "\ntrue\n"
}

// TestHeaderCredentialGoesNowhereElse: not to another host, port, scheme,
// method or path, not behind a redirect, and into no other protocol.
func TestHeaderCredentialGoesNowhereElse(t *testing.T) { headerGoesNowhereElse(t, usual(t)) }

func headerGoesNowhereElse(t *testing.T, s *stand) {
	t.Helper()
	value := newSecret()
	network := strings.ReplaceAll(bound, "SOURCE", "env:KEY")
	for _, way := range []struct{ name, before string }{{"by the proxy", ""}, {"without", unset}} {
		t.Run(way.name, func(t *testing.T) {
			m := s.world.Mark(t)
			a := s.run(call{network: network, front: []string{"KEY=" + value}, out: []string{"answers"}, wall: "120s", sh: way.before + elsewhere()})
			a.ok(t)
			came, script := 0, elsewhere()
			for _, h := range m.Hits() {
				came += strings.Count(h.Path, "come=")
				redirect := h.At.Port() == 443 && h.Host == "allowed.test" && strings.HasPrefix(h.Path, "/to?u=")
				if key := "X-Key: " + value; redirect {
					if !strings.Contains(h.Header, key) {
						t.Errorf("%s came without its credential: %q", h.Path, h.Header)
					}
					h.Header = strings.Replace(h.Header, key, "", 1)
				}
				clean(t, fmt.Sprintf("%s %s:%d%s", h.Method, h.Host, h.At.Port(), h.Path), h.Header+h.Path, value)
				if strings.Contains(h.Path, "stay=") && !strings.Contains(h.Path, "come") {
					t.Errorf("it came: %s %s", h.Method, h.Path)
				}
				if h.SNI == "allowed.test" && h.At.Port() == 443 && strings.Contains(h.Header, "own") {
					t.Errorf("%s came with the program's own header: %q", h.Path, h.Header)
				}
			}
			if want := strings.Count(script, "?come=") + strings.Count(script, "come%3D"); came != want {
				t.Errorf("%d requests came, want %d\n%s\n%s", came, want, a.stderr, a.end())
			}
			if a.Egress == nil || a.Egress.Credentials["gh"] != 0 || a.Egress.Credentials["to"] != 3 {
				t.Errorf("%s, %+v", a.end(), a.Egress)
			}
			for _, f := range a.Outputs {
				clean(t, f.Name, string(f.Data), value)
			}
		})
	}
}

// TestAnswersAreMasked: what comes back with the secret in it has a mask there
// instead, and the row has the number.
func TestAnswersAreMasked(t *testing.T) { answersAreMasked(t, usual(t)) }

func answersAreMasked(t *testing.T, s *stand) {
	t.Helper()
	value := newSecret()
	network := strings.ReplaceAll(bound, "SOURCE", "file:"+s.write("key", value))
	for _, as := range []string{"", "gzip", "base64"} {
		t.Run("as "+as, func(t *testing.T) {
			a := s.run(call{network: network, sh: "curl -sS -f --compressed https://allowed.test/repos/?as=" + as + " >body && cat body && base64 -d body 2>/dev/null; true"})
			a.ok(t)
			clean(t, "the answer", a.stdout+a.stderr, value)
			if a.Egress == nil || a.Egress.Masked != 1 || !strings.Contains(a.stdout, "redacted") {
				t.Errorf("%s%s, %+v", a.stdout, a.stderr, a.Egress)
			}
			a.row(t, "allowed.test", 443, envelope.VerdictAllowed, "")
		})
	}
}
