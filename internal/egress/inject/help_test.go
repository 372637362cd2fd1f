package inject

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/wire"
)

const value = "s3cr3t-value/+x"

// credential is one of api.test that says value behind Bearer.
func credential(t testing.TB, change func(*wire.Credential)) wire.Credential {
	t.Helper()
	return credentialOf(t, value, change)
}

func credentialOf(t testing.TB, text string, change func(*wire.Credential)) wire.Credential {
	t.Helper()
	one, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Destroy)
	c := wire.Credential{Name: "gh", Header: "Authorization", Format: "Bearer {}", Host: "api.test", Port: 443, Methods: []string{"GET"}, Path: "/repos/", Secret: one}
	if change != nil {
		change(&c)
	}
	return c
}

func set(t testing.TB, list ...wire.Credential) *Set {
	t.Helper()
	s, err := New(list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Destroy)
	return s
}

// request is one as net/http reads it from a program.
func request(t testing.TB, method, target string, fields ...string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.Host = "https", "api.test"
	r := &http.Request{Method: method, URL: u, Header: http.Header{}, Host: "api.test"}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// answer is one of an origin.
func answer(status int, body io.Reader, fields ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1, Request: &http.Request{Method: "GET"}}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// packed is text in a coding.
func packed(t testing.TB, coding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pieces is a reader that reads the pieces one by one.
type pieces [][]byte

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; len((*p)[0]) == 0 {
		*p = (*p)[1:]
	}
	return n, nil
}
