package carry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/testing/listener"
)

// pair returns both ends of a connection over loopback.
func pair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// origin is a server with a handler for each connection, which is closed after.
func origin(t testing.TB, handle func(net.Conn)) (addr string) {
	t.Helper()
	return listener.Start(t, "127.0.0.1:0", handle).String()
}

// echo says what it hears, until it hears no more.
func echo(c net.Conn) {
	_, _ = io.Copy(c, c)
}

// certificate is one for every name under test.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"allowed.test", "other.test"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// echoTLS is echo inside TLS.
func echoTLS(t testing.TB) func(net.Conn) {
	conf := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	return func(c net.Conn) {
		inside := tls.Server(c, conf)
		echo(inside)
		_ = inside.Close()
	}
}

// run is a connection that is being carried.
type run struct {
	*net.TCPConn              // the program's end
	its          *net.TCPConn // the way's
	dialled      int
	outcome      chan Outcome
}

// options are those of every test; addr is where the host is.
func options(addr string, dialled *int) Options {
	return Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			*dialled++
			if addr == "" {
				return nil, &dial.Denied{Why: "resolved address not allowed: 127.0.0.1 is not public"}
			}
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, &dial.Failed{Why: "the connection was refused", Err: err}
			}
			return c, nil
		},
		Count: func(int64, int64) error { return nil },
		Idle:  time.Minute, Total: time.Minute, First: time.Minute,
		Buffers: &Buffers{},
	}
}

// start begins to carry.
func start(t testing.TB, ctx context.Context, addr, protocol string, change func(*Target, *Options)) *run {
	t.Helper()
	ours, its := pair(t)
	r := &run{TCPConn: ours, its: its, outcome: make(chan Outcome, 1)}
	target := Target{Host: "allowed.test", Port: 443, Protocol: protocol}
	o := options(addr, &r.dialled)
	if change != nil {
		change(&target, &o)
	}
	go func() { r.outcome <- Carry(ctx, NewStream(its, nil), target, o) }()
	return r
}

// end waits for the outcome.
func (r *run) end(t testing.TB) Outcome {
	t.Helper()
	select {
	case out := <-r.outcome:
		return out
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return Outcome{}
	}
}

// wrote writes, reads until the end and returns what came.
func (r *run) wrote(t testing.TB, b []byte) ([]byte, error) {
	t.Helper()
	if len(b) > 0 {
		if _, err := r.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return io.ReadAll(r)
}

func want(t testing.TB, got Outcome, verdict envelope.Verdict, why string) {
	t.Helper()
	if got.Verdict != verdict || got.Why != why {
		t.Errorf("%s: %q, want %s: %q", got.Verdict, got.Why, verdict, why)
	}
}

// clientHello returns what a client says first.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	ours, its := net.Pipe()
	defer its.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- tls.Client(ours, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	raw, _, err := readHello(its)
	if err != nil {
		t.Fatal(err)
	}
	_ = its.Close()
	if err := <-ended; err == nil || errors.Is(err, io.EOF) && len(raw) == 0 {
		t.Fatal(err)
	}
	return raw
}
