package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// userAgent is who the fetch tool says it is.
const userAgent = "callcell-fetch/1"

// An exchange is one request that was answered. The body is not read yet.
type exchange struct {
	resp *http.Response
	conn net.Conn
	idle func()
}

// close ends the exchange. Nothing of it is left.
func (x *exchange) close() {
	_ = x.conn.Close() // first, so that no body is drained
	_ = x.resp.Body.Close()
	x.idle()
}

// ask dials an address that was judged, and sends the one request there is.
func (f *Fetcher) ask(ctx context.Context, pol Judge, a address) (*exchange, error) {
	req, err := request(ctx, a)
	if err != nil {
		return nil, err
	}
	conn, err := f.o.Dial.Dial(ctx, pol, a.host, a.port)
	if err != nil {
		return nil, err
	}
	over := conn
	if a.scheme == "https" {
		over, err = f.secure(ctx, conn, a.host)
	}
	tr := f.transport(over)
	var resp *http.Response
	if err == nil {
		resp, err = tr.RoundTrip(req)
	}
	if err != nil {
		_ = conn.Close() // what came before says why
		tr.CloseIdleConnections()
		return nil, err
	}
	return &exchange{resp, conn, tr.CloseIdleConnections}, nil
}

// request is the one there is for an address: nothing in it depends on who
// asks, or on what was asked before.
func request(ctx context.Context, a address) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	req.Host = a.authority()
	req.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"gzip"}}
	return req, nil
}

// secure proves that the other side of a connection is host.
func (f *Fetcher) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	c := tls.Client(conn, &tls.Config{
		RootCAs: f.o.Roots, ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	})
	return c, c.HandshakeContext(ctx)
}

// transport speaks HTTP/1.1 over one connection, once.
func (f *Fetcher) transport(conn net.Conn) *http.Transport {
	var used atomic.Bool
	once := func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("fetch: a second connection is wanted")
		}
		return conn, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: once, DialTLSContext: once, Protocols: protocols,
		DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: f.o.Limits.FetchHeader,
	}
}

// ends returns the addresses of both ends of a connection.
func ends(conn net.Conn) (local, remote netip.Addr) {
	of := func(a net.Addr) netip.Addr {
		tcp, ok := a.(*net.TCPAddr)
		if !ok {
			return netip.Addr{}
		}
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return of(conn.LocalAddr()), of(conn.RemoteAddr())
}

// literal reports whether the host is an address.
func (a address) literal() bool {
	_, err := netip.ParseAddr(a.host)
	return err == nil
}
