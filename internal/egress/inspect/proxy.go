package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
	"github.com/callcell/callcell/internal/render"
)

// handler judges each request and has it made anew.
type handler struct {
	s     *session
	proxy *httputil.ReverseProxy
}

// headKey is where a request's context has its strict.Head, underwayKey where it
// has its underway.
type (
	headKey     struct{}
	underwayKey struct{}
)

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.s
	u := s.enter()
	if u == nil {
		panic(http.ErrAbortHandler)
	}
	defer u.leave()
	defer s.died()
	head := s.head()
	if head != nil {
		_ = http.NewResponseController(w).EnableFullDuplex() // an early answer does not wait for the body
	}
	if r := s.stopped(); r != nil {
		s.answer(w, r, true)
		return
	}
	if refusal := s.o.judge(r, head); refusal != nil {
		s.refuse(refusal.why)
		s.stop(refusal)
		s.answer(w, refusal, true)
		return
	}
	if s.o.Edge != nil && r.Header["Upgrade"] != nil {
		s.turnDown(w, "another protocol is asked for, which is refused on a host with a credential")
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.WithValue(r.Context(), headKey{}, head), underwayKey{}, u))
	defer cancel()
	defer context.AfterFunc(s.work, cancel)()
	dropUpgrade(r.Header, head)
	// What the origin leaves out is not made up.
	w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
	h.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// turnDown refuses one request; the connection goes on.
func (s *session) turnDown(w http.ResponseWriter, why string) {
	s.refuse(why)
	s.answer(w, deny(http.StatusForbidden, "%s", why), false)
}

// head returns what was read of the request that is being answered; nil in HTTP/2.
func (s *session) head() *strict.Head {
	if s.strict == nil {
		return nil
	}
	s.heads.Add(1)
	head, _ := s.strict.Head()
	return &head
}

// next says that a request is answered with no upgrade.
func (s *session) next() {
	if s.strict != nil {
		s.strict.Next()
	}
}

// died notes a panic that is not the ordinary way to break an answer off.
func (s *session) died() {
	switch r := recover(); r {
	case nil:
	case http.ErrAbortHandler:
		panic(r)
	default:
		s.stop(&refusal{http.StatusBadGateway, failed, "internal error"})
		panic(http.ErrAbortHandler)
	}
}

// proxy makes requests anew with httputil.ReverseProxy: hop-by-hop headers,
// interim answers, trailers and websockets are its business.
func (s *session) proxy(t *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        s.rewrite,
		Transport:      &origin{s: s, transport: t},
		FlushInterval:  -1,
		BufferPool:     small{},
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: s.modify,
		ErrorHandler:   s.erred,
	}
}

// small is httputil.BufferPool: its own buffers are four times as big.
type small struct{}

func (small) Get() []byte { return make([]byte, copySize) }
func (small) Put([]byte)  {}

// rewrite turns a request to the origin. No word of the program's says where
// it goes.
func (s *session) rewrite(p *httputil.ProxyRequest) {
	authority := s.o.authority()
	p.Out.Host, p.Out.URL.Host, p.Out.URL.Scheme = authority, authority, s.o.scheme()
	p.Out.URL.RawQuery = p.In.URL.RawQuery // ReverseProxy drops what it cannot read
	p.Out.Header.Del("Host")
	p.Out.Trailer = p.In.Trailer // filled in when the body has been read
}

// origin sends requests that have been judged.
type origin struct {
	s         *session
	transport *http.Transport
}

// refusedError is a refusal of Options.Rewrite or Options.Edge, unfitError one
// of an answer.
type (
	refusedError struct{ error }
	unfitError   struct{ error }
)

func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	s := o.s
	if s.o.Rewrite != nil {
		if err := s.o.Rewrite(r); err != nil {
			return nil, refusedError{err}
		}
		if authority := s.o.authority(); r.Host != authority || r.URL.Host != authority || r.URL.Scheme != s.o.scheme() {
			return nil, refusedError{errors.New("a request was turned to another host")}
		}
	}
	if s.o.Edge != nil {
		added, err := s.o.Edge.Request(r)
		if err != nil {
			return nil, refusedError{err}
		}
		if added == 0 {
			s.bare.Add(1)
		}
	}
	s.requests.Add(1)
	return o.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		// Called before ReverseProxy's own, which passes it on.
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			h.Del(markHeader)
			s.o.Edge.Header(http.Header(h))
			return nil
		},
	})))
}

// modify looks at the head of the origin's answer.
func (s *session) modify(r *http.Response) error {
	if fields(r.Header) > mostFields {
		return unfitError{fmt.Errorf("the answer's head has more than %d fields", mostFields)}
	}
	r.Header.Del(markHeader)
	delete(r.Trailer, markHeader)
	if s.o.Edge != nil {
		if err := s.o.Edge.Answer(r, func(n int64) error { return s.count(0, n) }); err != nil {
			return unfitError{err}
		}
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		if !upgrades(r.Request) || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return errors.New("the origin switches to a protocol that was not asked for")
		}
		s.strict.Raw()
		return nil
	}
	s.next() // the program may have read the answer before it is all written
	if s.o.Once {
		r.Header.Set("Connection", "close")
	}
	if len(r.Trailer) > 0 && r.Request.Method != http.MethodHead {
		r.Header.Del("Content-Length") // in HTTP/1 trailers come behind chunks alone
	}
	r.Body = &watched{ReadCloser: r.Body, s: s, answer: r, left: max(r.ContentLength, 0)}
	return nil
}

// watched is the body of an answer.
type watched struct {
	io.ReadCloser
	s      *session
	answer *http.Response
	left   int64 // bytes, as far as the answer's head says; 0 where it does not
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if u, ok := b.answer.Request.Context().Value(underwayKey{}).(*underway); ok && (b.left == 0 && n > 0 || errors.Is(err, io.EOF)) {
		u.answered()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		delete(b.answer.Trailer, markHeader) // they have come now
	case b.answer.Request.Context().Err() == nil && b.s.stopped() == nil:
		b.s.fail("the answer broke off: " + b.s.clean(err))
	}
	return n, err
}

// erred answers a request that has no answer of the origin.
func (s *session) erred(w http.ResponseWriter, r *http.Request, err error) {
	var refused refusedError
	cut := s.stopped()
	switch {
	case cut != nil:
		s.answer(w, cut, true)
	case errors.As(err, &refused):
		s.turnDown(w, clean(refused))
	case errors.Is(err, ErrDenied):
		refusal := deny(http.StatusForbidden, "%s", clean(err))
		s.refuse(refusal.why)
		s.stop(refusal)
		s.answer(w, refusal, true)
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the program has gone
	default:
		why := s.explain(err)
		s.fail(why)
		s.answer(w, &refusal{http.StatusBadGateway, failed, why}, upgrades(r))
	}
}

// upgrades reports whether a request to the origin asks for a websocket.
func upgrades(r *http.Request) bool {
	head, _ := r.Context().Value(headKey{}).(*strict.Head)
	return head != nil && head.Upgrade
}

func (s *session) explain(err error) string {
	var cert *tls.CertificateVerificationError
	var unfit unfitError
	switch {
	case errors.As(err, &cert):
		return render.Line(fmt.Sprintf("the certificate of %s is not valid: %s", s.o.authority(), s.clean(cert.Err)), maxWhy)
	case errors.As(err, &unfit):
		return render.Line(fmt.Sprintf("%s: %s", s.o.authority(), s.clean(unfit)), maxWhy)
	}
	return render.Line(fmt.Sprintf("no answer of %s: %s", s.o.authority(), s.clean(err)), maxWhy)
}

func (r *refusal) line() string { return strconv.Itoa(r.status) + " " + http.StatusText(r.status) }

func (r *refusal) text() string { return "callcell: " + r.word + ": " + r.why + "\n" }

// answer answers a request in place of the origin. With last the connection
// ends after it.
func (s *session) answer(w http.ResponseWriter, r *refusal, last bool) {
	s.next()
	body, h := r.text(), w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(markHeader, r.word)
	if last || s.o.Once {
		h.Set("Connection", "close")
	}
	w.WriteHeader(r.status)
	_, _ = io.Copy(w, strings.NewReader(body))
}
