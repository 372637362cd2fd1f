package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
)

// handshake ends the program's TLS. It returns nil where it came to nothing:
// the session then knows why.
func (s *session) handshake(ctx context.Context) *tls.Conn {
	if s.o.CA == nil {
		s.fail("there is no authority to end TLS with")
		return nil
	}
	leaf, err := s.o.CA.certificate(s.o.Host)
	if err != nil {
		s.fail(err.Error())
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(handshakeTime, s.o.Idle))
	defer cancel()
	below := &muted{Conn: s.client}
	secure := tls.Server(below, &tls.Config{
		Certificates:           []tls.Certificate{*leaf},
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // the keys end with the connection
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if why := s.o.judgeServerName(hello.ServerName); why != "" {
				s.refuse(why)
				s.stop(deny(http.StatusMisdirectedRequest, "%s", why))
				return nil, below.unrecognized()
			}
			return nil, nil
		},
	})
	err = secure.HandshakeContext(ctx)
	if err == nil {
		return secure
	}
	s.handshakeFailed(err)
	return nil
}

// judgeServerName says why the name that TLS asks for is refused, "" where it
// is not. A literal address is no server name, so none is expected there.
func (o Options) judgeServerName(name string) string {
	if _, err := netip.ParseAddr(o.Host); err == nil {
		if name == "" || name == o.Host {
			return ""
		}
	} else if strings.TrimSuffix(lower(name), ".") == o.Host {
		return ""
	}
	if name == "" {
		return "TLS asks for no name, this connection is for " + o.Host
	}
	return "TLS asks for " + quote(name) + ", this connection is for " + o.Host
}

func (s *session) handshakeFailed(err error) {
	var record tls.RecordHeaderError
	switch {
	case s.stopped() != nil:
	case errors.As(err, &record) && record.Conn != nil && looksLikeHTTP(record.RecordHeader):
		r := deny(http.StatusBadRequest, "HTTP without TLS where TLS is expected")
		s.refuse(r.why)
		s.stop(r)
		s.sayAndLinger(strict.NewConn(s.client, strict.Options{}), r)
	case errors.Is(err, io.EOF):
		s.fail("the program hung up before TLS was agreed on")
	default:
		s.fail("no TLS with the program: " + clean(err))
	}
}

func looksLikeHTTP(b [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET", "CONNE"} {
		if string(b[:]) == method {
			return true
		}
	}
	return false
}

// muted is the connection below TLS. Once it has said an alert of ours, it
// says nothing else: crypto/tls would add its own.
type muted struct {
	net.Conn
	quiet atomic.Bool
}

func (m *muted) Write(p []byte) (int, error) {
	if m.quiet.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (m *muted) CloseWrite() error { return closeWrite(m.Conn) }

// errServerName ends a handshake.
var errServerName = errors.New("the server name is not this connection's")

// unrecognized sends the fatal alert unrecognized_name. Only a client's hello
// may have been read: so far nothing is encrypted.
func (m *muted) unrecognized() error {
	_, _ = m.Conn.Write([]byte{21, 3, 3, 0, 2, 2, 112})
	m.quiet.Store(true)
	return errServerName
}
