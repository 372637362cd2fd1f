package anchor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
)

// maxHeader bounds what is read of an answer, in bytes: the body is not.
const maxHeader = 16 << 10

// HTTP posts checkpoints to an address, as application/json. An answer of 200
// to 299 is a yes. It is a stranger's bytes: its body is not read, a redirect
// not followed, and no proxy of the environment stands in between.
type HTTP struct {
	name    string
	address string
	client  *http.Client
}

// NewHTTP returns an HTTP for an https address, or an http address of this
// host's own loopback. roots are the authorities of https; nil: this host's. An
// error wraps ErrPlace.
func NewHTTP(address string, roots *x509.CertPool) (*HTTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Fragment != "" || u.Hostname() == "" || u.Opaque != "" {
		return nil, fmt.Errorf("%w: %q: want an https address without a user or fragment", ErrPlace, address)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("%w: %q: want https; http is for 127.0.0.1 and ::1 alone", ErrPlace, address)
	}
	transport := &http.Transport{
		Proxy:                  nil,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
	return &HTTP{name: u.Scheme + "://" + u.Host, address: address, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// Name implements Anchor. It leaves out the path, which may be a secret.
func (h *HTTP) Name() string { return h.name }

// Send implements Anchor.
func (h *HTTP) Send(ctx context.Context, line []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.address, bytes.NewReader(line))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "callcell")
	res, err := h.client.Do(req)
	var fault *url.Error
	if errors.As(err, &fault) {
		return fault.Err // without the address: it may have a secret in it
	}
	if err != nil {
		return err
	}
	_ = res.Body.Close() // what it holds is nobody's business
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("%w: status %d", ErrAnswer, res.StatusCode)
	}
	return nil
}
