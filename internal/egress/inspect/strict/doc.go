// Package strict lets HTTP/1 requests through that can be read in one way
// only, and nothing else.
//
// A [Conn] stands between a connection and a reader of HTTP. It hands on the
// bytes of a request's head when it has seen the whole of it and found it to
// be of the grammar below, and the bytes of a body only as far as the head
// said. What is not of the grammar is a [Fault]; nothing is handed on after
// it. So whoever reads behind a Conn need not be strict, and cannot be led to
// another opinion about where a request ends.
//
//	request line   METHOD SP TARGET SP HTTP/1.0|HTTP/1.1; one space each
//	lines          end in CR LF; no bare CR or LF, no NUL, no control character but HTAB
//	fields         NAME ":" VALUE; a name is a token, with no space before the colon; no folding
//	target         a path, an address or *, with valid escapes; no fragment
//	Host           exactly one; of an absolute target, the same
//	framing        one Content-Length, digits alone, or one Transfer-Encoding, "chunked" alone,
//	               of HTTP/1.1; never both
//	chunks         CR LF behind each; trailers are fields, and none that frames or names a host
//	Expect         100-continue alone
//	Upgrade        GET without a body; nothing follows it before it is answered
//
// One CR LF before a request line is passed over. It is not a parser of
// requests: method, target and fields are for the reader to judge.
package strict

import "net/http"

// Fault says what is wrong with a request.
type Fault struct {
	Status int    // 400, 408, 417, 421 or 431, and what Judge says
	Why    string // without a byte of the request, but for what Judge says
}

// Error implements error.
func (f *Fault) Error() string { return f.Why }

func bad(why string) *Fault { return &Fault{Status: http.StatusBadRequest, Why: why} }

// Head is what a Conn read in a head that it handed on.
type Head struct {
	Method  string
	Target  string
	Host    string // the Host field
	Upgrade bool   // asks for a websocket
}
