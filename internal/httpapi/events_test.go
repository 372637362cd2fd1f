package httpapi_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestStreamsEndWithTheirKey: every stream there is ends at once when its key is
// revoked, or when both secrets of it are over, without a further byte. What
// belongs to others, or hangs on the key alone, stays.
func TestStreamsEndWithTheirKey(t *testing.T) {
	for _, revoked := range []bool{true, false} {
		t.Run(map[bool]string{true: "revoked", false: "rotated"}[revoked], func(t *testing.T) {
			leak.Check(t)
			s := newStand(t, nil)
			id, key := s.key("blue", gateway.RoleCall)
			_, admin := s.key("red", gateway.RoleAdmin)
			session := s.session(key)
			call := s.do("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`, "Prefer", "respond-async").Header.Get("Location")
			_, fresh, err := s.gateway.RotateKey(t.Context(), id, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			streams := map[string]*http.Response{
				"the events of a call": s.listen("GET", call+"/events", key, ""), "of the new secret": s.listen("GET", call+"/events", fresh, ""),
				"a call as events": s.listen("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`), "a session": s.listen("GET", "/mcp", key, "", "Mcp-Session-Id", session),
			}
			others := s.listen("GET", call+"/events", admin, "")
			if revoked {
				_, err = s.gateway.RevokeKey(t.Context(), id)
			} else {
				_, fresh, err = s.gateway.RotateKey(t.Context(), id, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, stream := range streams {
				if rest := rest(stream); strings.Contains(rest, "result") || strings.Contains(rest, "cancelled") {
					t.Errorf("%s goes on: %q", name, rest)
				}
			}
			if !revoked { // the key is as good as before
				if a := s.mcp("POST", fresh, session, ping); a.StatusCode != 200 {
					t.Errorf("the session, with the newest secret: %d %s", a.StatusCode, a.body)
				}
				if a := s.do("DELETE", call, fresh, ""); a.StatusCode != 202 {
					t.Errorf("%d %s", a.StatusCode, a.body)
				}
			}
			if text := rest(others); !strings.Contains(text, "event: result") {
				t.Errorf("an admin's: %q", text)
			}
		})
	}
}

// TestStreamNobodyReads: it ends with its key too, though a write of it waits.
func TestStreamNobodyReads(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Write = envelope.Duration(time.Hour) })
	s.profile.Resources.Output.Total, s.profile.Resources.Output.Keep = 64*envelope.MiB, 16*envelope.MiB
	id, key := s.key("blue", gateway.RoleCall)
	a := s.do("POST", "/v1/calls", key, `{"argv":["/bin/flood"],"maxTokens":10000000}`, "Prefer", "respond-async")
	events := a.Header.Get("Location") + "/events"
	s.do("GET", events, key, "") // until it is done
	s.slowly(key, events)
	waitFor(t, func() bool { return s.api.Streams() == 1 })
	if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return s.api.Streams() == 0 })
}

// narrow is a listener whose connections hold little that nobody has read.
type narrow struct{ net.Listener }

// Accept implements net.Listener.
func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetWriteBuffer(64 << 10)
}

// listen opens a stream, and returns when something of it is there.
func (s *stand) listen(method, path, key, body string, headers ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != 200 {
		s.t.Fatalf("%s %s: %d %v", method, path, resp.StatusCode, err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// rest reads a stream to its end, however it ends.
func rest(r *http.Response) string {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// TestRequestsOfAssistantsAreBounded: one key does not take the connections of
// all.
func TestRequestsOfAssistantsAreBounded(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Sessions.OfKey = 200 })
	_, key := s.key("blue", gateway.RoleCall)
	_, other := s.key("blue", gateway.RoleCall)
	for range 128 {
		s.listen("GET", "/mcp", key, "", "Mcp-Session-Id", s.session(key))
	}
	if a := s.mcp("POST", key, "", initialize); a.code() != "capacity" {
		t.Errorf("%d %.200s", a.StatusCode, a.body)
	}
	s.session(other)
}

// slowly asks for a path on a connection that takes little at once, to a server of
// its own. Both end with the test.
func (s *stand) slowly(key, path string) net.Conn {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := s.api.Server()
	go server.Serve(narrow{l})
	s.t.Cleanup(func() { _ = server.Close() }) // of nothing any more, as a rule
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // as above
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, l.Addr(), key)
	return c
}
