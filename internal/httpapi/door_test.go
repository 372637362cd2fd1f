package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A caller is one connection of a client's.
type caller struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

// ring opens a connection from an address of this host.
func ring(t *testing.T, to net.Addr, from string) *caller {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

// asks sends a request and returns the status of its answer, which is read.
func (c *caller) asks(method, path, key, body string) int {
	c.t.Helper()
	c.sends(method, path, key, body)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode
}

func (c *caller) sends(method, path, key, body string) {
	c.t.Helper()
	auth := ""
	if key != "" {
		auth = "Authorization: Bearer " + key + "\r\n"
	}
	_, err := fmt.Fprintf(c.c, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, auth, len(body), body)
	if err != nil {
		c.t.Fatal(err)
	}
}

// cut waits until the daemon has ended the connection.
func (c *caller) cut() {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.in); err == nil {
		return
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Fatal(err)
	}
}

// TestWhoGoesFirst: with no room left a newcomer takes the place of the one that
// has been silent for longest, of the address with most; then of one that has no
// key at all; then of one whose key was good; never of one whose call runs.
func TestWhoGoesFirst(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, d := s.api.Door(l, 5)
	go server.Serve(d)
	defer d.End()
	defer server.Close()
	at := l.Addr()
	known := ring(t, at, "127.0.0.1")
	if n := known.asks("GET", "/v1/levels", key, ""); n != 200 {
		t.Fatal(n)
	}
	busy := ring(t, at, "127.0.0.1")
	busy.sends("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`)
	waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
	lone := ring(t, at, "127.0.0.3") // silent, and the oldest of such
	half := ring(t, at, "127.0.0.2")
	if _, err := io.WriteString(half.c, "GET /v1/levels HTTP/1.1\r\nHost: "); err != nil { // and no more
		t.Fatal(err)
	}
	served := ring(t, at, "127.0.0.2")
	if n := served.asks("GET", "/healthz", "", ""); n != 200 {
		t.Fatal(n)
	}
	next := func(from string) *caller {
		t.Helper()
		c := ring(t, at, from)
		if n := c.asks("GET", "/v1/levels", key, ""); n != 200 {
			t.Fatal(n)
		}
		return c
	}
	second := next("127.0.0.1")
	half.cut()
	third := next("127.0.0.1")
	lone.cut() // one each now, and it is the older
	fourth := next("127.0.0.1")
	served.cut()
	next("127.0.0.1")
	known.cut() // none without a key is left
	for _, c := range []*caller{second, third, fourth} {
		_ = c.c.Close()
	}
	if n := ring(t, at, "127.0.0.1").asks("GET", "/v1/calls", key, ""); n != 200 {
		t.Error(n)
	}
	if n := s.gateway.Load().Running; n != 1 {
		t.Errorf("%d calls run", n)
	}
}

// TestDoorClosesWhileSomebodyWaits: a call on each place, and one who waits; the
// end of one lets him in, and the end of the door sends the next away.
func TestDoorClosesWhileSomebodyWaits(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, d := s.api.Door(l, 2)
	over := make(chan error, 1)
	go func() { over <- server.Serve(d) }()
	defer d.End()
	defer server.Close()
	at := l.Addr()
	var calls []*caller
	for i := range 2 {
		c := ring(t, at, "127.0.0.1")
		c.sends("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`)
		calls = append(calls, c)
		waitFor(t, func() bool { return s.gateway.Load().Running == i+1 })
	}
	waits := ring(t, at, "127.0.0.1")
	waits.sends("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`)
	_ = calls[0].c.Close()
	waitFor(t, func() bool {
		rows, err := s.log.List(t.Context(), auditAll())
		return err == nil && len(rows) == 3
	})
	ring(t, at, "127.0.0.1") // for whom there is no room
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	<-over
	if err := d.Close(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
