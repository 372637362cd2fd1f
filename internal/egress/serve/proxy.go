package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/policy"
)

const (
	maxProxyHead = 64 << 10               // bytes of a request's head
	answering    = 5 * time.Second        // for an answer to be taken
	parting      = 250 * time.Millisecond // for it to arrive before the end
)

// proxy serves one connection to the proxy, which is for one request: what
// comes on it afterwards belongs to that.
func (c *call) proxy(conn net.Conn) {
	at := now()
	defer context.AfterFunc(c.ctx, func() { carry.Reset(conn) })()
	_ = conn.SetReadDeadline(at.Add(min(firstWords, c.p.setup.Limits.Idle))) // it is closed, else
	want, err := readProxy(conn)
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		c.lines.add(c.noRequest(at, conn, envelope.VerdictDenied, bad.why))
		part(conn, bad.status, bad.why)
		return
	case err != nil:
		c.lines.add(c.noRequest(at, conn, envelope.VerdictFailed, "the program said nothing"))
		carry.Reset(conn)
		return
	}
	_ = conn.SetReadDeadline(time.Time{}) // the same
	v := c.judge(want.host, want.port)
	if v.OK && !want.tunnel && v.Protocol != envelope.ProtocolHTTP {
		v.OK, v.Why = false, v.Why+" speaks "+v.Protocol+", and the proxy was asked for HTTP in the clear"
	}
	switch {
	case !v.OK:
		c.lines.add(denied(at, v))
		part(conn, http.StatusForbidden, net.JoinHostPort(v.Host, strconv.Itoa(v.Port))+": "+v.Why)
	case want.tunnel:
		c.connect(at, conn, v, want.rest)
	default:
		t := c.target(v)
		t.Once = true
		c.carry(at, carry.NewStream(conn, want.rest), v, t)
	}
}

// noRequest is the line of a connection to the proxy that asked for no host.
func (c *call) noRequest(at time.Time, conn net.Conn, verdict envelope.Verdict, why string) envelope.Attempt {
	to := local(conn)
	return envelope.Attempt{At: at, Host: to.Addr().String(), Port: int(to.Port()), Verdict: verdict, Why: why, Took: time.Since(at)}
}

// connect answers CONNECT. Where nothing looks into the connection, the host is
// dialled first, so that the program is told what goes wrong.
func (c *call) connect(at time.Time, conn net.Conn, v policy.Verdict, rest []byte) {
	leave, ok := c.look(at, conn, v)
	if !ok {
		return
	}
	defer leave()
	o := c.options(at, v)
	var early *dialled
	if !v.Inspect && v.Protocol != envelope.ProtocolHTTP {
		up, err := o.Dial(c.ctx)
		if err != nil {
			out := notReached(err)
			c.lines.add(ended(at, v, out))
			status := http.StatusBadGateway
			if out.Verdict == envelope.VerdictDenied {
				status = http.StatusForbidden
			}
			part(conn, status, out.Why)
			return
		}
		early = &dialled{conn: up}
		defer early.close()
		o.Dial = early.take
	}
	_ = conn.SetWriteDeadline(time.Now().Add(answering)) // it is closed, else
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		carry.Reset(conn)
	}
	_ = conn.SetWriteDeadline(time.Time{}) // the same
	out := carry.Carry(c.ctx, carry.NewStream(conn, rest), c.target(v), o)
	if early != nil && out.Verdict == envelope.VerdictDenied {
		out.Verdict, out.Address = envelope.VerdictCut, early.conn.RemoteAddr().String() // it was dialled before
	}
	c.lines.add(ended(at, v, out))
}

// dialled is a connection that was made before it was asked for.
type dialled struct {
	conn net.Conn

	mu    sync.Mutex // guards taken
	taken bool
}

func (d *dialled) take(context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken {
		return nil, &dial.Failed{Why: "it was dialled before"}
	}
	d.taken = true
	return d.conn, nil
}

// close closes the connection if nobody took it.
func (d *dialled) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		carry.Reset(d.conn)
	}
}

// wanted is what a program wants of the proxy.
type wanted struct {
	host   string // as it was spelt
	port   int
	tunnel bool
	rest   []byte // what comes first on the connection: after CONNECT what follows the request, else the request too
}

// badRequest is what is no request for the proxy.
type badRequest struct {
	status int
	why    string
}

func (e *badRequest) Error() string { return e.why }

// readProxy reads a request's head, and no body.
func readProxy(r io.Reader) (wanted, error) {
	var raw bytes.Buffer
	head := &io.LimitedReader{R: io.TeeReader(r, &raw), N: maxProxyHead}
	br := bufio.NewReader(head)
	req, err := http.ReadRequest(br)
	switch {
	case err != nil && head.N <= 0:
		return wanted{}, &badRequest{http.StatusRequestHeaderFieldsTooLarge, "the request's head is too large"}
	case err != nil && raw.Len() == 0, broke(err):
		return wanted{}, err
	case err != nil:
		return wanted{}, &badRequest{http.StatusBadRequest, "this is a proxy for HTTP, and what came is no request"}
	}
	if req.Method == http.MethodConnect {
		rest := raw.Bytes()[raw.Len()-br.Buffered():]
		return readConnect(req, rest)
	}
	return readAbsolute(req, raw.Bytes())
}

// broke reports whether the connection ended before the request did.
func broke(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}

// readConnect takes the target of CONNECT: nothing else counts.
func readConnect(req *http.Request, rest []byte) (wanted, error) {
	if req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
		return wanted{}, &badRequest{http.StatusBadRequest, "CONNECT has no body"}
	}
	host, digits, err := net.SplitHostPort(req.RequestURI)
	if err != nil || host == "" {
		return wanted{}, &badRequest{http.StatusBadRequest, "CONNECT is for HOST:PORT"}
	}
	port, ok := readPort(digits)
	if !ok {
		return wanted{}, &badRequest{http.StatusBadRequest, "CONNECT is for HOST:PORT, and that is no port"}
	}
	return wanted{host: host, port: port, tunnel: true, rest: rest}, nil
}

// readAbsolute takes the host of a request in absolute form. The request is
// judged once more where it is carried.
func readAbsolute(req *http.Request, raw []byte) (wanted, error) {
	u := req.URL
	switch {
	case u.Scheme == "https":
		return wanted{}, &badRequest{http.StatusBadRequest, "for https ask the proxy by CONNECT"}
	case u.Scheme != "http" || u.Hostname() == "":
		return wanted{}, &badRequest{http.StatusBadRequest, "this is a proxy: ask for http://HOST/..., or by CONNECT"}
	case u.User != nil:
		return wanted{}, &badRequest{http.StatusBadRequest, "an address with user information is not taken"}
	}
	w := wanted{host: u.Hostname(), port: 80, rest: raw}
	if digits := u.Port(); digits != "" {
		port, ok := readPort(digits)
		if !ok {
			return wanted{}, &badRequest{http.StatusBadRequest, "that is no port"}
		}
		w.port = port
	}
	return w, nil
}

// readPort reads a port in the one way it is written.
func readPort(digits string) (int, bool) {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return int(n), true
}

// part answers with a reason and ends the connection. It waits a moment: what
// is closed with unread bytes is reset, and the answer with it.
func part(conn net.Conn, status int, why string) {
	body := "callcell: " + why + "\n"
	answer := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" + body
	_ = conn.SetWriteDeadline(time.Now().Add(answering)) // it is closed, else
	if _, err := io.WriteString(conn, answer); err == nil {
		if h, ok := conn.(interface{ CloseWrite() error }); ok && h.CloseWrite() == nil {
			_ = conn.SetReadDeadline(time.Now().Add(parting)) // as above
			_, _ = io.CopyN(io.Discard, conn, maxProxyHead)   // what it says is of no use
		}
	}
	_ = conn.Close() // the answer was all
}
