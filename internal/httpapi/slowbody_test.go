package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// begin sends the head of a request and some of its body.
func (s *stand) begin(path, key, kind, some string, size int) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // serve.read is 60s
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, key, kind, size); err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; { // who reads the body has looked at the key
		if line, err = r.ReadString('\n'); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, some); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// TestRevokedBeforeTheBodyIsThere: whoever holds a body back has no key that is
// good for longer than it is.
func TestRevokedBeforeTheBodyIsThere(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	for _, c := range []struct{ path, body string }{
		{"/v1/keys", `{"team":"blue","role":"admin","label":"mine for ever"}`},
		{"/v1/teams", `{"name":"green","tier":"free"}`},
		{"/v1/images/pull", `{"ref":"registry.test/tools:1"}`},
		{"/v1/images/gc", `{}`},
	} {
		id, key := s.key("blue", gateway.RoleAdmin)
		conn := s.begin(c.path, key, "application/json", c.body[:1], len(c.body))
		if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.body[1:]); err != nil {
			t.Fatal(err)
		}
		if a, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || a.StatusCode != 401 {
			t.Errorf("%s: %+v %v", c.path, a, err)
		}
	}
	keys, err := s.gateway.Keys(t.Context(), "")
	for _, k := range keys {
		if k.Label != "" || err != nil {
			t.Errorf("%+v %v", k, err)
		}
	}
}

// TestRevokedUpload: with its key an upload ends at once, and leaves nothing.
func TestRevokedUpload(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	conn := s.begin("/v1/blobs", key, "application/octet-stream", "a", 3)
	if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if a, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || a.StatusCode != 401 {
		t.Errorf("%+v %v", a, err)
	}
	if list, err := s.blobs.Kept("blue", blob.Digest{}, 10); len(list) != 0 || err != nil {
		t.Errorf("%+v %v", list, err)
	}
}
