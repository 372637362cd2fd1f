// Package outward sends to the places that the operator of this host names:
// receivers of webhooks, collectors of traces.
//
//	Post ──> policy: the name's addresses, each judged ──> dial the one that was judged ──> TLS ──> POST
//
// The address of a place is the operator's word, and where its name leads to is a
// name server's: what is dialled must be public, of a range that the operator
// lists, or the very address that the place is written with; a metadata service
// is never reached. An answer is a stranger's bytes: its status is read, and a
// number of Retry-After; its body is not, a redirect is not followed, and no proxy
// of the environment stands in between.
package outward

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/policy"
)

// ErrPlace means that a place is not well formed, or may not be reached.
var ErrPlace = errors.New("outward: bad place")

// The bounds of an answer.
const (
	maxHeader = 16 << 10 // bytes of its head; its body is not read
	maxAfter  = time.Hour
)

// Place is where to.
type Place struct {
	// URL is https, or http to a loopback address of this host.
	URL     string
	Private []netip.Prefix // ranges that are not public and may be dialled all the same
	Roots   *x509.CertPool // the authorities of https; nil: this host's
}

// Net is what of this host's network the dialling goes by.
type Net struct {
	Resolvers []netip.AddrPort
	Hosts     map[string][]netip.Addr // names that are known without asking, canonical
	Deny      []netip.Prefix          // never dialled
	Timeout   time.Duration           // to resolve and connect; positive
}

// Client sends to one place. It may be used by many goroutines, and holds
// nothing between two requests.
type Client struct {
	url  string
	name string
	// by sends one request. No http.Client stands above it, which reads where an
	// answer would send us, and what it cannot read is an error and no answer.
	by http.RoundTripper
}

// StatusError is an answer that is not a yes.
type StatusError struct {
	Status int
	After  time.Duration // that it asks us to wait; 0: it does not say
}

// Error names the status.
func (e *StatusError) Error() string { return fmt.Sprintf("the answer is status %d", e.Status) }

// Retry reports whether trying again can help.
func (e *StatusError) Retry() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500
}

// New returns a client. An error wraps ErrPlace.
func New(p Place, n Net) (*Client, error) {
	u, err := url.Parse(p.URL)
	if err != nil || u.User != nil || u.Fragment != "" || u.Hostname() == "" || u.Opaque != "" {
		return nil, fmt.Errorf("%w: want an https address without a user or fragment", ErrPlace)
	}
	literal, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || !literal.IsLoopback()) {
		return nil, fmt.Errorf("%w: want https; http is for 127.0.0.1 and ::1 alone", ErrPlace)
	}
	r, err := newRoute(u, literal, p.Private, n)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:            r.dial,
		TLSClientConfig:        &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
	return &Client{url: p.URL, name: u.Scheme + "://" + u.Host, by: transport}, nil
}

// Name is the place, for messages. It leaves out the path, which may be a
// secret.
func (c *Client) Name() string { return c.name }

// Post sends a body, and returns nil where the answer is a status of 200 to
// 299. An error is a *StatusError, or why there is no answer, without the
// place's path. It honours ctx, and nothing of it goes on when it has returned.
func (c *Client) Post(ctx context.Context, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: it cannot be asked", ErrPlace)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "callcell")
	res, err := c.by.RoundTrip(req) // its errors are without the address, which may have a secret in it
	if err != nil {
		return err
	}
	_ = res.Body.Close() // what it holds is nobody's business
	if res.StatusCode >= 200 && res.StatusCode <= 299 {
		return nil
	}
	return &StatusError{Status: res.StatusCode, After: after(res.Header.Get("Retry-After"))}
}

// after reads a Retry-After of seconds. A date, and what is no number, says
// nothing.
func after(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxAfter)
}

// A route dials one place and no other.
type route struct {
	policy *policy.Policy
	dialer *dial.Dialer
	host   string
	port   int
}

func newRoute(u *url.URL, literal netip.Addr, private []netip.Prefix, n Net) (*route, error) {
	port := 443
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" {
		v, err := strconv.ParseUint(text, 10, 16)
		if err != nil || v == 0 {
			return nil, fmt.Errorf("%w: %s is not a port", ErrPlace, text)
		}
		port = int(v)
	}
	host, err := policy.Canonical(u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlace, err)
	}
	network := envelope.Network{Allow: []envelope.Allow{{Host: host, Ports: []int{port}, Protocol: envelope.ProtocolTCP}}}
	if literal.IsValid() {
		one := netip.PrefixFrom(literal.Unmap(), literal.Unmap().BitLen())
		private = append([]netip.Prefix{one}, without(private, one)...)
	}
	for _, p := range private {
		network.Private = append(network.Private, envelope.Private{CIDR: p.String(), Why: "the operator's own place"})
	}
	pol, err := policy.New(network, policy.Options{Deny: n.Deny})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlace, err)
	}
	return &route{policy: pol, host: host, port: port,
		dialer: dial.New(dial.Options{Resolvers: n.Resolvers, Hosts: n.Hosts, Timeout: n.Timeout})}, nil
}

// without leaves out the ranges that have one in them: it is listed by itself.
func without(list []netip.Prefix, one netip.Prefix) (rest []netip.Prefix) {
	for _, p := range list {
		if !p.Overlaps(one) {
			rest = append(rest, p)
		}
	}
	return rest
}

// dial is http.Transport's: what it is told is what the address says, and is
// judged all the same.
func (r *route) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	port, odd := strconv.Atoi(text)
	if err != nil || odd != nil || port != r.port {
		return nil, fmt.Errorf("%w: another one than was named", ErrPlace)
	}
	v := r.policy.Judge(host, port)
	if !v.OK || v.Host != r.host {
		return nil, fmt.Errorf("%w: %s", ErrPlace, v.Why)
	}
	return r.dialer.Dial(ctx, func(a netip.Addr, own []netip.Addr) (bool, string) {
		got := r.policy.JudgeAddr(a, own)
		return got.OK, got.Why
	}, dial.Target{Host: v.Host, Port: uint16(v.Port), Literal: v.Literal})
}
