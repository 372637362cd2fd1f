package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// fakeOAuth2 answers as RFC 6749 and RFC 7009 have it.
type fakeOAuth2 struct {
	status int
	answer string
	revoke int // status of a revocation

	mu      sync.Mutex
	tokens  []url.Values
	users   []string
	revoked []string
}

func (o *fakeOAuth2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := r.ParseForm(); err != nil || r.Method != "POST" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		w.WriteHeader(400)
		return
	}
	user, pass, _ := r.BasicAuth()
	o.users = append(o.users, user+" "+pass)
	if r.URL.Path == "/revoke" {
		o.revoked = append(o.revoked, r.PostForm.Get("token")+" "+r.PostForm.Get("token_type_hint"))
		w.WriteHeader(o.revoke)
		return
	}
	o.tokens = append(o.tokens, r.PostForm)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.status)
	_, _ = io.WriteString(w, o.answer)
}

// newFakeOAuth2 has the clients basic, body, with-revocation and audience.
func newFakeOAuth2(t testing.TB, o *fakeOAuth2) *Set {
	t.Helper()
	address, roots := server(t, o.ServeHTTP)
	client := OAuth2Settings{TokenURL: address + "/token", ClientID: "id:1", Secret: "env:SECRET"}
	with := func(change func(*OAuth2Settings)) OAuth2Settings {
		c := client
		change(&c)
		return c
	}
	return newSet(t, Settings{Roots: roots, OAuth2: map[string]OAuth2Settings{
		"basic":    client,
		"body":     with(func(c *OAuth2Settings) { c.Auth = "body" }),
		"revoke":   with(func(c *OAuth2Settings) { c.RevokeURL = address + "/revoke" }),
		"audience": with(func(c *OAuth2Settings) { c.Audience = "https://api.test/" }),
		"poor":     with(func(c *OAuth2Settings) { c.Secret = "env:NONE" }),
	}}, Host{LookupEnv: func(name string) (string, bool) { return "cl1ent s3cr3t+%", name == "SECRET" }})
}

const goodToken = `{"access_token":"tok-0123456789","token_type":"Bearer","expires_in":3600,"scope":"read write"}`

func TestOAuth2(t *testing.T) {
	leak.Check(t)
	o := &fakeOAuth2{status: 200, answer: goodToken, revoke: 200}
	set := newFakeOAuth2(t, o)
	got, g, err := fetch(t, set, "oauth2:basic", "read", "write")
	if err != nil || got[""] != "tok-0123456789" || g.TTL != time.Hour || g.Revoke != nil {
		t.Errorf("%q, %v", got, err)
	}
	// RFC 6749, section 2.3.1: both are encoded as in a form first.
	if o.users[0] != "id%3A1 cl1ent+s3cr3t%2B%25" || o.tokens[0].Encode() != "grant_type=client_credentials&scope=read+write" {
		t.Errorf("asked as %q for %q", o.users[0], o.tokens[0].Encode())
	}
	if _, _, err = fetch(t, set, "oauth2:body", "write", "read"); err != nil || o.users[1] != " " ||
		o.tokens[1].Encode() != "client_id=id%3A1&client_secret=cl1ent+s3cr3t%2B%25&grant_type=client_credentials&scope=write+read" {
		t.Errorf("asked as %q for %q, %v", o.users[1], o.tokens[1].Encode(), err)
	}
	if _, _, err = fetch(t, set, "oauth2:audience"); err != nil || o.tokens[2].Encode() != "audience=https%3A%2F%2Fapi.test%2F&grant_type=client_credentials" {
		t.Errorf("asked for %q, %v", o.tokens[2].Encode(), err)
	}
}

func TestOAuth2Revoke(t *testing.T) {
	leak.Check(t)
	o := &fakeOAuth2{status: 200, answer: goodToken, revoke: 200}
	set := newFakeOAuth2(t, o)
	_, g, err := fetch(t, set, "oauth2:revoke")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Revoke(t.Context()); err != nil || !slices.Equal(o.revoked, []string{"tok-0123456789 access_token"}) || o.users[1] != o.users[0] {
		t.Errorf("%v, revoked %q as %q", err, o.revoked, o.users)
	}
	for status, reason := range map[int]Reason{503: Unavailable, 400: Invalid, 401: Denied, 302: Unavailable} {
		o.revoke = status
		wantFault(t, fmt.Sprint(status), g.Revoke(t.Context()), OAuth2, reason)
	}
}

func TestOAuth2Faults(t *testing.T) {
	leak.Check(t)
	bearer := func(rest string) string { return `{"access_token":"tok-0123456789","token_type":"bearer"` + rest + `}` }
	for _, c := range []struct {
		name    string
		status  int
		answer  string
		reason  Reason
		revoked bool
	}{
		{"as asked", 200, bearer(`,"scope":"write read"`), "", false},
		{"scopes are not said", 200, bearer(``), "", false},
		{"a time in quotes", 200, bearer(`,"expires_in":"60"`), "", false},
		{"fewer scopes", 200, bearer(`,"scope":"read"`), Denied, true},
		{"no scope", 200, bearer(`,"scope":""`), Denied, true},
		{"more scopes", 200, bearer(`,"scope":"read write admin"`), Denied, true},
		{"expired", 200, bearer(`,"expires_in":0`), Invalid, true},
		{"expired long ago", 200, bearer(`,"expires_in":-1`), Invalid, true},
		{"a time that is none", 200, bearer(`,"expires_in":"soon"`), Invalid, true},
		{"a time beyond all", 200, bearer(`,"expires_in":1e300`), Invalid, true},
		{"not a number", 200, bearer(`,"expires_in":"NaN"`), Invalid, true},
		{"a token of two lines", 200, `{"access_token":"tok-0123456789\r\nX: y","token_type":"bearer"}`, Invalid, true},
		{"another type", 200, `{"access_token":"tok-0123456789","token_type":"mac"}`, Invalid, false},
		{"no token", 200, `{"token_type":"bearer"}`, Invalid, false},
		{"an empty token", 200, `{"access_token":"","token_type":"bearer"}`, Invalid, false},
		{"not JSON", 200, "<html>", Invalid, false},
		{"nothing", 200, "", Invalid, false},
		{"the client is not known", 401, `{"error":"invalid_client","error_description":"cl1ent s3cr3t+%"}`, Denied, false},
		{"the same with 400", 400, `{"error":"invalid_client"}`, Denied, false},
		{"the scope is not known", 400, `{"error":"invalid_scope"}`, Denied, false},
		{"the grant is not known", 400, `{"error":"unsupported_grant_type"}`, Invalid, false},
		{"an error of its own", 400, `{"error":"cl1ent s3cr3t"}`, Invalid, false},
		{"down", 503, ``, Unavailable, false},
		{"elsewhere", 308, ``, Unavailable, false},
		{"too much", 200, strings.Repeat(" ", maxAnswer+1), Invalid, false},
	} {
		o := &fakeOAuth2{status: c.status, answer: c.answer, revoke: 200}
		_, _, err := fetch(t, newFakeOAuth2(t, o), "oauth2:revoke", "read", "write")
		if c.reason == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		wantFault(t, c.name, err, OAuth2, c.reason)
		if err != nil && (strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "tok-") || strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("%s: the error says too much: %v", c.name, err)
		}
		if revoked := len(o.revoked) == 1; revoked != c.revoked {
			t.Errorf("%s: a token of no use was revoked: %v, want %v", c.name, revoked, c.revoked)
		}
	}
	_, _, err := fetch(t, newFakeOAuth2(t, &fakeOAuth2{status: 200, answer: goodToken}), "oauth2:poor")
	wantFault(t, "no secret of the client's", err, OAuth2, Absent)
}

// FuzzTokenAnswer: whatever a server answers, there is a token that can go
// into a header, or a fault that says nothing of the answer.
func FuzzTokenAnswer(f *testing.F) {
	for _, answer := range []string{goodToken, `{"access_token":"tok-\u0031","token_type":"BEARER","expires_in":"60"}`, `{"error":"tok-"}`, `{"access_token":["tok-"],"token_type":"bearer"}`, ``, `null`, `[]`} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &oauth2Client{}
		known := strings.Contains(string(body), "tok-")
		g, err := c.grant(t.Context(), Request{Scopes: []string{"read", "write"}}, body)
		if (g == nil) != (err != nil) {
			t.Fatalf("%v, %v", g, err)
		}
		if err == nil {
			if s := g.Secrets[""]; !visible(s) || s.Len() == 0 || g.TTL < 0 {
				t.Fatalf("%d bytes, %s", s.Len(), g.TTL)
			}
			g.Destroy()
		} else if known && strings.Contains(err.Error(), "tok-") || FaultOf(OAuth2, err).Msg == "it failed" {
			t.Fatalf("%v", err)
		}
		if fault := oauth2Fault(&answer{400, body}); known && strings.Contains(fault.Error(), "tok-") {
			t.Fatalf("%v", fault)
		}
	})
}

func TestServersThatCannotBeReached(t *testing.T) {
	leak.Check(t)
	good, roots := server(t, (&fakeOAuth2{status: 200, answer: goodToken}).ServeHTTP)
	release := make(chan struct{})
	slow, slowRoots := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		select { // a body that never comes
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	for _, c := range []struct {
		name, url, roots string
		time             time.Duration
		reason           Reason
		says             string
	}{
		{"a certificate of nobody's", good, "", time.Minute, Unavailable, "not trusted"},
		{"a certificate of another name", strings.Replace(good, "127.0.0.1", "localhost", 1), roots, time.Minute, Unavailable, "not trusted"},
		{"nobody listens", "https://127.0.0.1:1", roots, time.Minute, Unavailable, "cannot be reached"},
		{"an answer that never ends", slow, slowRoots, 500 * time.Millisecond, Timeout, "too long"},
	} {
		set := newSet(t, Settings{Roots: c.roots, OAuth2: map[string]OAuth2Settings{"x": {TokenURL: c.url, ClientID: "id", Secret: "env:X"}}},
			Host{LookupEnv: func(string) (string, bool) { return "s3cr3t", true }})
		ctx, cancel := context.WithTimeout(t.Context(), c.time)
		_, err := set.clients["x"].Fetch(ctx, Request{})
		cancel()
		wantFault(t, c.name, err, OAuth2, c.reason)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		set.Close()
	}
}

// TestNoProxyOfTheEnvironment: a secret does not go by a variable's way.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	if transport := newClient(nil).Transport.(*http.Transport); transport.Proxy != nil {
		t.Error("there is a proxy")
	}
	if _, _, err := fetch(t, newFakeOAuth2(t, &fakeOAuth2{status: 200, answer: goodToken}), "oauth2:basic"); err != nil {
		t.Error(err)
	}
}
