package inspect

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/callcell/callcell/internal/egress/inject"
)

// ErrDenied is wrapped by an error of Options.Dial that is a refusal by
// policy. Every other one means that the origin could not be reached.
var ErrDenied = errors.New("denied")

// Options say what one connection is held to, and how to go on from there.
type Options struct {
	Host string // canonical: lower case, no final dot, or a literal address without brackets
	Port int
	TLS  bool       // the program is expected to speak TLS, and the origin too
	CA   *Authority // of the call; needed with TLS alone

	// Dial connects to the origin: resolved and judged. It is called when the
	// first request has been judged, again where the origin has closed, and
	// for an origin that speaks HTTP/1 to a program that speaks HTTP/2 up to
	// 16 times at once. It must end with its context.
	Dial  func(ctx context.Context) (net.Conn, error)
	Roots *x509.CertPool // whom to believe about the origin; nil: nobody

	Idle      time.Duration // without a byte on either side; 0: two minutes
	Total     time.Duration // of the connection; 0: a day
	MaxHeader int64         // bytes of a head, either way; at most 16 KiB, and 0 is that

	// Count is told of bytes of the connections to the origin: before they are
	// sent, and when they have been received, TLS and all. An error is a cap
	// that has been reached: the connection is cut with its text as the
	// reason. It may be called by several goroutines at once. Nil: no cap.
	Count func(sent, received int64) error

	// Rewrite may change the headers of a request that has been judged, before
	// it goes to the origin, or refuse it: its error is the program's answer,
	// 403. The connection goes on. It gets the request as it will be sent, and
	// may not turn it to another host. It may be called by several goroutines
	// at once, and should not wait. Nil: nothing.
	Rewrite func(*http.Request) error

	// Edge adds credentials to requests and masks them in answers; needs TLS.
	// What it refuses is the program's answer, 403, and the connection goes
	// on; an answer of the origin that it refuses becomes 502. Nil: no
	// credential is for this host and port.
	Edge *inject.Edge

	// Once ends the connection after one request: for a proxy, whose next
	// request may be for another host.
	Once bool
}

// Outcome is what became of a connection.
type Outcome struct {
	Requests int64 // that were judged, and passed on as far as they and the origin went
	Bare     int64 // of Requests, those that no credential was added to; 0 without an Edge
	Refused  int64 // that were not, or not to their end
	Sent     int64 // bytes to the origin
	Received int64 // bytes from it

	// Cut is set where the connection ended by a refusal, a cap or a deadline.
	Cut bool
	// Late is set where that was by a deadline, and by no refusal.
	Late bool
	// Why is the first reason for Cut, or for Refused. It may quote the
	// program, escaped.
	Why string
	// Failed is the first reason why an allowed request, or TLS, did not come
	// about or to its end; "" where none. It may quote the origin, escaped.
	Failed string
}

// The defaults and the bounds of what Options leave open.
const (
	defaultIdle   = 2 * time.Minute
	defaultTotal  = 24 * time.Hour
	mostMaxHeader = 16 << 10
	mostFields    = 100 // of a head: each costs more than its bytes

	handshakeTime = 15 * time.Second
	headTime      = 30 * time.Second // for a head, from its first byte
	parting       = 5 * time.Second  // for the answer to be taken before the end
	lingering     = 250 * time.Millisecond

	maxConns   = 16  // to the origin, at once
	maxStreams = 8   // of a program that speaks HTTP/2
	maxWhy     = 300 // bytes of a reason

	streamWindow = 128 << 10 // bytes that wait to be read, of a stream
	connWindow   = 256 << 10 // and of a connection
	frameSize    = 16 << 10  // of one frame, as it is read
	copySize     = 8 << 10   // of an answer, on its way
)

func (o Options) withDefaults() Options {
	if !o.TLS {
		o.Edge = nil // no credential goes over plain HTTP, whoever asks for it
	}
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	if o.Total <= 0 {
		o.Total = defaultTotal
	}
	if o.MaxHeader <= 0 {
		o.MaxHeader = mostMaxHeader
	}
	o.MaxHeader = min(o.MaxHeader, mostMaxHeader)
	if o.Roots == nil {
		o.Roots = x509.NewCertPool()
	}
	return o
}

func (o Options) scheme() string {
	if o.TLS {
		return "https"
	}
	return "http"
}

// authority is the host and, where it is not the scheme's own, the port, as a
// Host field has it.
func (o Options) authority() string {
	host := o.Host
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		host = "[" + host + "]"
	}
	if o.TLS && o.Port == 443 || !o.TLS && o.Port == 80 {
		return host
	}
	return host + ":" + strconv.Itoa(o.Port)
}
