package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/fetch"
	"github.com/callcell/callcell/internal/egress/wire"
)

// fetch asks for a document and waits for the answer.
func (s *session) fetch(url string) *wire.Fetched {
	s.t.Helper()
	s.f.send(s.t, s.conn, wire.Message{Fetch: &wire.Fetch{Fetch: envelope.Fetch{URL: url, Fresh: true}}})
	s.wait("Fetched", func() bool { return s.fetched != nil })
	return s.fetched
}

// document is a call without a cell.
func (f *front) document(t testing.TB, n envelope.Network, list ...wire.Credential) *session {
	t.Helper()
	s := f.open(t, n, nil, nil, list...)
	if m := f.receive(t, s.conn); m.Ready == nil {
		t.Fatalf("%+v", m)
	}
	s.follow()
	return s
}

func TestFetchIsDialledAndCountedLikeEverythingElse(t *testing.T) {
	f := newFront(t, setup{names: loopback1})
	page := strings.Repeat("page ", 50_000)
	port := origin(t, "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		_, _ = io.Copy(io.Discard, c)
	})
	s := f.document(t, network(allow("allowed.test", "http", port)))
	got := s.fetch(fmt.Sprintf("http://allowed.test:%d/", port))
	if got.Status != 200 || got.Failure != "" || got.Refused != nil || !got.Untrusted || string(s.body) != page {
		t.Errorf("%d bytes, %+v", len(s.body), got)
	}
	a := s.expect(1, "allowed.test", port, envelope.VerdictAllowed, "network.allow[0]")
	if a.Address != fmt.Sprintf("127.0.0.1:%d", port) || a.Received < int64(len(page)) || a.Sent == 0 {
		t.Errorf("%+v", a)
	}
	if e := s.end(); e.Connections != 1 || e.Received != a.Received {
		t.Errorf("%+v", e)
	}
}

func TestFetchThatIsRefusedIsALine(t *testing.T) {
	for name, row := range map[string]struct {
		fetch   string
		url     string
		refused bool
		host    string
		verdict envelope.Verdict
		why     string
	}{
		"a host of no entry":        {"", "http://denied.test:80/", true, "denied.test", envelope.VerdictDenied, "no entry"},
		"an address within":         {"", "http://inside.test:80/", false, "inside.test", envelope.VerdictDenied, "resolved address not allowed: 127.0.0.3"},
		"an origin that is not up":  {"", "http://allowed.test:80/", false, "allowed.test", envelope.VerdictFailed, "the connection was refused"},
		"what private ranges open":  {envelope.FetchPublic, "http://other.test:80/", false, "other.test", envelope.VerdictDenied, "resolved address not allowed: 127.0.0.1"},
		"a name that is not public": {envelope.FetchPublic, "http://localhost:80/", true, "localhost", envelope.VerdictDenied, "not public"},
	} {
		f := newFront(t, setup{names: loopback1})
		n := network(allow("allowed.test", "http", 80), allow("inside.test", "http", 80))
		n.Fetch = row.fetch
		s := f.document(t, n)
		got := s.fetch(row.url)
		if (got.Refused != nil) != row.refused || (got.Failure != "") == row.refused {
			t.Errorf("%s: %+v %+v", name, got, got.Refused)
		}
		s.expect(1, row.host, 80, row.verdict, row.why)
		if e := s.end(); e.Denied+e.Failed != 1 || e.Connections != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestFetchCountsAgainstTheCallsBytes(t *testing.T) {
	f := newFront(t, setup{names: loopback1, limits: func(l *wire.Limits) { l.Bytes = 10_000 }})
	port := origin(t, "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		_, _ = io.Copy(c, endless{})
	})
	s := f.document(t, network(allow("allowed.test", "http", port)))
	if got := s.fetch(fmt.Sprintf("http://allowed.test:%d/", port)); got.Failure == "" || len(s.body) > 10_000 {
		t.Errorf("%+v", got)
	}
	s.expect(1, "allowed.test", port, envelope.VerdictCut, "the call's 10000 bytes are used up")
	s.end()
}

func TestFetchEndsWithTheCall(t *testing.T) {
	waits := fetcher(func(ctx context.Context, _ fetch.Judge, _ wire.Fetch, emit func([]byte) error) wire.Fetched {
		if err := emit(bytes.Repeat([]byte("x"), wire.MaxBody+1)); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return wire.Fetched{}
	})
	f := newFront(t, setup{fetch: waits})
	s := f.document(t, network(allow("allowed.test", "http", 80)))
	s.f.send(t, s.conn, wire.Message{Fetch: &wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/"}}})
	s.wait("body", func() bool { return len(s.body) == wire.MaxBody+1 })
	s.end()
}

func TestADescriptionThatDoesNotFitIsLeftOut(t *testing.T) {
	long := fetcher(func(context.Context, fetch.Judge, wire.Fetch, func([]byte) error) (got wire.Fetched) {
		got.Title = strings.Repeat("x", wire.MaxMessage)
		return got
	})
	f := newFront(t, setup{fetch: long})
	s := f.document(t, network(allow("allowed.test", "http", 80)))
	if got := s.fetch("http://allowed.test/"); !strings.Contains(got.Failure, "too long") || !got.Untrusted {
		t.Errorf("%+v", got)
	}
	s.end()
}

func TestASecondFetchEndsTheConversation(t *testing.T) {
	f := newFront(t, setup{fetch: fetcher(func(context.Context, fetch.Judge, wire.Fetch, func([]byte) error) (got wire.Fetched) { return got })})
	s := f.document(t, network(allow("allowed.test", "http", 80)))
	s.fetch("http://allowed.test/")
	s.f.send(t, s.conn, wire.Message{Fetch: &wire.Fetch{Fetch: envelope.Fetch{URL: "http://allowed.test/"}}})
	s.wait("end", func() bool { return s.err != nil })
	if s.done != nil {
		t.Errorf("%+v", s.done)
	}
}

// secure is an origin of HTTPS for a name, and the roots that prove it.
func secure(t testing.TB) (port int, roots []byte) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	}))
	ca, cert := authority(t, "allowed.test")
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().(*net.TCPAddr).Port, ca
}

func TestInspectedTLSIsJudgedRequestByRequest(t *testing.T) {
	bothWays(t, testInspectedTLSIsJudgedRequestByRequest)
}

func testInspectedTLSIsJudgedRequestByRequest(t *testing.T, w way) {
	port, roots := secure(t)
	f := newFront(t, setup{way: w, names: loopback1, roots: roots})
	entry := allow("allowed.test", "tls", port)
	entry.Inspect = true
	s := f.begin(t, network(entry))
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.ca)) {
		t.Fatalf("no certificate: %q", s.ca)
	}
	host := fmt.Sprintf("allowed.test:%d", port)
	for i, row := range []struct {
		host, got string
		verdict   envelope.Verdict
	}{
		{host, host + " /a", envelope.VerdictAllowed},
		{"denied.test", "", envelope.VerdictDenied},
	} {
		c := tls.Client(s.reach("allowed.test", port), &tls.Config{ServerName: "allowed.test", RootCAs: pool})
		if _, err := fmt.Fprintf(c, "GET /a HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", row.host); err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(c) // a refusal may end by a reset
		if _, body, _ := strings.Cut(string(b), "\r\n\r\n"); row.got != "" && body != row.got {
			t.Errorf("%s: %q", row.host, b)
		}
		a := s.expect(i+1, "allowed.test", port, row.verdict, "")
		if a.Unchecked != "" || row.verdict == envelope.VerdictAllowed && (a.Requests != 1 || a.Address == "") {
			t.Errorf("%+v", a)
		}
	}
	s.end()
}

func TestTLSFromEndToEndIsCarried(t *testing.T) { bothWays(t, testTLSFromEndToEndIsCarried) }

func testTLSFromEndToEndIsCarried(t *testing.T, w way) {
	port, roots := secure(t)
	f := newFront(t, setup{way: w, names: loopback1, roots: roots})
	s := f.begin(t, network(allow("allowed.test", "tls", port)))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	c := tls.Client(s.reach("allowed.test", port), &tls.Config{ServerName: "allowed.test", RootCAs: pool})
	if _, err := fmt.Fprintf(c, "GET /a HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(b), "denied.test /a") {
		t.Errorf("%q %v", b, err)
	}
	_ = c.Close()
	if a := s.expect(1, "allowed.test", port, envelope.VerdictAllowed, ""); a.Unchecked != "fronting" {
		t.Errorf("%+v", a)
	}
	s.end()
}
