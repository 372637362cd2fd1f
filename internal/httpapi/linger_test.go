package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// behindDoor serves a stand's API as Run does, over TLS with both protocols where
// that is asked for, and says where. It has room for so many connections.
func (s *stand) behindDoor(most int, secure bool) (d *httpapi.Door, trusts *tls.Config) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server, d := s.api.Door(l, most)
	var served net.Listener = d
	if secure {
		of := httptest.NewUnstartedServer(nil)
		of.StartTLS() // for its certificate
		trusts = of.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		served = tls.NewListener(d, &tls.Config{Certificates: of.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}})
		of.Close()
	}
	go server.Serve(served)
	s.t.Cleanup(func() {
		_ = server.Close()
		d.End()
	})
	return d, trusts
}

// TestLateReadersHearWhy: a client that sends all of a body which is too large
// before it reads anything comes to read why, and no reset.
func TestLateReadersHearWhy(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = envelope.MiB })
	_, key := s.key("blue", gateway.RoleCall)
	const size = 16 << 20 // more than sockets hold
	plain, _ := s.behindDoor(100, false)
	secure, trusts := s.behindDoor(100, true)
	for name, c := range map[string]struct {
		key, head string
		chunked   bool
		secure    bool
		status    int
	}{
		"too large":             {key, "", false, false, 413},
		"too large, in chunks":  {key, "", true, false, 413},
		"too large, over TLS":   {key, "", false, true, 413},
		"no key":                {"x", "", false, false, 401},
		"no key, in chunks":     {"x", "", true, false, 401},
		"a type that is not":    {key, "Content-Type: text/plain\r\n", false, false, 415},
		"nothing at an address": {key, "", false, true, 404},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", plain.Addr().String())
			if c.secure {
				conn, err = tls.Dial("tcp", secure.Addr().String(), &tls.Config{RootCAs: trusts.RootCAs, ServerName: "example.com"})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			path, length := "/v1/calls", fmt.Sprintf("Content-Length: %d", size)
			if c.status == 404 {
				path = "/v1/nothing"
			}
			if c.chunked {
				length = "Transfer-Encoding: chunked"
			}
			if c.head == "" {
				c.head = "Content-Type: application/json\r\n"
			}
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n%s%s\r\n\r\n", path, c.key, c.head, length); err != nil {
				t.Fatal(err)
			}
			piece := strings.Repeat("x", 1<<20)
			if c.chunked {
				piece = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
			}
			for range size >> 20 {
				if _, err := io.WriteString(conn, piece); err != nil {
					t.Fatalf("while it is sent: %v", err)
				}
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%d %s, close: %t, %v; want %d", resp.StatusCode, text, resp.Close, err, c.status)
			}
			if rest, err := io.ReadAll(conn); len(rest) != 0 || err != nil {
				t.Errorf("after it: %q %v", rest, err)
			}
		})
	}
}

// TestLateReadersOfHTTP2: there a body that nobody wants ends its stream alone.
func TestLateReadersOfHTTP2(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = envelope.MiB })
	_, key := s.key("blue", gateway.RoleCall)
	d, trusts := s.behindDoor(100, true)
	transport := &http.Transport{TLSClientConfig: trusts, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for i := range 3 {
		for _, known := range []bool{true, false} {
			body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 8<<20))}
			req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+d.Addr().String()+"/v1/calls", body)
			if err != nil {
				t.Fatal(err)
			}
			if known {
				req.ContentLength = 8 << 20
			}
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Content-Type", "application/json")
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatalf("%d, length known %t: %v", i, known, err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 413 || !strings.Contains(string(text), "too_large") {
				t.Errorf("%s %d %s %v", resp.Proto, resp.StatusCode, text, err)
			}
		}
	}
}

// TestWhoLingersIsTheFirstToGo: a client that is answered and sends on holds no
// place that another one wants, and no more time than there is for it.
func TestWhoLingersIsTheFirstToGo(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	d, _ := s.behindDoor(2, false)
	at := d.Addr()
	silent := ring(t, at, "127.0.0.1") // the one that would go
	lingers := ring(t, at, "127.0.0.1")
	_ = lingers.c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(lingers.c, "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n", key); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(lingers.in); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 404 ") {
		t.Fatalf("%s %v", text, err)
	}
	// Its end was read, and it is not closed: it lingers as soon as package net/http
	// lets go of it.
	waitFor(t, func() bool { return d.Lingering() == 1 })
	if n := ring(t, at, "127.0.0.1").asks("GET", "/v1/levels", key, ""); n != 200 {
		t.Error(n)
	}
	if n := silent.asks("GET", "/v1/levels", key, ""); n != 200 {
		t.Errorf("another went for it: %d", n)
	}
	waitFor(t, func() bool { return d.Lingering() == 0 })
}

// TestTheEndDoesNotWaitForWhoLingers: a daemon that ends closes them.
func TestTheEndDoesNotWaitForWhoLingers(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	over := make(chan error)
	go func() { over <- s.api.Run(ctx, l) }()
	lingers := ring(t, l.Addr(), "127.0.0.1")
	_ = lingers.c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(lingers.c, "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(lingers.in); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 401 ") {
		t.Fatalf("%s %v", text, err)
	}
	end()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
