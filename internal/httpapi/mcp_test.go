package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// sender sends a key, and what else a client's requests have.
type sender struct {
	key  string
	more http.Header
}

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.key)
	for name, values := range s.more {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// The revisions that tests speak: the newest, without sessions, and the last
// with them.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// assistant opens a client's session.
func (s *stand) assistant(key, revision string, headers ...string) *sdk.ClientSession {
	s.t.Helper()
	more := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		more.Set(headers[i], headers[i+1])
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	t := &sdk.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: sender{key, more}}, MaxRetries: -1}
	session, err := c.Connect(s.t.Context(), t, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { session.Close() })
	return session
}

// tool calls run_command and returns the structured answer.
func tool(ctx context.Context, s *sdk.ClientSession, argv ...string) (map[string]any, error) {
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "run_command", Arguments: map[string]any{"argv": argv}})
	if err != nil {
		return nil, err
	}
	a, _ := r.StructuredContent.(map[string]any)
	return a, nil
}

// eachRevision runs a test with both.
func eachRevision(t *testing.T, do func(*testing.T, string)) {
	for _, revision := range []string{modern, legacy} {
		t.Run(revision, func(t *testing.T) {
			leak.Check(t)
			do(t, revision)
		})
	}
}

// TestAssistantsCallsAreCalls: what an assistant runs is a call like any other:
// of its key and team, in a task, metered, and held to the rate; so is what does
// not come to the broker.
func TestAssistantsCallsAreCalls(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		s := newStandAt(t, stopped{time.Now()}, func(_ *config.Serve, tier *gateway.Tier) { tier.Rate = 5 })
		id, key := s.key("blue", gateway.RoleCall)
		c := s.assistant(key, revision)
		if got := c.InitializeResult().ProtocolVersion; got != revision {
			t.Fatalf("speaks %s", got)
		}
		a, err := tool(t.Context(), c, "/bin/print", "sesame")
		if err != nil || a["outcome"] != "completed" {
			t.Fatalf("%v %v", a, err)
		}
		row, err := s.log.Row(t.Context(), a["id"].(string))
		if err != nil || row.Caller != "key:"+id || row.Team != "blue" || row.Tool != "run_command" || row.Task != a["task"] || row.Task == "" || row.Ending.Usage.ResultTokens != 7 {
			t.Errorf("%+v %v", row, err)
		}
		named := s.assistant(key, revision, "Callcell-Task", "mine")
		if a, err := tool(t.Context(), named, "/bin/print"); err != nil || a["task"] != "mine" {
			t.Errorf("%v %v", a, err)
		}
		for range 2 {
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_command", Arguments: map[string]any{"sudo": true}})
			if err != nil || !r.IsError {
				t.Errorf("%+v %v", r, err)
			}
		}
		if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_profiles"}); err != nil || r.IsError {
			t.Errorf("%+v %v", r, err)
		}
		for what, call := range map[string]*sdk.CallToolParams{
			"a call":        {Name: "run_command", Arguments: map[string]any{"argv": []string{"/bin/print"}}},
			"no call":       {Name: "run_command", Arguments: map[string]any{"sudo": true}},
			"list_profiles": {Name: "list_profiles"},
		} {
			r, err := c.CallTool(t.Context(), call)
			if text, _ := json.Marshal(r); err != nil || !r.IsError || !strings.Contains(string(text), "calls in 60 seconds") {
				t.Errorf("%s above the rate: %s %v", what, text, err)
			}
		}
	})
}

// TestAssistantsChooseAmongTheKeysProfiles: others are not there.
func TestAssistantsChooseAmongTheKeysProfiles(t *testing.T) {
	s := newStand(t, nil)
	for profiles, want := range map[string]string{"default": "default", "small": "small", "*": "default small", "small default": "default small"} {
		_, secret, err := s.gateway.CreateKey(t.Context(), gateway.Key{Team: "red", Role: gateway.RoleCall, Profiles: strings.Fields(profiles)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.assistant(secret, modern).CallTool(t.Context(), &sdk.CallToolParams{Name: "list_profiles"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range r.StructuredContent.(map[string]any)["profiles"].([]any) {
			names = append(names, p.(map[string]any)["name"].(string))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("a key of %s sees %s", profiles, got)
		}
	}
	_, secret, err := s.gateway.CreateKey(t.Context(), gateway.Key{Team: "red", Role: gateway.RoleCall, Profiles: []string{"gone"}})
	if err != nil {
		t.Fatal(err)
	}
	if a := s.do("POST", "/mcp", secret, initialize); a.code() != "permission" {
		t.Errorf("a key of no profile: %s", a.body)
	}
}

// initialize is how a client with sessions begins.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// mcp sends a message of a session; "" opens one.
func (s *stand) mcp(method, key, session, body string, more ...string) *answer {
	s.t.Helper()
	more = append(more, "Accept", "application/json, text/event-stream")
	if session != "" {
		more = append(more, "Mcp-Session-Id", session)
	}
	return s.do(method, "/mcp", key, body, more...)
}

func (s *stand) session(key string) string {
	s.t.Helper()
	a := s.mcp("POST", key, "", initialize)
	if a.StatusCode != 200 || a.Header.Get("Mcp-Session-Id") == "" {
		s.t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return a.Header.Get("Mcp-Session-Id")
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// TestSessionsAreTheKeysThatOpenedThem: to any other key, even of an admin, a
// session is not there, whichever way it asks.
func TestSessionsAreTheKeysThatOpenedThem(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, mine := s.key("blue", gateway.RoleCall)
	_, sibling := s.key("blue", gateway.RoleCall)
	_, admin := s.key("red", gateway.RoleAdmin)
	session := s.session(mine)
	for _, other := range []string{sibling, admin} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			body := map[string]string{"POST": ping}[method]
			theirs, none := s.mcp(method, other, session, body), s.mcp(method, other, "NONE", body)
			if theirs.code() != "not_found" || string(theirs.body) != string(none.body) {
				t.Errorf("%s: %d %s, and of none %s", method, theirs.StatusCode, theirs.body, none.body)
			}
		}
	}
	for _, odd := range []string{"home ", "home " + mine, " ", strings.Repeat("x", 4000)} {
		if a := s.mcp("POST", mine, odd, ping); a.StatusCode < 400 || a.StatusCode > 499 {
			t.Errorf("%.20q: %d %s", odd, a.StatusCode, a.body)
		}
	}
	if a := s.mcp("POST", mine, session, ping); a.StatusCode != 200 || !strings.Contains(string(a.body), `"id":7`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.mcp("DELETE", mine, session, ""); a.StatusCode != 204 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if a := s.mcp(method, mine, session, map[string]string{"POST": ping}[method]); a.code() != "not_found" {
			t.Errorf("%s of a session that has ended: %d %s", method, a.StatusCode, a.body)
		}
	}
}

// TestWhatIsNoMessage: it opens nothing and reaches no session.
func TestWhatIsNoMessage(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Body = 64 * envelope.KiB })
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	for name, c := range map[string]struct {
		session, body, code string
		more                []string
	}{
		"no JSON":                {session, `{`, "request", nil},
		"a batch":                {session, `[` + ping + `]`, "request", nil},
		"two":                    {session, ping + ping, "request", nil},
		"a bracket after it":     {session, ping + `}`, "request", nil},
		"not JSON-RPC":           {session, `{"id":1}`, "request", nil},
		"too deep":               {session, strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100), "request", nil},
		"too large":              {session, `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 70<<10) + `"}`, "too_large", nil},
		"as text":                {session, ping, "content_type", []string{"Content-Type", "text/plain"}},
		"no session":             {"", ping, "request", nil},
		"none, and a revision":   {"", ping, "request", []string{"Mcp-Protocol-Version", legacy}},
		"a call that opens none": {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/print"]}}}`, "request", nil},
	} {
		if a := s.mcp("POST", key, c.session, c.body, c.more...); a.code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.StatusCode, a.body, c.code)
		}
	}
	if rows, err := s.log.List(t.Context(), auditAll()); err != nil || len(rows) != 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestSessionsAreBounded: a key that opens more than it may loses the quietest,
// and takes none of another's.
func TestSessionsAreBounded(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Sessions.OfKey, serve.Sessions.AtOnce = 3, 4 })
	_, key := s.key("blue", gateway.RoleCall)
	_, other := s.key("red", gateway.RoleCall)
	theirs := s.session(other)
	var mine []string
	for range 5 {
		mine = append(mine, s.session(key))
	}
	for i, session := range append([]string{theirs}, mine...) {
		key, want := key, 200
		switch {
		case i == 0:
			key = other
		case i <= 2:
			want = 404
		}
		if a := s.mcp("POST", key, session, ping); a.StatusCode != want {
			t.Errorf("session %d: %d %s, want %d", i, a.StatusCode, a.body, want)
		}
	}
	_, third := s.key("red", gateway.RoleCall)
	if a := s.mcp("POST", third, "", initialize); a.code() != "capacity" {
		t.Errorf("one too many: %d %s", a.StatusCode, a.body)
	}
}

// TestSessionsAtWorkStay: where all of a key's are, a new one is refused.
func TestSessionsAtWorkStay(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Sessions.OfKey = 1 })
	_, key := s.key("blue", gateway.RoleCall)
	c := s.assistant(key, legacy)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := tool(ctx, c, "/bin/hang")
		over <- err
	}()
	waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
	if a := s.mcp("POST", key, "", initialize); a.code() != "capacity" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	cancel()
	<-over
	waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
}

// TestIdleSessionsEnd: and with them what they kept.
func TestIdleSessionsEnd(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.Sessions.Idle = envelope.Duration(time.Millisecond) })
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	waitFor(t, func() bool { return s.mcp("POST", key, session, ping).StatusCode == 404 })
}

// TestAssistantThatGoes: a call ends with its client's word, and its row says
// so. The others of the client go on.
func TestAssistantThatGoes(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		s := newStand(t, nil)
		_, key := s.key("blue", gateway.RoleCall)
		c := s.assistant(key, revision)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := tool(ctx, c, "/bin/hang")
			over <- err
		}()
		waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
		cancel()
		if err := <-over; err == nil {
			t.Error("a cancelled call has an answer")
		}
		waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
		s.lastCancelled(1)
		if a, err := tool(t.Context(), c, "/bin/print", "alive"); err != nil || a["outcome"] != "completed" {
			t.Errorf("%v %v", a, err)
		}
	})
}

// TestConnectionThatGoes: a call ends with the request that made it, where its
// client says nothing. The session goes on.
func TestConnectionThatGoes(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.hang(ctx, key, session) }()
	waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
	cancel()
	if err := <-over; err == nil {
		t.Error("a call whose client has gone has an answer")
	}
	waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
	s.lastCancelled(1)
	if a := s.mcp("POST", key, session, ping); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// hang sends a call that does not end, and returns with its connection.
func (s *stand) hang(ctx context.Context, key, session string) error {
	body := `{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/hang"]}}}`
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// lastCancelled waits until there are n rows, and the last was cancelled, before
// its program had started or after.
func (s *stand) lastCancelled(n int) {
	s.t.Helper()
	waitFor(s.t, func() bool {
		rows, err := s.log.List(s.t.Context(), audit.Filter{})
		return err == nil && len(rows) == n && !rows[0].Open() && (rows[0].Outcome == envelope.OutcomeCancelled || rows[0].Reason == envelope.ReasonSetup || rows[0].Reason == envelope.ReasonPermission)
	})
}

// TestRevokedAssistants: with its key a session ends, its calls are cancelled,
// and every stream is cut, though the client reads on.
func TestRevokedAssistants(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		s := newStand(t, nil)
		id, key := s.key("blue", gateway.RoleCall)
		c := s.assistant(key, revision)
		over := make(chan error, 1)
		go func() {
			_, err := tool(t.Context(), c, "/bin/hang")
			over <- err
		}()
		waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
		if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err == nil {
			t.Error("a call of a revoked key has an answer")
		}
		waitFor(t, func() bool { return s.gateway.Load().Running == 0 })
		s.lastCancelled(1)
		if _, err := c.ListTools(t.Context(), nil); err == nil {
			t.Error("a revoked key is good")
		}
	})
}

// TestFilesOfSessionsAreBounded: what came out of calls is kept for the key, up
// to a share of what all may have.
func TestFilesOfSessionsAreBounded(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(serve *config.Serve, _ *gateway.Tier) { serve.KeepAll = 4 << 10 })
	_, key := s.key("blue", gateway.RoleCall)
	c := s.assistant(key, modern)
	var uris []string
	for i := range 3 {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_command", Arguments: map[string]any{"argv": []string{"/bin/print", "x"}, "outputs": []string{"f"},
			"files": []any{map[string]any{"name": "f", "text": strings.Repeat(fmt.Sprint(i), 600)}}}})
		if err != nil || r.IsError {
			t.Fatalf("%+v %v", r, err)
		}
		files := r.StructuredContent.(map[string]any)["untrusted"].(map[string]any)["files"].([]any)
		uris = append(uris, files[0].(map[string]any)["uri"].(string))
	}
	for i, uri := range uris {
		if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); (err == nil) != (i == 2) {
			t.Errorf("file %d: %v", i, err)
		}
	}
	_, other := s.key("blue", gateway.RoleCall)
	if _, err := s.assistant(other, modern).ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uris[2]}); err == nil {
		t.Error("another key reads it")
	}
}
