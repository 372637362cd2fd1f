package httpapi_test

import (
	"io"
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

const hangTool = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/hang"]}}}`

// TestAnswersEndWithTheirKey: who waits for one answer when his key is revoked,
// or the last secret of his is over, is told that, and nothing of the call. Its
// row is there.
func TestAnswersEndWithTheirKey(t *testing.T) {
	for name, ask := range map[string]func(s *stand, key string) *answer{
		"one answer": func(s *stand, key string) *answer {
			return s.do("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`)
		},
		"one answer, kept": func(s *stand, key string) *answer {
			return s.do("POST", "/v1/calls", key, `{"argv":["/bin/hang"]}`, "Idempotency-Key", "k")
		},
		"a session's": func(s *stand, key string) *answer {
			return s.mcp("POST", key, s.session(key), hangTool)
		},
	} {
		for _, revoked := range []bool{true, false} {
			if !revoked && name == "one answer" {
				continue // nothing but its own time ends it
			}
			t.Run(name+map[bool]string{true: ", revoked", false: ", rotated"}[revoked], func(t *testing.T) {
				leak.Check(t)
				s := newStand(t, nil)
				id, key := s.key("blue", gateway.RoleCall)
				got := make(chan *answer, 1)
				go func() { got <- ask(s, key) }()
				waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
				if err := s.end(id, revoked); err != nil {
					t.Fatal(err)
				}
				a := <-got
				if a.StatusCode != 401 || a.code() != "key" || strings.Contains(string(a.body), "outcome") {
					t.Errorf("%d %s", a.StatusCode, a.body)
				}
				if revoked {
					s.lastCancelled(1)
				}
			})
		}
	}
}

// end ends a key, or all its secrets. Of the latter a call does not end: its
// client's request does.
func (s *stand) end(id string, revoked bool) error {
	s.t.Helper()
	if revoked {
		_, err := s.gateway.RevokeKey(s.t.Context(), id)
		return err
	}
	_, fresh, err := s.gateway.RotateKey(s.t.Context(), id, 0)
	if err != nil {
		return err
	}
	for _, c := range read[httpapi.CallList](s.t, s.do("GET", "/v1/calls", fresh, ""), 200).Calls {
		s.do("DELETE", "/v1/calls/"+c.ID, fresh, "") // one that is kept ends by it
	}
	return nil
}

// TestAKeyThatEndsItselfIsAnswered: the new secret and the end that was asked
// for, and nothing afterwards.
func TestAKeyThatEndsItselfIsAnswered(t *testing.T) {
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleAdmin)
	a := s.do("POST", "/v1/keys/"+id+"/rotate", key, `{"overlap":"0s"}`)
	fresh := read[struct{ Secret string }](t, a, 200).Secret
	if a := s.do("GET", "/v1/keys", key, ""); a.code() != "key" {
		t.Errorf("the old secret: %d %s", a.StatusCode, a.body)
	}
	if a := s.do("DELETE", "/v1/keys/"+id, fresh, ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.do("GET", "/v1/keys", fresh, ""); a.code() != "key" {
		t.Errorf("the new one: %d %s", a.StatusCode, a.body)
	}
}

// TestFilesEndWithTheirKey: who has not got all of one when his key is revoked
// does not get the rest.
func TestFilesEndWithTheirKey(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Write = envelope.Duration(time.Hour) })
	id, key := s.key("blue", gateway.RoleCall)
	const size = 3 << 20
	put := s.do("POST", "/v1/blobs", key, strings.Repeat("x", size), "Content-Type", "application/octet-stream")
	digest := read[struct{ Digest string }](t, put, 201).Digest
	c := s.slowly(key, "/v1/blobs/"+digest)
	if _, err := io.ReadFull(c, make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n, _ := io.Copy(io.Discard, c); n >= size {
		t.Errorf("%d bytes of %d came all the same", n, size)
	}
}

// TestQuietCallsOfAssistantsBeat: a call that says nothing is a stream that
// lives, in either revision, and its answer comes on that.
func TestQuietCallsOfAssistantsBeat(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	s.api.SetBeat(20 * time.Millisecond)
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	modernTool := strings.Replace(hangTool, `"arguments"`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"arguments"`, 1)
	for name, r := range map[string]*http.Response{
		legacy: s.listen("POST", "/mcp", key, hangTool, "Accept", "application/json, text/event-stream", "Mcp-Session-Id", session),
		modern: s.listen("POST", "/mcp", key, modernTool, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "run_command"),
	} {
		if kind := r.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("%s: %s", name, kind)
		}
		buf := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, buf); err != nil || strings.Trim(string(buf), ": \n") != "" {
			t.Errorf("%s: %q %v", name, buf, err)
		}
	}
	if a := s.mcp("POST", key, session, ping); !strings.Contains(string(a.body), `"result":{}`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	waitFor(t, func() bool { return s.gateway.Load().Running == 2 })
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`
	if a := s.mcp("POST", key, session, cancelled); a.StatusCode != 202 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestAStreamThatBeatHasOneForm: what a handler says after the first beat is an
// event, whatever status it would have had; a handler that is first is as it was.
func TestAStreamThatBeatHasOneForm(t *testing.T) {
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	for name, c := range map[string]struct {
		beats  bool
		status int
		kind   string
		body   string
		want   string
	}{
		"an event":              {true, 200, "text/event-stream", "data: {}\n\n", ": \n\ndata: {}\n\n"},
		"an error":              {true, 404, "application/json", "{}\n", ": \n\nevent: message\ndata: {}\n\n"},
		"an error without beat": {false, 404, "application/json", "{}\n", "{}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+key)
			events, beat, stop := s.api.Events(w, r, id)
			defer stop()
			status := c.status
			if c.beats {
				beat()
				status = 200
			}
			events.Header().Set("Content-Type", c.kind)
			events.WriteHeader(c.status)
			if n, err := events.Write([]byte(c.body)); n != len(c.body) || err != nil {
				t.Fatal(n, err)
			}
			if !c.beats {
				beat() // is nothing: this is no stream
			}
			kind := map[bool]string{true: "text/event-stream", false: c.kind}[c.beats]
			if w.Code != status || w.Body.String() != c.want || w.Header().Get("Content-Type") != kind {
				t.Errorf("%d %s %q", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
		})
	}
}
