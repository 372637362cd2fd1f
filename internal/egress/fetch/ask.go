package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// userAgent is who the fetch tool says it is.
const userAgent = "callcell-fetch/1"

// maxInterim is how many answers may come before the one that counts (1xx).
const maxInterim = 5

// An exchange is one request that was answered. The body is not read yet.
type exchange struct {
	resp *http.Response
	conn net.Conn    // under TLS, if there is any
	stop func() bool // no longer ends the connection with its context
	told bool        // Location had a credential's value in it
}

// close ends the exchange.
func (x *exchange) close() {
	x.stop()
	_ = x.conn.Close() // what was wanted of it was read
}

// ask dials an address that was judged, and sends the one request there is,
// with the credentials that are for it. When ctx ends, so does what is done
// with the answer. In its head values of credentials are masked.
func (t *trip) ask(ctx context.Context, a address) (*exchange, error) {
	req, err := request(ctx, a)
	if err != nil {
		return nil, err
	}
	if e := t.edge(a); e != nil {
		if _, err := e.Request(req); err != nil {
			return nil, err
		}
	}
	x, err := t.f.ask(ctx, t.pol, a, req)
	if err != nil {
		return nil, err
	}
	before := slices.Clone(x.resp.Header.Values("Location"))
	t.grant.Header(x.resp.Header)
	x.told = !slices.Equal(before, x.resp.Header.Values("Location"))
	return x, nil
}

func (f *Fetcher) ask(ctx context.Context, pol Judge, a address, req *http.Request) (*exchange, error) {
	conn, err := f.o.Dial.Dial(ctx, pol, a.host, a.port)
	if err != nil {
		return nil, err
	}
	x := &exchange{conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })}
	over := conn
	if a.scheme == "https" {
		over, err = f.secure(ctx, conn, a.host)
	}
	if err == nil {
		x.resp, err = f.exchange(over, req)
	}
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// exchange writes a request and reads the headers of its answer. An
// http.Transport would do so in goroutines of its own, and log what a server
// says without being asked.
func (f *Fetcher) exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	header := &io.LimitedReader{R: conn, N: f.o.Limits.FetchHeader}
	in := bufio.NewReader(header)
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(in, req)
		switch {
		case err != nil && header.N <= 0:
			return nil, fmt.Errorf("the headers of the answer exceed %d bytes", f.o.Limits.FetchHeader)
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the answer is in another protocol")
		case resp.StatusCode >= 200:
			header.N = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errors.New("the answer does not come to an end of its interim ones")
}

// request is the one there is for an address: nothing in it depends on who
// asks, or on what was asked before.
func request(ctx context.Context, a address) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	req.Host, req.Close = a.authority(), true
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
