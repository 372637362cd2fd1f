package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/suffix"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A stand is a Fetcher before servers on loopback: allowed.test, other.test
// and example.com, which speaks TLS on 443. They seem to be at public addresses.
type stand struct {
	*Fetcher
	t      *testing.T
	public Judge // network.fetch is public

	mu    sync.Mutex
	to    map[string]string // HOST:PORT to the server there is
	deny  map[string]string // HOST:PORT to why its addresses are refused
	at    map[string]string // HOST:PORT to the address it seems to have
	dials []string
	hits  []*http.Request
	now   time.Time
}

func limits() wire.Limits {
	return wire.Limits{
		FetchBytes: 2 << 20, FetchHeader: 64 << 10, FetchTotal: 20 * time.Second, FetchHops: 5,
		CacheEntries: 128, CacheFor: 2 * time.Minute, CacheBytes: 32 << 20, FetchPorts: []int{80, 443, 8080},
	}
}

func newStand(t *testing.T, serve http.HandlerFunc) *stand {
	return newStandWith(t, limits(), serve)
}

func newStandWith(t *testing.T, l wire.Limits, serve http.HandlerFunc) *stand {
	t.Helper()
	leak.Check(t)
	s := &stand{t: t, deny: map[string]string{}, at: map[string]string{}, now: time.Unix(1e9, 0)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits = append(s.hits, r)
		s.mu.Unlock()
		serve(w, r)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it says when a client hangs up
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	s.to = map[string]string{
		"allowed.test:80": at(plain), "allowed.test:8080": at(plain), "other.test:80": at(plain), "example.com:80": at(plain),
		"example.com:443": at(secure), "allowed.test:443": at(secure),
	}
	s.public = judge(t, envelope.Network{Fetch: envelope.FetchPublic})
	s.Fetcher = New(Options{Dial: s, Roots: roots, Limits: l, ToASCII: suffix.ToASCII, Now: func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}})
	return s
}

func judge(t testing.TB, n envelope.Network) Judge {
	t.Helper()
	p, err := policy.New(n, policy.Options{PublicSuffix: suffix.Public, FetchPorts: limits().FetchPorts})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listed(t testing.TB, list ...envelope.Allow) Judge {
	return judge(t, envelope.Network{Allow: list})
}

// Dial implements Dialer.
func (s *stand) Dial(ctx context.Context, pol Judge, host string, port int) (net.Conn, error) {
	where := net.JoinHostPort(host, fmt.Sprint(port))
	if !pol.JudgeFetch(host, port).OK {
		s.t.Errorf("dialled and not allowed: %s", where)
	}
	s.mu.Lock()
	s.dials = append(s.dials, where)
	to, why, at := s.to[where], s.deny[where], s.at[where]
	s.mu.Unlock()
	switch {
	case why != "":
		return nil, &dial.Denied{Why: why}
	case to == "":
		return nil, &dial.Failed{Why: "the name has no address"}
	case at == "":
		at = "93.184.216.34"
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, &dial.Failed{Why: "the connection failed", Err: err}
	}
	return &seeming{c, netip.MustParseAddr(at)}, nil
}

// seeming is a connection that seems to be to another address.
type seeming struct {
	net.Conn
	remote netip.Addr
}

func (c *seeming) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.remote, 80))
}

// got is what came of a fetch.
type got struct {
	wire.Fetched
	body []byte
}

func (s *stand) get(pol Judge, req envelope.Fetch) got { return s.getAs("team", pol, req) }

func (s *stand) getAs(team string, pol Judge, req envelope.Fetch) (g got) {
	s.t.Helper()
	g.Fetched = s.Fetch(s.t.Context(), team, pol, wire.Fetch{Fetch: req}, func(piece []byte) error {
		if len(piece) == 0 || len(piece) > wire.MaxBody {
			s.t.Errorf("a piece of %d bytes", len(piece))
		}
		g.body = append(g.body, piece...)
		return nil
	})
	if !g.Untrusted || len(g.Body) > 0 {
		s.t.Errorf("untrusted %v, %d bytes of body in the answer", g.Untrusted, len(g.Body))
	}
	if _, err := wire.Encode(wire.Message{Fetched: &g.Fetched}); err != nil {
		s.t.Errorf("the answer is no message: %v", err)
	}
	return g
}

func (s *stand) url(url string) got { return s.get(s.public, envelope.Fetch{URL: url}) }

// untouched fails the test if something was dialled.
func (s *stand) untouched() {
	s.t.Helper()
	if len(s.dials) > 0 || len(s.hits) > 0 {
		s.t.Errorf("dialled %q, %d requests", s.dials, len(s.hits))
	}
}

func (s *stand) wantDials(want ...string) {
	s.t.Helper()
	if strings.Join(s.dials, " ") != strings.Join(want, " ") {
		s.t.Errorf("dialled %q, want %q", s.dials, want)
	}
}

// gzipped returns so many bytes as a server would send them.
func gzipped(t testing.TB, n int64, of string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat(of, 1<<20/len(of)))
	for ; n > 0; n -= int64(len(block)) {
		if _, err := z.Write(block[:min(n, int64(len(block)))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func send(t testing.TB, w io.Writer, b []byte) {
	if _, err := w.Write(b); err != nil {
		t.Logf("the other side hung up: %v", err)
	}
}

// piped returns a Fetcher before one server that does nothing but write.
func piped(t *testing.T, serve func(write func(string) error)) *Fetcher {
	return New(Options{Limits: limits(), ToASCII: suffix.ToASCII, Dial: dialFunc(func() net.Conn {
		here, there := net.Pipe()
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(io.Discard, there) })
		both.Go(func() {
			defer func() { _ = there.Close() }()
			serve(func(text string) error {
				_, err := io.WriteString(there, text)
				return err
			})
		})
		t.Cleanup(both.Wait)
		return here
	})})
}

type dialFunc func() net.Conn

func (f dialFunc) Dial(context.Context, Judge, string, int) (net.Conn, error) { return f(), nil }
