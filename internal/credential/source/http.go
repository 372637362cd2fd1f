package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/callcell/callcell/internal/credential/secret"
)

// The bounds of one request. The context's own end holds beside them.
const (
	maxAnswer     = 1 << 20
	maxHeader     = 64 << 10
	connectTime   = 5 * time.Second
	handshakeTime = 5 * time.Second
	headerTime    = 30 * time.Second
	idleTime      = 30 * time.Second
	maxIdle       = 4
	undoTime      = 5 * time.Second // to take back what is of no use
)

// newClient returns the client of all sources of a host. Roots of nil are this
// host's.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // not of the environment either
			DialContext:            (&net.Dialer{Timeout: connectTime}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    handshakeTime,
			ResponseHeaderTimeout:  headerTime,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is what a server said, whole.
type answer struct {
	status int
	body   []byte
}

// ask sends a request and reads the answer. An error is a *Fault of kind.
func ask(client *http.Client, kind Kind, r *http.Request) (*answer, error) {
	res, err := client.Do(r)
	if err != nil {
		return nil, netFault(r.Context(), kind, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil, r.Context().Err() != nil: // an answer that we cut can look whole
		clear(body)
		return nil, netFault(r.Context(), kind, err)
	case len(body) > maxAnswer:
		clear(body)
		return nil, &Fault{kind, Invalid, "the server answers with more than 1 MiB", "is it the right address?"}
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return nil, &Fault{kind, Unavailable, "the server points to another address, which is not followed", "configure the address that answers"}
	}
	return &answer{res.StatusCode, body}, nil
}

// netFault says what kept an answer away. The error's own text has addresses
// in it.
func netFault(ctx context.Context, kind Kind, err error) *Fault {
	var (
		name    *net.DNSError
		network net.Error
		record  tls.RecordHeaderError
		verify  *tls.CertificateVerificationError
	)
	switch {
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout():
		return timeout(kind)
	case errors.As(err, &verify):
		return &Fault{kind, Unavailable, "the server's certificate is not trusted", "add its authority to credentials.roots, and call it by its certificate's name"}
	case errors.As(err, &record):
		return &Fault{kind, Unavailable, "the server does not speak TLS", "configure its https address"}
	case errors.As(err, &name):
		return &Fault{kind, Unavailable, "the server's name is not found", "check the address, and this host's resolver"}
	}
	return &Fault{kind, Unavailable, "the server cannot be reached", "check that it runs, and its address"}
}

// statusFault says what a status means.
func statusFault(kind Kind, status int) *Fault {
	code := " (HTTP " + strconv.Itoa(status) + ")"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &Fault{kind, Denied, "the server refuses" + code, "check what this host's identity there may do"}
	case status == http.StatusNotFound:
		return &Fault{kind, Absent, "the server has no such secret" + code, "check the path"}
	case status == http.StatusTooManyRequests:
		return &Fault{kind, Unavailable, "the server is asked too often" + code, "try again later"}
	case status >= 500 || status == 472 || status == 473:
		return &Fault{kind, Unavailable, "the server cannot answer now" + code, "see its own state: sealed, standby, overloaded?"}
	}
	return &Fault{kind, Invalid, "the server does not take the request" + code, "check address and path"}
}

// jsonText returns the text of a JSON string, as bytes that can be
// overwritten. What has no escapes in it is nowhere else.
func jsonText(raw json.RawMessage) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return bytes.Clone(inside), true
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, false
	}
	return []byte(text), true
}

// secretOf makes a secret of a JSON string.
func secretOf(kind Kind, raw json.RawMessage) (secret.Secret, error) {
	text, ok := jsonText(raw)
	if !ok {
		return secret.Secret{}, &Fault{kind, Invalid, "it is not text", "keep the secret as a string"}
	}
	s, err := secret.New(text)
	if err != nil {
		return secret.Secret{}, unfit(kind, err)
	}
	return s, nil
}

// visible reports whether s is printable ASCII without spaces: what goes into
// a header, or a token of OAuth2.
func visible(s secret.Secret) (ok bool) {
	s.Reveal(func(value []byte) {
		ok = bytes.IndexFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	})
	return ok
}

// whole is the bytes of s as a string: a copy that nobody can overwrite, for
// net/http takes nothing else.
func whole(s secret.Secret) (text string) {
	s.Reveal(func(value []byte) { text = string(value) })
	return text
}

// undo takes a grant back that is of no use, whatever became of the request.
func undo(ctx context.Context, g *Grant) {
	if g.Revoke != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		_ = g.Revoke(ctx) // the fault that made it useless is the one to tell
	}
	g.Destroy()
}
