package inspect

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
	"github.com/callcell/callcell/internal/render"
)

// Serve carries one connection of a program to its end, or ctx's, and closes
// it. See the package doc for what is judged. When it returns, everything that
// it started has ended or is ending, and every connection is closed.
func Serve(ctx context.Context, conn net.Conn, o Options) Outcome {
	s := newSession(ctx, conn, o)
	defer context.AfterFunc(ctx, func() { s.callEnded(ctx) })()
	s.watch()
	if client := s.greet(ctx); client != nil {
		s.serve(client)
	}
	return s.end()
}

// callEnded ends the connection with its caller's context: at once, and as a
// cut where a request waits for its answer.
func (s *session) callEnded(ctx context.Context) {
	s.mu.Lock()
	if s.owed > 0 && s.cut == nil {
		s.cut = &refusal{504, failed, render.Line(context.Cause(ctx).Error(), maxWhy)}
	}
	s.mu.Unlock()
	s.abort()
	_ = s.client.Close()
}

// greet returns the connection on which HTTP is spoken, nil where it does not
// come to that.
func (s *session) greet(ctx context.Context) net.Conn {
	var plain net.Conn = s.client
	if s.o.TLS {
		secure := s.handshake(ctx)
		if secure == nil {
			return nil
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return secure // net/http speaks HTTP/2 to nothing else
		}
		plain = secure
	}
	s.strict = strict.NewConn(plain, strict.Options{Max: int(s.o.MaxHeader), Judge: s.o.judgeHead, Fault: s.fault})
	return s.strict
}

// serve runs an HTTP server for this one connection.
func (s *session) serve(client net.Conn) {
	listener := newSingle(client)
	transport := s.transport()
	defer transport.CloseIdleConnections()
	server := &http.Server{
		Handler:                      &handler{s: s, proxy: s.proxy(transport)},
		ReadHeaderTimeout:            min(headTime, s.o.Idle),
		IdleTimeout:                  s.o.Idle,
		MaxHeaderBytes:               int(s.o.MaxHeader),
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0),
		Protocols:                    protocols(),
		HTTP2:                        http2Bounds(),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateClosed:
				s.abort() // what HTTP/2 left running
				_ = listener.Close()
			case http.StateHijacked: // its handler goes on
				_ = listener.Close()
			}
		},
	}
	_ = server.Serve(listener) // ends when the listener is closed
	s.wait()
	s.unread()
}

// unread notes a request that net/http answered by itself: it could not read
// what package strict could.
func (s *session) unread() {
	if s.strict == nil || s.stopped() != nil {
		return
	}
	if _, heads := s.strict.Head(); heads > s.heads.Load() {
		const why = "a request that cannot be read"
		s.refuse(why)
		s.stop(deny(http.StatusBadRequest, why))
	}
}

func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return &p
}

// http2Bounds bounds what one connection holds, on either side.
func http2Bounds() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              frameSize,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
	}
}

func (s *session) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		TLSClientConfig: &tls.Config{
			RootCAs:    s.o.Roots,
			ServerName: s.o.Host,
			MinVersion: tls.VersionTLS12,
		},
		TLSHandshakeTimeout:    handshakeTime,
		DisableCompression:     true,
		IdleConnTimeout:        s.o.Idle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: s.o.MaxHeader,
		ForceAttemptHTTP2:      true,
		Protocols:              protocols(),
		HTTP2:                  http2Bounds(),
	}
}

// fault cuts the connection for what package strict found. With inHead nobody
// else answers.
func (s *session) fault(f *strict.Fault, inHead bool) {
	r := deny(f.Status, "%s", f.Why)
	s.refuse(r.why)
	s.stop(r)
	if !inHead {
		return // the request that is under way is answered with it
	}
	s.sayAndLinger(s.strict, r)
}

// sayAndLinger answers on a connection of HTTP/1 that nobody else writes on.
// Then it waits a moment: a connection that is closed with unread bytes is
// reset, and the answer with it.
func (s *session) sayAndLinger(conn *strict.Conn, r *refusal) {
	_ = conn.SetWriteDeadline(time.Now().Add(parting))
	body := r.text()
	if _, err := io.WriteString(conn, "HTTP/1.1 "+r.line()+"\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		markHeader+": "+r.word+"\r\nConnection: close\r\n\r\n"+body); err != nil {
		return
	}
	_ = conn.CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.CopyN(io.Discard, conn.Conn, 256<<10)
}

// clean makes what others said fit for a reason.
func clean(err error) string { return cleanText(err.Error()) }

// clean is clean of what the origin may have said, without a credential in it.
func (s *session) clean(err error) string { return cleanText(s.o.Edge.Text(err.Error())) }

func cleanText(text string) string {
	return render.Line(strings.ToValidUTF8(text, "?"), maxWhy)
}
