package anchor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The numbers of RFC 5424: facility 13 is the log audit, severity 5 a notice.
const (
	priority   = 13*8 + 5
	maxHost    = 255
	datagram   = 2048 // the least that every receiver must take of a message
	timeFormat = "2006-01-02T15:04:05.000000Z07:00"
)

// Syslog sends checkpoints to a collector as RFC 5424 messages: to a socket of
// this host, by UDP, or by TCP, with TLS or without (RFC 5425, RFC 6587: octet
// counting). No collector says that it has kept a message; by UDP it may be
// lost on the way, too.
type Syslog struct {
	place   string
	network string // unix, udp, tcp, tls
	address string
	roots   *x509.CertPool
	host    string
}

// NewSyslog returns a Syslog for unix:///PATH, udp://HOST:PORT, tcp://HOST:PORT
// or tls://HOST:PORT. roots are the authorities of tls; nil: this host's. An
// error wraps ErrPlace.
func NewSyslog(place string, roots *x509.CertPool) (*Syslog, error) {
	u, err := url.Parse(place)
	bad := fmt.Errorf("%w: syslog %q: want unix:///dev/log, udp://HOST:514, tcp://HOST:601 or tls://HOST:6514", ErrPlace, place)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return nil, bad
	}
	s := &Syslog{place: place, network: u.Scheme, address: u.Host, roots: roots, host: hostName()}
	switch u.Scheme {
	case "unix":
		if s.address = u.Path; u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, bad
		}
	case "udp", "tcp", "tls":
		port, err := strconv.Atoi(u.Port())
		if err != nil || port < 1 || port > 65535 || u.Hostname() == "" || u.Path != "" {
			return nil, bad
		}
	default:
		return nil, bad
	}
	return s, nil
}

// hostName is this host's name as a field of a message: printable ASCII.
func hostName() string {
	name, err := os.Hostname()
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, name)
	if err != nil || name == "" {
		return "-"
	}
	return name[:min(len(name), maxHost)]
}

// Name implements Anchor.
func (s *Syslog) Name() string { return "syslog " + s.place }

// Send implements Anchor.
func (s *Syslog) Send(ctx context.Context, line []byte) (err error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return err
		}
	}
	message := s.message(time.Now(), line)
	switch network := conn.LocalAddr().Network(); {
	case network == "tcp":
		message = append([]byte(strconv.Itoa(len(message))+" "), message...)
	case network == "unix":
		message = append(message, '\n')
	case len(message) > datagram:
		return fmt.Errorf("%w: a message of %d bytes in one datagram", ErrAnswer, len(message))
	}
	_, err = conn.Write(message)
	return err
}

// message is: priority and version, time, host, application, process, kind of
// message, no structured data, and the line.
func (s *Syslog) message(at time.Time, line []byte) []byte {
	b := fmt.Appendf(nil, "<%d>1 %s %s callcell %d checkpoint - ", priority, at.UTC().Format(timeFormat), s.host, os.Getpid())
	return append(b, line...)
}

func (s *Syslog) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	switch s.network {
	case "unix":
		conn, err := d.DialContext(ctx, "unixgram", s.address)
		if err == nil {
			return conn, nil
		}
		stream, err2 := d.DialContext(ctx, "unix", s.address)
		if err2 != nil {
			return nil, errors.Join(err, err2)
		}
		return stream, nil
	case "tls":
		t := tls.Dialer{Config: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}}
		return t.DialContext(ctx, "tcp", s.address)
	}
	return d.DialContext(ctx, s.network, s.address)
}
