package outward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/testing/leak"
)

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func client(t *testing.T, p Place, n Net) *Client {
	t.Helper()
	n.Timeout = 10 * time.Second
	c, err := New(p, n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPost: a status of 200 to 299 is a yes, and nothing else of an answer
// matters: not its body, not where it leads.
func TestPost(t *testing.T) {
	leak.Check(t)
	var body, kind, agent string
	reached := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			b, _ := io.ReadAll(r.Body)
			body, kind, agent = string(b), r.Header.Get("Content-Type"), r.UserAgent()
			w.WriteHeader(202)
		case "/endless":
			io.Copy(w, endless{})
		case "/redirect":
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(307)
		case "/nowhere":
			w.Header().Set("Location", "http://[secret%zz")
			w.WriteHeader(302)
		case "/elsewhere":
			reached++
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "/long":
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(503)
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 64<<10))
		default:
			w.WriteHeader(404)
		}
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	post := func(path string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return client(t, Place{URL: server.URL + path, Roots: roots}, Net{}).Post(ctx, http.Header{"Content-Type": {"text/x"}}, []byte("words"))
	}
	for _, path := range []string{"/ok", "/endless"} {
		if err := post(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if body != "words" || kind != "text/x" || agent != "callcell" {
		t.Errorf("%q %q %q", body, kind, agent)
	}
	for _, c := range []struct {
		path  string
		want  StatusError
		retry bool
	}{
		{"/redirect", StatusError{Status: 307}, false}, {"/nowhere", StatusError{Status: 302}, false}, {"/busy", StatusError{429, 7 * time.Second}, true},
		{"/long", StatusError{503, time.Hour}, true}, {"/no", StatusError{Status: 404}, false},
	} {
		err := post(c.path)
		var status *StatusError
		if !errors.As(err, &status) || *status != c.want || status.Retry() != c.retry || reached != 0 {
			t.Errorf("%s: %v, %d redirects were followed", c.path, err, reached)
		}
	}
	if err := post("/header"); err == nil || strings.Contains(err.Error(), "/header") {
		t.Errorf("a large head: %v", err)
	}
	stranger := client(t, Place{URL: server.URL + "/secret", Roots: x509.NewCertPool()}, Net{})
	var unknown *tls.CertificateVerificationError
	if err := stranger.Post(t.Context(), nil, nil); !errors.As(err, &unknown) || strings.Contains(err.Error(), "secret") {
		t.Errorf("another's certificate: %v", err)
	}
}

// TestWhereItMayLead: a name may lead to public addresses and to ranges that are
// listed; a metadata service is never reached.
func TestWhereItMayLead(t *testing.T) {
	leak.Check(t)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	loop := netip.MustParsePrefix("127.0.0.1/32")
	for _, c := range []struct {
		name, addr string
		private    []netip.Prefix
		reached    bool
	}{
		{"this host", "127.0.0.1", nil, false},
		{"this host, by a range that is wider than it", "127.0.0.1", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, false},
		{"this host, listed", "127.0.0.1", []netip.Prefix{loop}, true},
		{"a network", "10.1.2.3", []netip.Prefix{loop}, false},
		{"a metadata service", "169.254.169.254", nil, false},
		{"a metadata service of another kind", "168.63.129.16", nil, false},
		{"a form of this host", "::ffff:127.0.0.1", nil, false},
	} {
		p := Place{URL: "https://example.com:" + u.Port() + "/", Roots: roots, Private: c.private} // a name of its certificate
		err := client(t, p, Net{Hosts: map[string][]netip.Addr{"example.com": {netip.MustParseAddr(c.addr)}}}).Post(t.Context(), nil, nil)
		var status *StatusError
		var denied *dial.Denied
		if reached := errors.As(err, &status); reached != c.reached || !reached && !errors.As(err, &denied) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	deny := Net{Deny: []netip.Prefix{loop}}
	if err := client(t, Place{URL: server.URL, Roots: roots}, deny).Post(t.Context(), nil, nil); err == nil {
		t.Error("what the operator denies is reached")
	}
}

func TestPlaces(t *testing.T) {
	for _, bad := range []string{"", "x", "http://a.example/", "ftp://a.example/", "https://u@a.example/", "https://a.example/#x", "https://", "https:a.example",
		"https://2130706433/", "https://a.example:0/", "https://a.example:99999/", "http://10.0.0.1/", "https://a_b!.example/", "http://localhost/"} {
		if _, err := New(Place{URL: bad}, Net{Timeout: time.Second}); !errors.Is(err, ErrPlace) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"https://a.example", "https://A.example:4318/v1/traces?x=y", "http://127.0.0.1:4318/v1/traces", "http://[::1]:4318/", "https://10.0.0.1/"} {
		c, err := New(Place{URL: good, Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Net{Timeout: time.Second})
		if err != nil || strings.Contains(c.Name(), "x=y") {
			t.Errorf("%q: %v", good, err)
		}
	}
	if _, err := New(Place{URL: "https://169.254.169.254/"}, Net{Timeout: time.Second}); !errors.Is(err, ErrPlace) {
		t.Errorf("a metadata service: %v", err)
	}
}
