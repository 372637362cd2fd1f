package serve

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

const proxyAt = "127.0.0.53:3128"

// web is an origin of HTTP that says what it was sent.
func web(t testing.TB) int {
	return origin(t, "127.0.0.1:0", func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			text := fmt.Sprintf("%s %s %s %q %v", r.Method, r.Host, r.RequestURI, body, r.Header)
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil {
				return
			}
		}
	})
}

func TestProxyTunnels(t *testing.T) { bothWays(t, testProxyTunnels) }

func testProxyTunnels(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	port := origin(t, "127.0.0.1:0", echo)
	s := f.begin(t, network(allow("allowed.test", "tcp", port)))
	for i, row := range []struct{ head, after string }{
		{"CONNECT allowed.test:%d HTTP/1.1\r\nHost: denied.test\r\nProxy-Authorization: Basic eDp5\r\n\r\n", "hello"},
		{"CONNECT ALLOWED.test.:%d HTTP/1.0\r\n\r\n", ""},
		{"CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", strings.Repeat("early ", 2000)},
	} {
		c := s.connect(proxyAt)
		got, err := said(t, c, fmt.Sprintf(row.head, port)+row.after)
		if want := "HTTP/1.1 200 Connection established\r\n\r\n" + row.after; err != nil || got != want {
			t.Errorf("%q: %.200q %v", row.head, got, err)
		}
		a := s.expect(i+1, "allowed.test", port, envelope.VerdictAllowed, "network.allow[0]")
		if a.Sent != int64(len(row.after)) || a.Received != a.Sent {
			t.Errorf("%+v", a)
		}
	}
	if got := s.end(); got.Connections != 3 {
		t.Errorf("%+v", got)
	}
}

func TestProxyRefuses(t *testing.T) { bothWays(t, testProxyRefuses) }

func testProxyRefuses(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	plain := web(t)
	s := f.begin(t, network(allow("allowed.test", "http", plain), allow("other.test", "tcp", 1), allow("inside.test", "tcp", 1)))
	at := fmt.Sprintf("allowed.test:%d", plain)
	for i, row := range []struct {
		says   string
		status int
		why    string
		host   string
		port   int
	}{
		{"CONNECT denied.test:443 HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 403, "no entry", "denied.test", 443},
		{"CONNECT allowed.test:1 HTTP/1.1\r\n\r\n", 403, "port", "allowed.test", 1},
		{"CONNECT x.allowed.test:1 HTTP/1.1\r\n\r\n", 403, "allowed.test", "x.allowed.test", 1},
		{"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n", 403, "", "127.0.0.1", 1},
		{"CONNECT [::1]:1 HTTP/1.1\r\n\r\n", 403, "", "::1", 1},
		{"CONNECT inside.test:1 HTTP/1.1\r\n\r\n", 403, "resolved address not allowed: 127.0.0.3", "inside.test", 1},
		{"CONNECT other.test:1 HTTP/1.1\r\n\r\n", 502, "the connection was refused", "other.test", 1},
		{"GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n", 403, "no entry", "denied.test", 80},
		{"GET http://other.test:1/ HTTP/1.1\r\nHost: other.test:1\r\n\r\n", 403, "speaks tcp", "other.test", 1},
		{"GET http://me:secret@" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "user information", "127.0.0.53", 3128},
		{"GET https://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "CONNECT", "127.0.0.53", 3128},
		{"GET ftp://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "this is a proxy", "127.0.0.53", 3128},
		{"GET / HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "this is a proxy", "127.0.0.53", 3128},
		{"GET http://:80/x HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "this is a proxy", "127.0.0.53", 3128},
		{"GET http:///x HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "this is a proxy", "127.0.0.53", 3128},
		{"GET http://allowed.test:080/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n", 400, "no port", "127.0.0.53", 3128},
		{"CONNECT allowed.test HTTP/1.1\r\n\r\n", 400, "HOST:PORT", "127.0.0.53", 3128},
		{"CONNECT allowed.test:0 HTTP/1.1\r\n\r\n", 400, "no port", "127.0.0.53", 3128},
		{"CONNECT allowed.test:65536 HTTP/1.1\r\n\r\n", 400, "no port", "127.0.0.53", 3128},
		{"GET http://x", 400, "no request", "127.0.0.53", 3128},
		{"CONNECT me@allowed.test:443 HTTP/1.1\r\n\r\n", 403, "", "me@allowed.test", 443},
		{"CONNECT :443 HTTP/1.1\r\n\r\n", 400, "HOST:PORT", "127.0.0.53", 3128},
		{"CONNECT " + at + " HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400, "no body", "127.0.0.53", 3128},
		{"\x16\x03\x01\x00\x05hello\r\n\r\n", 400, "no request", "127.0.0.53", 3128},
		{"GET http://" + at + "/ HTTP/1.1\r\nX: " + strings.Repeat("y", maxProxyHead) + "\r\n\r\n", 431, "too large", "127.0.0.53", 3128},
	} {
		c := s.connect(proxyAt)
		got, _ := said(t, c, row.says) // it may be reset at the end
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", row.status)) || !strings.Contains(got, "\r\n\r\ncallcell: ") || !strings.Contains(got, row.why) {
			t.Errorf("%.80q: %q", row.says, got)
		}
		verdict := envelope.VerdictDenied
		if row.status == 502 {
			verdict = envelope.VerdictFailed
		}
		s.expect(i+1, row.host, row.port, verdict, row.why)
	}
	s.end()
	for _, q := range f.resolver.Asked() {
		if !strings.HasPrefix(q, "inside.test.") && !strings.HasPrefix(q, "other.test.") {
			t.Errorf("asked: %s", q)
		}
	}
}

func TestProxyTakesPlainRequestsOneAConnection(t *testing.T) {
	bothWays(t, testProxyTakesPlainRequestsOneAConnection)
}

func testProxyTakesPlainRequestsOneAConnection(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	port := web(t)
	s := f.begin(t, network(allow("allowed.test", "http", port)))
	host := fmt.Sprintf("allowed.test:%d", port)
	c := s.connect(proxyAt)
	first := fmt.Sprintf("POST http://%s/a?b HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", host, host)
	second := "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"
	if _, err := io.WriteString(c, first+second); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c) // it may be reset at the end
	got := string(b)
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, fmt.Sprintf("POST %s /a?b %q", host, "hello")) || strings.Contains(got, "Proxy-") || strings.Count(got, "HTTP/1.1 ") != 1 {
		t.Errorf("%q", got)
	}
	a := s.line(1)
	if a.Host != "allowed.test" || a.Requests != 1 || a.Protocol != "http" {
		t.Errorf("%+v", a)
	}
	c = s.connect(proxyAt)
	if _, err := fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: denied.test\r\n\r\n", host); err != nil {
		t.Fatal(err)
	}
	b, _ = io.ReadAll(c) // the same
	if got := string(b); strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("a Host that is another: %q", got)
	}
	if a := s.line(2); a.Verdict != envelope.VerdictDenied {
		t.Errorf("%+v", a)
	}
	s.end()
}

func TestProxyHoldsTLSToItsTarget(t *testing.T) { bothWays(t, testProxyHoldsTLSToItsTarget) }

func testProxyHoldsTLSToItsTarget(t *testing.T, w way) {
	f := newFront(t, setup{way: w, names: loopback1})
	port := origin(t, "127.0.0.1:0", echo)
	s := f.begin(t, network(allow("allowed.test", "tls", port)))
	c := s.connect(proxyAt)
	if _, err := fmt.Fprintf(c, "CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", port); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	err := tls.Client(c, &tls.Config{ServerName: "denied.test", InsecureSkipVerify: true}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Error(err)
	}
	a := s.expect(1, "allowed.test", port, envelope.VerdictCut, `the ClientHello names "denied.test"`)
	if a.Address == "" || a.Sent != 0 {
		t.Errorf("%+v", a)
	}
	s.end()
}

func TestASilentProgramAtTheProxyIsALine(t *testing.T) {
	bothWays(t, testASilentProgramAtTheProxyIsALine)
}

func testASilentProgramAtTheProxyIsALine(t *testing.T, w way) {
	f := newFront(t, setup{way: w})
	s := f.begin(t, network(allow("allowed.test", "tcp", 7)))
	for i, says := range []string{"", "GET http://x/ HTTP/1.1\r\nHost: x\r\n"} {
		_, _ = said(t, s.connect(proxyAt), says) // it is reset
		s.expect(i+1, "127.0.0.53", 3128, envelope.VerdictFailed, "the program said nothing")
	}
	s.end()
}

func FuzzReadProxy(f *testing.F) {
	for _, text := range []string{
		"CONNECT a.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\nrest", "GET http://a.test:8080/x HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST http://[::1]/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "CONNECT [::1]:1 HTTP/1.0\r\n\r\n",
		"CONNECT @.test:443 HTTP/1.1\r\n\r\n", "GET http://://a/ HTTP/1.1\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := readProxy(strings.NewReader(text))
		switch {
		case err != nil && (w.host != "" || w.rest != nil):
			t.Fatalf("an error and %+v", w)
		case err != nil:
		case w.host == "" || w.port < 1 || w.port > 65535:
			t.Fatalf("%+v", w)
		case w.tunnel && !strings.HasSuffix(text, string(w.rest)):
			t.Fatalf("%q is not what follows", w.rest)
		case !w.tunnel && !strings.HasPrefix(text, string(w.rest)):
			t.Fatalf("%q is not what came first", w.rest)
		}
	})
}
