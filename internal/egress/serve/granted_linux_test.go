package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

const kept = "s3cr3t-value/+x"

// key is a credential of allowed.test.
func key(t testing.TB, port int, text string) wire.Credential {
	t.Helper()
	one, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Destroy)
	return wire.Credential{Name: "gh", Header: "X-Api-Key", Format: "key {}", Host: "allowed.test", Port: port, Methods: []string{"GET"}, Path: "/repos/", Secret: one}
}

// grant sends credentials with their secrets.
func (f *front) grant(t testing.TB, conn *packet.Conn, list []wire.Credential) {
	t.Helper()
	if len(list) == 0 {
		return
	}
	f.send(t, conn, wire.Message{Grant: &wire.Grant{Credentials: list}})
	for _, c := range list {
		c.Secret.Reveal(func(value []byte) {
			if err := conn.Send(value); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// echoes are origins of HTTPS, and one of HTTP, for allowed.test and
// other.test. They send back the header that the credential is for; with
// ?to=URL they redirect.
type echoes struct {
	port, second, plain int
	roots               []byte

	mu  sync.Mutex // guards got
	got []string   // HOST HEADER of each request
}

func newEchoes(t testing.TB) *echoes {
	t.Helper()
	o := &echoes{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get("X-Api-Key")
		host, _, _ := net.SplitHostPort(r.Host)
		o.mu.Lock()
		o.got = append(o.got, host+" "+said)
		o.mu.Unlock()
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "you said "+said)
	})
	ca, cert := authority(t, "allowed.test", "other.test", "a.allowed.test", "b.allowed.test")
	o.roots = ca
	serve := func(secure bool) int {
		srv := httptest.NewUnstartedServer(handler)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().(*net.TCPAddr).Port
	}
	o.port, o.second, o.plain = serve(true), serve(true), serve(false)
	return o
}

// saw returns what came since it was asked last.
func (o *echoes) saw() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

func (o *echoes) network() envelope.Network {
	return network(allow("allowed.test", "tls", o.port, o.second), allow("other.test", "tls", o.port), allow("allowed.test", "http", o.plain))
}

// ask says one request on a connection and returns the answer's body.
func ask(t testing.TB, c net.Conn, host, target string) string {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: mine\r\nConnection: close\r\n\r\n", target, host); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	_ = c.Close()
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	return body
}

// trusting speaks TLS on a connection.
func trusting(t testing.TB, c net.Conn, name, pem string) *tls.Conn {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		t.Fatalf("no certificate: %q", pem)
	}
	return tls.Client(c, &tls.Config{ServerName: name, RootCAs: pool})
}

// TestACredentialGoesToItsHostAndPortAlone, by whichever way a program comes.
func TestACredentialGoesToItsHostAndPortAlone(t *testing.T) {
	bothWays(t, testACredentialGoesToItsHostAndPortAlone)
}

func testACredentialGoesToItsHostAndPortAlone(t *testing.T, w way) {
	o := newEchoes(t)
	f := newFront(t, setup{way: w, names: loopback1, roots: o.roots})
	s := f.begin(t, o.network(), key(t, o.port, kept))
	at := func(host string, port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }
	line := 0
	check := func(what, body, got string, a envelope.Attempt) {
		t.Helper()
		line++
		if saw := o.saw(); len(saw) != 1 || saw[0] != got {
			t.Errorf("%s: the origin saw %q, want %q", what, saw, got)
		}
		if strings.Contains(body, "s3cr3t") {
			t.Errorf("%s: %q", what, body)
		}
		if l := s.line(line); l.Verdict != a.Verdict || l.Unchecked != a.Unchecked || !strings.HasSuffix(l.Why, a.Why) {
			t.Errorf("%s: %+v", what, l)
		}
	}
	looked := envelope.Attempt{Verdict: envelope.VerdictAllowed}
	blind := envelope.Attempt{Verdict: envelope.VerdictAllowed, Unchecked: "fronting"}
	bare := envelope.Attempt{Verdict: envelope.VerdictAllowed, Why: "1 of 1 requests without a credential"}

	check("its own", ask(t, trusting(t, s.reach("allowed.test", o.port), "allowed.test", s.ca), at("allowed.test", o.port), "/repos/"), "allowed.test key "+kept, looked)
	proxied := s.connect(proxyAt)
	_, _ = fmt.Fprintf(proxied, "CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", o.port)
	if _, err := io.ReadFull(proxied, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	check("by the proxy", ask(t, trusting(t, proxied, "allowed.test", s.ca), at("allowed.test", o.port), "/repos/"), "allowed.test key "+kept, looked)
	check("another path", ask(t, trusting(t, s.reach("allowed.test", o.port), "allowed.test", s.ca), at("allowed.test", o.port), "/repository"), "allowed.test ", bare)
	check("another port", ask(t, trusting(t, s.reach("allowed.test", o.second), "allowed.test", string(o.roots)), at("allowed.test", o.second), "/repos/"), "allowed.test mine", blind)
	check("another host", ask(t, trusting(t, s.reach("other.test", o.port), "other.test", string(o.roots)), at("other.test", o.port), "/repos/"), "other.test mine", blind)
	check("plain HTTP", ask(t, s.reach("allowed.test", o.plain), at("allowed.test", o.plain), "/repos/"), "allowed.test mine", looked)
	end := s.endWith(t)
	if end.Credentials["gh"] != 2 || end.MaskedBy["gh"] != 2 || len(end.MaskedBy) != 1 {
		t.Errorf("%+v", end)
	}
	if strings.Contains(f.log.String(), "s3cr3t") {
		t.Errorf("%q", f.log)
	}
}

// endWith ends the call and returns its last word.
func (s *session) endWith(t testing.TB) *wire.Done {
	t.Helper()
	s.end()
	return s.done
}

// TestTLSIsEndedWhereACredentialIsFor: the origin's own certificate is not seen
// there. An entry that covers the host is enough.
func TestTLSIsEndedWhereACredentialIsFor(t *testing.T) {
	bothWays(t, testTLSIsEndedWhereACredentialIsFor)
}

func testTLSIsEndedWhereACredentialIsFor(t *testing.T, w way) {
	o := newEchoes(t)
	f := newFront(t, setup{way: w, names: map[string][]string{"a.allowed.test.": {"127.0.0.1"}, "b.allowed.test.": {"127.0.0.1"}}, roots: o.roots})
	c := key(t, o.port, kept)
	c.Host = "a.allowed.test"
	s := f.begin(t, network(allow("*.allowed.test", "tls", o.port)), c)
	end := trusting(t, s.reach("a.allowed.test", o.port), "a.allowed.test", string(o.roots))
	if err := end.Handshake(); err == nil {
		t.Error("the program speaks to the origin itself")
	}
	_ = end.Close()
	if body := ask(t, trusting(t, s.reach("a.allowed.test", o.port), "a.allowed.test", s.ca), fmt.Sprintf("a.allowed.test:%d", o.port), "/repos/"); !strings.Contains(body, "you said [redacted:gh]") {
		t.Errorf("%q", body)
	}
	other := trusting(t, s.reach("b.allowed.test", o.port), "b.allowed.test", s.ca)
	if err := other.Handshake(); err == nil {
		t.Error("the call's authority vouches for a host without a credential")
	}
	_ = other.Close()
	s.end()
}

func TestAnythingButTLSIsRefusedAtTheBegin(t *testing.T) {
	f := newFront(t, setup{names: loopback1})
	for _, protocol := range []string{"http", "tcp", "postgres"} {
		s := f.open(t, network(allow("allowed.test", protocol, 4430)), nil, nil, key(t, 4430, kept))
		if m := f.receive(t, s.conn); m.Refused == nil || !strings.Contains(m.Refused.Why, "allowed.test") || !strings.Contains(m.Refused.Why, "speaks "+protocol) {
			t.Errorf("%s: %+v", protocol, m.Refused)
		}
	}
}

// TestACredentialOpensNothing: a host that is not allowed stays so.
func TestACredentialOpensNothing(t *testing.T) { bothWays(t, testACredentialOpensNothing) }

func testACredentialOpensNothing(t *testing.T, w way) {
	o := newEchoes(t)
	f := newFront(t, setup{way: w, names: loopback1, roots: o.roots})
	s := f.begin(t, network(allow("other.test", "tls", o.port)), key(t, o.port, kept))
	if a, _ := s.lookup("allowed.test"); a.IsValid() || s.ca != "" {
		t.Errorf("%v %q", a, s.ca)
	}
	c := s.connect(proxyAt)
	if got, err := said(t, c, fmt.Sprintf("CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", o.port)); err != nil || !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("%q %v", got, err)
	}
	if end := s.endWith(t); len(o.saw()) > 0 || len(end.Credentials) > 0 {
		t.Errorf("%+v", end)
	}
}

func TestTwoCallsWithOneNameDoNotMix(t *testing.T) { bothWays(t, testTwoCallsWithOneNameDoNotMix) }

func testTwoCallsWithOneNameDoNotMix(t *testing.T, w way) {
	o := newEchoes(t)
	f := newFront(t, setup{way: w, names: loopback1, roots: o.roots})
	var all sync.WaitGroup
	var sessions []*session
	for i := range 2 {
		s := f.begin(t, o.network(), key(t, o.port, fmt.Sprintf("s3cr3t-%d-value", i)))
		sessions = append(sessions, s)
		for range 3 {
			c := trusting(t, s.reach("allowed.test", o.port), "allowed.test", s.ca)
			all.Go(func() {
				_, _ = fmt.Fprintf(c, "GET /repos/%d HTTP/1.1\r\nHost: allowed.test:%d\r\nConnection: close\r\n\r\n", i, o.port)
				b, _ := io.ReadAll(c)
				if !strings.Contains(string(b), "you said [redacted:gh]") {
					t.Errorf("%d: %q", i, b)
				}
				_ = c.Close()
			})
		}
	}
	all.Wait()
	got := o.saw()
	slices.Sort(got)
	want := slices.Concat(slices.Repeat([]string{"allowed.test key s3cr3t-0-value"}, 3), slices.Repeat([]string{"allowed.test key s3cr3t-1-value"}, 3))
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, s := range sessions {
		if end := s.endWith(t); end.Credentials["gh"] != 3 || end.MaskedBy["gh"] != 3 {
			t.Errorf("%+v", end)
		}
	}
}

// TestWhatIsNoGrantIsRefused, without a word of what came.
func TestWhatIsNoGrantIsRefused(t *testing.T) {
	good := key(t, 4430, kept)
	with := func(change func(*wire.Credential)) []byte {
		c := good
		change(&c)
		return encoded(t, wire.Message{Grant: &wire.Grant{Credentials: []wire.Credential{c}}})
	}
	many := make([]wire.Credential, wire.MaxCredentials+1)
	grant := with(func(*wire.Credential) {})
	for name, row := range map[string]struct {
		says []string
		why  string
	}{
		"another message":  {[]string{string(encoded(t, wire.Message{End: &wire.End{}}))}, "did not come"},
		"the secret first": {[]string{kept, string(grant)}, "did not come"},
		"no message":       {[]string{"{}"}, "did not come"},
		"none":             {[]string{string(encoded(t, wire.Message{Grant: &wire.Grant{}}))}, "did not come"},
		"too many":         {[]string{string(encoded(t, wire.Message{Grant: &wire.Grant{Credentials: many}}))}, "did not come"},
		"too long":         {[]string{string(grant), strings.Repeat("s3cr3t", wire.MaxSecret)}, "did not come"},
		"a line in it":     {[]string{string(grant), kept + "\r\nX: y"}, `credential "gh": has bytes that no header can have`},
		"too short":        {[]string{string(grant), "s3cr"}, "too short"},
		"a wildcard":       {[]string{string(with(func(c *wire.Credential) { c.Host = "*.test" })), kept}, "no credential of a header: its host"},
	} {
		f := newFront(t, setup{})
		conn, its := ends(t)
		f.send(t, f.control, wire.Message{Begin: &wire.Begin{Granted: true, Sockets: []wire.Socket{{Use: wire.UseCall}}, Network: network(allow("allowed.test", "tls", 4430))}}, os.NewFile(uintptr(its), "call"))
		for _, text := range row.says {
			_ = conn.Send([]byte(text)) // it may have been refused before
		}
		m := f.receive(t, conn)
		if m.Refused == nil || !strings.Contains(m.Refused.Why, row.why) || strings.Contains(m.Refused.Why, "s3cr") {
			t.Errorf("%s: %+v", name, m.Refused)
		}
		if strings.Contains(f.log.String(), "s3cr") {
			t.Errorf("%s: %q", name, f.log)
		}
		_ = conn.Close()
	}
}

func encoded(t testing.TB, m wire.Message) []byte {
	t.Helper()
	b, err := wire.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAGrantThatDoesNotComeHoldsUpNoEnd: of the process, or of the call.
func TestAGrantThatDoesNotComeHoldsUpNoEnd(t *testing.T) {
	f := newFront(t, setup{})
	for _, hangUp := range []bool{true, false} {
		conn, its := ends(t)
		f.send(t, f.control, wire.Message{Begin: &wire.Begin{Granted: true, Sockets: []wire.Socket{{Use: wire.UseCall}}}}, os.NewFile(uintptr(its), "call"))
		t.Cleanup(func() { _ = conn.Close() })
		if hangUp {
			_ = conn.Close()
		}
	}
	_ = f.control.Close()
	err := <-f.ended
	f.ended <- err
	if err != nil {
		t.Error(err)
	}
}

// TestAFetchUsesACredentialWhereItIsFor: with a header of its own name, which
// no client would drop by itself when it is sent elsewhere.
func TestAFetchUsesACredentialWhereItIsFor(t *testing.T) {
	o := newEchoes(t)
	f := newFront(t, setup{names: loopback1, roots: o.roots})
	own := fmt.Sprintf("https://allowed.test:%d", o.port)
	const with = "allowed.test key " + kept
	for name, row := range map[string]struct {
		url, body string
		got       []string
		masked    int64
	}{
		"its own":        {own + "/repos/", "you said [redacted:gh]", []string{with}, 1},
		"another path":   {own + "/repository", "you said ", []string{"allowed.test "}, 0},
		"another port":   {fmt.Sprintf("https://allowed.test:%d/repos/", o.second), "you said ", []string{"allowed.test "}, 0},
		"another host":   {fmt.Sprintf("https://other.test:%d/repos/", o.port), "you said ", []string{"other.test "}, 0},
		"plain HTTP":     {fmt.Sprintf("http://allowed.test:%d/repos/", o.plain), "you said ", []string{"allowed.test "}, 0},
		"to a path":      {own + "/repos/?to=/admin", "you said ", []string{with, "allowed.test "}, 0},
		"to a host":      {fmt.Sprintf("%s/repos/?to=https://other.test:%d/repos/", own, o.port), "you said ", []string{with, "other.test "}, 0},
		"to a port":      {fmt.Sprintf("%s/repos/?to=https://allowed.test:%d/repos/", own, o.second), "you said ", []string{with, "allowed.test "}, 0},
		"to plain HTTP":  {fmt.Sprintf("%s/repos/?to=http://allowed.test:%d/repos/", own, o.plain), "", []string{with}, 0},
		"from elsewhere": {fmt.Sprintf("https://other.test:%d/?to=%s/repos/", o.port, own), "you said [redacted:gh]", []string{"other.test ", with}, 1},
	} {
		s := f.document(t, o.network(), key(t, o.port, kept))
		got := s.fetch(row.url)
		if saw := o.saw(); !slices.Equal(saw, row.got) || string(s.body) != row.body || (got.Failure != "") != (row.body == "") {
			t.Errorf("%s: the origin saw %q; %q %+v", name, saw, s.body, got)
		}
		end := s.endWith(t)
		if end.Credentials["gh"] != int64(strings.Count(strings.Join(row.got, "\n"), kept)) || end.MaskedBy["gh"] != row.masked {
			t.Errorf("%s: %+v", name, end)
		}
	}
}

// TestFetchesOfDifferentCallersAreNotCached for each other.
func TestFetchesOfDifferentCallersAreNotCached(t *testing.T) {
	o := newEchoes(t)
	f := newFront(t, setup{names: loopback1, roots: o.roots})
	url := fmt.Sprintf("https://allowed.test:%d/repos/", o.port)
	for _, row := range []struct {
		list []wire.Credential
		got  string
	}{
		{[]wire.Credential{key(t, o.port, "s3cr3t-a-value")}, "allowed.test key s3cr3t-a-value"},
		{[]wire.Credential{key(t, o.port, "s3cr3t-b-value")}, "allowed.test key s3cr3t-b-value"},
		{nil, "allowed.test "},
		{[]wire.Credential{key(t, o.port, "s3cr3t-a-value")}, "allowed.test key s3cr3t-a-value"},
	} {
		s := f.document(t, o.network(), row.list...)
		s.f.send(t, s.conn, wire.Message{Fetch: &wire.Fetch{Fetch: envelope.Fetch{URL: url}}})
		s.wait("Fetched", func() bool { return s.fetched != nil })
		if saw := o.saw(); len(saw) != 1 || saw[0] != row.got || s.fetched.Cached || s.fetched.Failure != "" {
			t.Errorf("%q, want %q; %+v", saw, row.got, s.fetched)
		}
		s.end()
	}
}
