package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// slow sends the head of a request with a body of some bytes, and returns the
// connection and the status of what comes first: 100, when it is read.
func (s *stand) slow(key string, length string) (net.Conn, int) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = fmt.Fprintf(c, "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\nExpect: 100-continue\r\n\r\n", key, length)
	if err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != 100 {
		if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), `"capacity"`) {
			s.t.Errorf("%s", text)
		}
	}
	return c, resp.StatusCode
}

// TestBodiesAreBoundedTogether: each has its bound, and connections are many. What
// one key sends and does not end is nobody else's memory, nor all of the host's.
func TestBodiesAreBoundedTogether(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = 4096 })
	const call = `{"argv":["/bin/print"]}`
	var open []net.Conn
	var blue string
	for i := range 4 {
		_, key := s.key("blue", gateway.RoleCall)
		if i == 0 {
			blue = key
		}
		for k := range 8 {
			c, status := s.slow(key, []string{"Content-Length: 4096", "Transfer-Encoding: chunked"}[k%2])
			if open = append(open, c); status != 100 {
				t.Fatalf("body %d of key %d: %d", k, i, status)
			}
		}
		if _, status := s.slow(key, "Content-Length: 1"); status != 503 {
			t.Errorf("the next body of key %d: %d", i, status)
		}
		if a := s.do("GET", "/v1/calls", key, ""); a.StatusCode != 200 {
			t.Errorf("what has no body: %s", a.body)
		}
	}
	_, other := s.key("red", gateway.RoleCall)
	if a := s.do("POST", "/v1/calls", other, call); a.code() != "capacity" || a.StatusCode != 503 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, c := range open {
		_ = c.Close()
	}
	for _, key := range []string{blue, other} {
		waitFor(t, func() bool { return s.do("POST", "/v1/calls", key, call).StatusCode == 200 })
	}
}

// TestRefusalsDoNotWaitForBodies: who is refused for what is in the head hears of
// it at once, and the connection is free, whatever body was announced.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	_, reader := s.key("blue", gateway.RoleRead)
	head := func(path, host, key string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + key + "\r\n"
	}
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no key":           {head("/v1/calls", "localhost", "x"), 401},
		"another role":     {head("/v1/calls", "localhost", reader), 403},
		"another host":     {head("/v1/calls", "evil.example", key), 421},
		"no such address":  {head("/v1/nothing", "localhost", key), 404},
		"no such type":     {head("/v1/calls", "localhost", key) + "Content-Type: text/plain\r\n", 415},
		"it waits for 100": {head("/v1/calls", "localhost", "x") + "Expect: 100-continue\r\n", 401},
	} {
		for _, length := range []string{"Content-Length: 1", "Content-Length: 1000000", "Transfer-Encoding: chunked"} {
			all.Go(func() {
				text, err := s.raw(c.head + length + "\r\n\r\n")
				if status := fmt.Sprintf("HTTP/1.1 %d ", c.status); err != nil || !strings.HasPrefix(text, status) {
					t.Errorf("%s, %s: %.200q, %v", name, length, text, err)
				}
			})
		}
	}
	all.Wait()
}

// raw sends a text, and returns all that is answered until the connection ends.
func (s *stand) raw(text string) (string, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // serve.read is 60s
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	all, err := io.ReadAll(conn)
	return string(all), err
}

// TestRefusalsOfLargeBodiesAreHeard: who is refused while he still sends a large
// body hears why, and does not see a connection that broke.
func TestRefusalsOfLargeBodiesAreHeard(t *testing.T) {
	s := newStand(t, nil)
	d, _ := s.behindDoor(100, false) // without one a client that is late by half a second sees what it fears
	s.url = "http://" + d.Addr().String()
	body := strings.Repeat("x", 4<<20)
	for range 20 {
		if a := s.do("POST", "/v1/calls", "no key", body, "Content-Type", "application/json"); a.code() != "key" {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}
