package pull

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/image/fstree"
)

// maxAnswer bounds every answer but a layer's.
const maxAnswer = 8 << 20

// errPlain is what is said of TLS to a registry that speaks plain HTTP. It is no
// *fstree.Error: what plain HTTP failed in is to be told.
var errPlain = errors.New("TLS is not tried, for plain HTTP was asked for")

// A guard stands before the transport: no plain HTTP unless it was asked for,
// on no hop, and no answer without end. Where it was, the registry is asked in no
// other way: it may take a handshake and never answer it.
type guard struct {
	next     http.RoundTripper
	insecure bool
	registry string // HOST[:PORT]
}

func newGuard(o Options, registry string) http.RoundTripper {
	next := o.Transport
	if next == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = time.Minute
		t.MaxResponseHeaderBytes = 64 << 10
		next = t
	}
	return &guard{next: next, insecure: o.Insecure, registry: registry}
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.URL.Scheme != "https" && !g.insecure:
		return nil, fstree.Refuse(fstree.KindSource, "", "plain HTTP is not spoken with "+req.URL.Host)
	case req.URL.Scheme == "https" && g.insecure && req.URL.Host == g.registry:
		return nil, errPlain
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !forBlob(req) || resp.StatusCode != http.StatusOK {
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, nil
}

// forBlob reports whether a request is for a layer or a configuration, whose
// size the manifest has, perhaps after redirects.
func forBlob(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return strings.HasPrefix(req.URL.Path, "/v2/") && strings.Contains(req.URL.Path, "/blobs/")
}

type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fstree.Refuse(fstree.KindBytes, "", "the registry's answer is too long")
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
