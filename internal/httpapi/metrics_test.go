package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
)

// TestMetrics: what ran and what was refused is counted, and no word of a
// caller's is a label.
func TestMetrics(t *testing.T) {
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	s.do("POST", "/v1/calls", key, `{"argv":["/bin/print","sesame"],"task":"sesame","tool":"sesame"}`)
	s.do("POST", "/v1/calls", key, `{}`)
	s.do("GET", "/v1/sesame", key, "")
	rec := httptest.NewRecorder()
	s.metrics.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	for _, want := range []string{
		`callcell_calls_total{level="container",outcome="completed"} 1`, `callcell_refusals_total{reason="request"} 1`,
		`callcell_http_requests_total{operation="runCall",status="200"} 1`, `callcell_http_requests_total{operation="runCall",status="400"} 1`,
		`callcell_http_requests_total{operation="",status="404"} 1`, `callcell_tokens_total{of="results"} 7`, "callcell_running 0", "callcell_waiting 0",
		`callcell_call_seconds_count{step="all"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+({[a-z]+="[^"]*"(,[a-z]+="[^"]*")*})? [0-9.e+-]+)\n$`).MatchString(line) {
			t.Errorf("no line of that form: %q", line)
		}
	}
	if strings.Contains(text, "sesame") || strings.Contains(text, "blue") || strings.Contains(text, id) {
		t.Error("a word of a caller's is in it")
	}
}

// TestNumbersAreNoPages: the numbers need no key, and are told by a name of the
// daemon's alone, to no page of any origin, and at one address.
func TestNumbersAreNoPages(t *testing.T) {
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) {
		serve.Hosts, serve.Origins = []string{"cells.example"}, []string{"https://console.example"}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := s.api.MetricsServer()
	go server.Serve(l)
	defer server.Close()
	s.url = "http://" + l.Addr().String()
	for _, c := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{"GET", "/metrics", nil, 200}, {"GET", "/metrics", []string{"Host", "localhost:9"}, 200}, {"GET", "/metrics", []string{"Host", "cells.example"}, 200},
		{"GET", "/metrics", []string{"Host", "evil.example"}, 421}, {"GET", "/metrics", []string{"Host", "127.0.0.2"}, 421}, {"GET", "/nothing", []string{"Host", "evil.example"}, 421},
		{"OPTIONS", "/metrics", []string{"Host", "evil.example"}, 421},
		{"GET", "/metrics", []string{"Origin", "https://console.example"}, 403}, {"GET", "/metrics", []string{"Origin", "null"}, 403},
		{"GET", "/metrics", []string{"Sec-Fetch-Site", "same-site"}, 403}, {"GET", "/metrics", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"GET", "/", nil, 404}, {"GET", "/debug/pprof/", nil, 404}, {"POST", "/metrics", nil, 405},
	} {
		a := s.do(c.method, c.path, "", "", c.headers...)
		if a.StatusCode != c.status || strings.Contains(string(a.body), "callcell_running") != (c.status == 200) || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s %q: %d %.200s, want %d", c.method, c.path, c.headers, a.StatusCode, a.body, c.status)
		}
	}
}

// TestNothingIsBesideTheChain: what Go's server answers by itself is refused
// like everything else.
func TestNothingIsBesideTheChain(t *testing.T) {
	s := newStand(t, nil)
	here := strings.TrimPrefix(s.url, "http://")
	for name, c := range map[string]struct{ head, status string }{
		"OPTIONS * of another name": {"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n", "421"},
		"OPTIONS *":                 {"OPTIONS * HTTP/1.1\r\nHost: " + here + "\r\n", "401"},
		"an absolute address":       {"GET http://evil.example/healthz HTTP/1.1\r\nHost: " + here + "\r\n", "421"},
		"no name":                   {"GET /healthz HTTP/1.0\r\n", "421"},
		"a tunnel":                  {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n", "421"},
	} {
		conn, err := net.Dial("tcp", here)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.head+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, " "+c.status+" ") {
			t.Errorf("%s: %q %v, want %s", name, line, err, c.status)
		}
		conn.Close()
	}
}
