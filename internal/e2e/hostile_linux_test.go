package e2e_test

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

var (
	//go:embed testdata/raw.py
	rawPy string
	//go:embed testdata/hello.py
	helloPy string
	//go:embed testdata/postgres.py
	postgresPy string
)

// smuggled are ways to have a server read a request that nobody has judged.
// HOST is the one that is allowed.
func smuggled() [][2]string {
	const (
		host  = "Host: HOST\r\n"
		other = "GET /smuggled HTTP/1.1\r\nHost: denied.test\r\n\r\n"
	)
	get := func(headers string) string { return "GET / HTTP/1.1\r\n" + headers + "\r\n" }
	post := func(headers, body string) string { return "POST /echo HTTP/1.1\r\n" + headers + "\r\n" + body }
	return [][2]string{
		{"two hosts", get(host + "Host: denied.test\r\n")},
		{"two hosts, the other first", get("Host: denied.test\r\n" + host)},
		{"a space before the colon", get("Host : denied.test\r\n" + host)},
		{"a folded line", get(host + "X: y\r\n Host: denied.test\r\n")},
		{"a folded host", get("Host: HOST\r\n denied.test\r\n")},
		{"a name that begins with a space", get(" Host: denied.test\r\n" + host)},
		{"a list of hosts", get("Host: HOST, denied.test\r\n")},
		{"user information", get("Host: HOST@denied.test\r\n")},
		{"user information, turned", get("Host: denied.test@HOST\r\n")},
		{"a fragment", get("Host: denied.test#HOST\r\n")},
		{"a path in the host", get("Host: denied.test/HOST\r\n")},
		{"a tab", get("Host: HOST\tdenied.test\r\n")},
		{"no host", get("")},
		{"an empty host", get("Host:\r\n")},
		{"length and chunks", post(host+"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+other)},
		{"chunks and length", post(host+"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\n"+other+"0\r\n\r\n")},
		{"a space before the colon of chunks", post(host+"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n", "0\r\n\r\n"+other)},
		{"an odd space before chunks", post(host+"Content-Length: 5\r\nTransfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"+other)},
		{"chunks, twice", post(host+"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+other)},
		{"chunks and more", post(host+"Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"+other)},
		{"something like chunks", post(host+"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"+other)},
		{"two lengths", post(host+"Content-Length: 0\r\nContent-Length: 47\r\n", other)},
		{"a list of lengths", post(host+"Content-Length: 0, 47\r\n", other)},
		{"a length with a sign", post(host+"Content-Length: +0\r\n", other)},
		{"a length that is hex", post(host+"Content-Length: 0x0\r\n", other)},
		{"a length that overflows", post(host+"Content-Length: 18446744073709551616\r\n", other)},
		{"a chunk that overflows", post(host+"Transfer-Encoding: chunked\r\n", "10000000000000000\r\n"+other)},
		{"a line break within a chunk's extension", post(host+"Transfer-Encoding: chunked\r\n", "1;a\nx\r\n0\r\n\r\n"+other)},
		{"a chunk with a bare line break", post(host+"Transfer-Encoding: chunked\r\n", "1\nx\n0\n\n"+other)},
		{"a host in the trailer", post(host+"Transfer-Encoding: chunked\r\nTrailer: Host\r\n", "0\r\nHost: denied.test\r\n\r\n")},
		{"bare line breaks", strings.ReplaceAll(get(host)+other, "\r\n", "\n")},
		{"a bare return", get(host + "X: y\rHost: denied.test\r\n")},
		{"a NUL", get(host + "X: y\x00\r\n")},
		{"an absolute target", "GET http://denied.test/ HTTP/1.1\r\n" + host + "\r\n"},
		{"an absolute target, turned", "GET http://HOST/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"},
		{"an absolute target of another scheme", "GET https://denied.test/ HTTP/1.1\r\n" + host + "\r\n"},
		{"an authority", "CONNECT denied.test:443 HTTP/1.1\r\n" + host + "\r\n"},
		{"an authority that is allowed", "CONNECT HOST HTTP/1.1\r\n" + host + "\r\n" + other},
		{"two slashes", "GET //denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: denied.test\r\nConnection: keep-alive\r\n\r\n"},
		{"HTTP/0.9", "GET /\r\n" + other},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: denied.test\r\n\r\n"},
		{"HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{"HTTP/2 by upgrade", get(host+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n") + other},
		{"one behind the other", get(host) + other},
		{"one behind a body that is announced", post(host+"Expect: 100-continue\r\nContent-Length: 0\r\n", other)},
		{"one behind an upgrade that is not granted", "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" + other},
		{"one behind an upgrade to anything", "GET /upgrade HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: thing\r\n\r\n" + other},
		{"a body of GET", "GET / HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n" + other},
		{"connection options that take the host away", get(host + "Connection: close, Host\r\n")},
		{"a header that hops take away", get(host+"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n" + other},
		{"forwarded for another host", get(host + "X-Forwarded-Host: denied.test\r\nForwarded: host=denied.test\r\n")},
		{"a large header", get(host + "X: " + strings.Repeat("y", 200_000) + "\r\nHost: denied.test\r\n")},
		{"many headers", get(host + strings.Repeat("X: y\r\n", 20_000) + "Host: denied.test\r\n")},
	}
}

// TestNoRequestIsSmuggled in the clear and within TLS that is looked into: a
// server sees no request with a host that nobody has allowed.
func TestNoRequestIsSmuggled(t *testing.T) {
	for _, tt := range []struct{ how, host, network string }{
		{"plain", "allowed.test:8080", everyday},
		{"tls", "allowed.test:443", inspected},
	} {
		t.Run(tt.how, func(t *testing.T) {
			s := usual(t)
			var payloads [][2]string
			for _, p := range smuggled() {
				payloads = append(payloads, [2]string{p[0], strings.ReplaceAll(p[1], "HOST", tt.host)})
			}
			list, err := json.Marshal(payloads)
			if err != nil {
				t.Fatal(err)
			}
			m := s.world.Mark(t)
			host, port, _ := strings.Cut(tt.host, ":")
			a := s.run(call{network: tt.network, argv: []string{"/usr/bin/python3", "raw.py", tt.how, host, port}, wall: "4m",
				files: map[string]string{"raw.py": rawPy, "payloads.json": string(list)}})
			a.ok(t)
			if got := strings.Count(a.stdout, "\n"); got != len(payloads) {
				t.Errorf("%d of %d were tried\n%s", got, len(payloads), a.stderr)
			}
			hits := m.Hits()
			for _, h := range hits {
				if h.Host != host && h.Host != tt.host || strings.Contains(h.Path, "smuggled") {
					t.Errorf("it came: %+v", h)
				}
			}
			if len(hits) == 0 || a.Egress == nil || a.Egress.Denied == 0 {
				t.Errorf("%d requests came, %s", len(hits), a.end())
			}
			m.Only(t, tt.host)
			if t.Failed() {
				t.Log(a.stdout)
			}
		})
	}
}

// TestHelloInPieces: however TLS begins, the name in it decides.
func TestHelloInPieces(t *testing.T) {
	s := usual(t)
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, python: helloPy, wall: "3m"})
	a.ok(t)
	answers := 0
	for lines := bufio.NewScanner(strings.NewReader(a.stdout)); lines.Scan(); {
		var how, name, result string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&how, &name, &result}); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		switch good := strings.EqualFold(name, "allowed.test"); {
		case result == "answer" && good:
			answers++
		case result == "answer":
			t.Errorf("%s %q: came through", how, name)
		case good && slices.Contains([]string{"whole", "bytewise", "records"}, how):
			t.Errorf("%s %q: %s", how, name, result)
		}
	}
	if answers < 6 || strings.Count(a.stdout, "\n") != 40 {
		t.Errorf("%d answers:\n%s%s", answers, a.stdout, a.end())
	}
	for _, h := range m.Hits() {
		if !strings.EqualFold(h.SNI, "allowed.test") {
			t.Errorf("it came: %+v", h)
		}
	}
	m.Only(t, "allowed.test:443")
}

// TestDatabaseIsReachedByTLSAlone, and by the name that is allowed.
func TestDatabaseIsReachedByTLSAlone(t *testing.T) {
	s := usual(t)
	s.world.Database(t)
	a := s.run(call{network: everyday, python: postgresPy})
	a.ok(t)
	for lines := bufio.NewScanner(strings.NewReader(a.stdout)); lines.Scan(); {
		var how, result string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&how, &result}); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if (how == "TLS of the name") != (result == "SR") || strings.HasPrefix(result, "R") {
			t.Errorf("%s: %q", how, result) // R: the database asks for a password
		}
	}
	if strings.Count(a.stdout, "\n") != 12 {
		t.Errorf("%s%s", a.stdout, a.stderr)
	}
	for _, script := range []string{"sslmode=disable", "sslmode=allow"} {
		m := s.world.Mark(t)
		a := s.run(call{network: everyday, sh: fmt.Sprintf("PGPASSWORD=%s /usr/lib/postgresql/*/bin/psql -Atc 'select 1' 'host=db.test user=%s dbname=postgres %s'", world.DatabasePassword, world.DatabaseUser, script)})
		if script == "sslmode=disable" && a.OK() {
			t.Errorf("%s: %s", script, a.stdout)
		}
		m.Only(t, "db.test:5432")
	}
}

// TestAddressesMayBeAllowed: an entry of an address needs no name and is
// judged like any address.
func TestAddressesMayBeAllowed(t *testing.T) {
	s := usual(t)
	const network = "  allow: [{host: 93.184.216.10, ports: [8080], protocol: http}, {host: 93.184.216.10, ports: [443]}, {host: '2606:2800:220::14', ports: [8080], protocol: http}, " +
		"{host: 10.0.0.5, ports: [9931], protocol: tcp}, {host: 10.0.0.6, ports: [9931], protocol: tcp}, {host: " + world.NearAddr + ", ports: [9931], protocol: tcp}]\n" +
		"  private: [{cidr: 10.0.0.5/32, why: a test of it}]\n"
	m := s.world.Mark(t)
	a := s.run(call{network: network, sh: unset + `
curl -sS -f http://93.184.216.10:8080/ && curl -sS -f -g 'http://[2606:2800:220::14]:8080/' && curl -sS -f --cacert ca.pem https://93.184.216.10/ || exit 1
curl -s -m5 http://10.0.0.6:9931/ && exit 2
curl -s -m5 http://` + world.NearAddr + `:9931/ && exit 3
curl -s -m5 http://93.184.216.10:9931/ && exit 4
curl -s -m5 http://93.184.216.12:8080/ && exit 5
curl -s -m5 http://allowed.test:8080/ && exit 6
curl -s -m5 http://10.0.0.5:9931/
true`})
	if a.ok(t); a.stdout != "ok\nok\nok\n" {
		t.Errorf("%s\n%s", a.stdout, a.stderr)
	}
	var strays []string
	for _, stray := range m.Strays() {
		strays = append(strays, stray.To.String())
	}
	if !slices.Equal(strays, []string{"10.0.0.5:9931"}) {
		t.Errorf("INT was hit: %v", strays)
	}
	for _, p := range m.Packets(t) {
		if to := p.To.String(); !slices.Contains([]string{"93.184.216.10:8080", "93.184.216.10:443", "[2606:2800:220::14]:8080", "10.0.0.5:9931"}, to) {
			t.Errorf("a packet left: %+v", p)
		}
	}
	a.row(t, "10.0.0.6", 9931, envelope.VerdictDenied, "10.0.0.6 is private")
	a.row(t, world.NearAddr, 9931, envelope.VerdictDenied, "address not allowed")
	m = s.world.Mark(t)
	b := s.run(call{network: network, sh: `curl -sS -f http://93.184.216.10:8080/ && curl -sS -f -g 'http://[2606:2800:220::14]:8080/' && curl -sS -f --cacert ca.pem https://93.184.216.10/; curl -s -f http://93.184.216.12:8080/; true`})
	if b.ok(t); b.stdout != "ok\nok\nok\n" {
		t.Errorf("by the proxy: %s\n%s%s", b.stdout, b.stderr, b.end())
	}
	for _, addr := range []string{"169.254.169.254", "168.63.129.16", "fd00:ec2::254", "010.0.0.1", "10.1", "0x7f.1", "::ffff:10.0.0.5", "fe80::1%eth0", "[::1]"} {
		a := s.run(call{network: fmt.Sprintf("  allow: [{host: '%s', ports: [80]}]\n", addr), sh: unset + "curl -s -m5 -g http://" + addr + "/; test $? != 0"})
		if a.Refusal == nil && !a.OK() {
			t.Errorf("%s: %s%s", addr, a.stdout, a.end())
		}
	}
	if strays := m.Strays(); len(strays) > 0 {
		t.Errorf("INT was hit: %v", strays)
	}
}
