package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// fakeVault answers as the documented API does.
type fakeVault struct {
	mounts  map[string]string // what is said of a mount, by its path; none: it will not tell
	secrets map[string]string // answers by path
	status  map[string]int    // instead, by path
	revoke  int               // 0: 204

	mu      sync.Mutex
	asked   []string // METHOD PATH
	revoked []string
	faults  []string
}

func (v *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/v1/")
	v.asked = append(v.asked, r.Method+" "+path)
	if r.Header.Get("X-Vault-Token") != "t0ken-of-this-host" || r.Header.Get("X-Vault-Namespace") != "team" || r.Header.Get("X-Vault-Request") != "true" {
		w.WriteHeader(403)
		fmt.Fprintf(w, `{"errors":["permission denied: %s"]}`, r.Header.Get("X-Vault-Token"))
		return
	}
	if status := v.status[path]; status != 0 {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"errors":["s3cr3t-of-the-server"]}`)
		return
	}
	if rest, is := strings.CutPrefix(path, "sys/internal/ui/mounts/"); is {
		for mount, says := range v.mounts {
			if strings.HasPrefix(rest, mount) {
				_, _ = fmt.Fprintf(w, `{"request_id":"1","data":%s}`, says)
				return
			}
		}
		w.WriteHeader(403)
		return
	}
	if path == "sys/leases/revoke" {
		var body struct {
			Lease string `json:"lease_id"`
			Sync  bool   `json:"sync"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.Sync || r.Method != "PUT" {
			v.faults = append(v.faults, fmt.Sprint("revoke: ", r.Method, body, err))
		}
		v.revoked = append(v.revoked, body.Lease)
		w.WriteHeader(max(v.revoke, 204))
		return
	}
	text, found := v.secrets[path]
	if !found {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"errors":[]}`)
		return
	}
	_, _ = io.WriteString(w, text)
}

const (
	kv2 = `{"path":"kv/","type":"kv","options":{"version":"2"}}`
	kv1 = `{"path":"old/kv/","type":"kv","options":{"version":"1"}}`
	dyn = `{"path":"database/","type":"database","options":null}`
)

func kv2Answer(fields string) string {
	return `{"request_id":"1","lease_id":"","renewable":false,"lease_duration":0,"data":{"data":` + fields + `,"metadata":{"version":3,"destroyed":false}},"warnings":null}`
}

func newFakeVault(t testing.TB, v *fakeVault) *Set {
	t.Helper()
	address, roots := server(t, v.ServeHTTP)
	token := write(t, "t0ken-of-this-host\n", 0o600)
	return newSet(t, Settings{Roots: roots, Vault: VaultSettings{Address: address, Namespace: "team", Token: "file:" + token}}, Host{})
}

func standardVault() *fakeVault {
	return &fakeVault{
		mounts: map[string]string{"kv/": kv2, "old/kv/": kv1, "database/": dyn},
		secrets: map[string]string{
			"kv/data/agents/gh":   kv2Answer(`{"token":"ghp_0123456789"}`),
			"kv/data/two":         kv2Answer(`{"user":"u","pass":"p\u00e4ss\n\"word\""}`),
			"kv/data/other":       kv2Answer(`{"number":17,"null":null,"list":["a"],"empty":"","text":"x"}`),
			"kv/data/deleted":     kv2Answer(`null`),
			"kv/data/none":        kv2Answer(`{}`),
			"kv/data/a%20b%3F%2F": kv2Answer(`{"x":"never"}`),
			"kv/data/a%20b%3Fc":   kv2Answer(`{"x":"odd-path"}`),
			"old/kv/gh":           `{"lease_id":"","lease_duration":2764800,"data":{"token":"old-token"}}`,
			"database/creds/ro":   `{"lease_id":"database/creds/ro/l1","renewable":true,"lease_duration":3600,"data":{"username":"v-ro","password":"pw-1"}}`,
			"database/creds/bad":  `{"lease_id":"database/creds/bad/l2","lease_duration":3600,"data":{"username":7}}`,
			"database/creds/long": `{"lease_id":"database/creds/long/l3","lease_duration":9999999999999,"data":{"username":"x"}}`,
			"unseen/data/gh":      kv2Answer(`{"token":"unseen-token"}`),
			"kv/data/html":        "<html>",
			"kv/data/big":         `{"data":"` + strings.Repeat("x", maxAnswer) + `"}`,
		},
		status: map[string]int{"kv/data/denied": 403, "kv/data/sealed": 503, "kv/data/standby": 473, "kv/data/limited": 429, "kv/data/odd": 418, "kv/data/moved": 307, "sys/internal/ui/mounts/down/x": 500},
	}
}

func TestVault(t *testing.T) {
	leak.Check(t)
	v := standardVault()
	set := newFakeVault(t, v)
	for _, c := range []struct {
		words, field, want string
		ttl                time.Duration
		lease              bool
	}{
		{"kv/agents/gh", "", "ghp_0123456789", 0, false},
		{"kv/agents/gh#token", "token", "ghp_0123456789", 0, false},
		{"kv/two#pass", "pass", "päss\n\"word\"", 0, false},
		{"kv/two#user", "user", "u", 0, false},
		{"kv/other#text", "text", "x", 0, false},
		{"kv/a b?c", "", "odd-path", 0, false},
		{"old/kv/gh#token", "token", "old-token", 768 * time.Hour, false},
		{"database/creds/ro#password", "password", "pw-1", time.Hour, true},
		{"unseen/gh#token", "token", "unseen-token", 0, false},
	} {
		got, g, err := fetch(t, set, "vault:"+c.words)
		if err != nil || got[c.field] != c.want || len(got) != 1 {
			t.Errorf("%s: %q, %v", c.words, got, err)
			continue
		}
		if g.TTL != c.ttl || (g.Revoke != nil) != c.lease {
			t.Errorf("%s: lives for %s, can be revoked: %v", c.words, g.TTL, g.Revoke != nil)
		}
	}
}

func TestVaultFaults(t *testing.T) {
	leak.Check(t)
	v := standardVault()
	set := newFakeVault(t, v)
	for _, c := range []struct {
		words  string
		reason Reason
	}{
		{"kv/nothing", Absent}, {"kv/two", Invalid}, {"kv/two#none", Absent}, {"kv/deleted", Absent}, {"kv/none", Absent},
		{"kv/other#number", Invalid}, {"kv/other#null", Invalid}, {"kv/other#list", Invalid}, {"kv/other#empty", Invalid},
		{"kv/denied", Denied}, {"kv/sealed", Unavailable}, {"kv/standby", Unavailable}, {"kv/limited", Unavailable}, {"kv/odd", Invalid}, {"kv/moved", Unavailable},
		{"kv/html", Invalid}, {"kv/big", Invalid}, {"down/x", Unavailable}, {"nowhere/x", Absent},
		{"database/creds/bad#username", Invalid}, {"database/creds/ro#none", Absent}, {"database/creds/long#username", Invalid},
		{"kv", Invalid}, {"kv/", Invalid}, {"/kv/x", Invalid}, {"kv//x", Invalid}, {"kv/../x", Invalid}, {"kv/./x", Invalid}, {"kv/x/", Invalid}, {"kv/x#", Invalid}, {"#x", Invalid},
	} {
		_, _, err := fetch(t, set, "vault:"+c.words)
		wantFault(t, c.words, err, Vault, c.reason)
		if err != nil && (strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("%s: the error says too much: %v", c.words, err)
		}
	}
	// A lease that is of no use is not left to run out.
	if !slices.Equal(v.revoked, []string{"database/creds/bad/l2", "database/creds/ro/l1"}) || len(v.faults) > 0 {
		t.Errorf("revoked %q, %q", v.revoked, v.faults)
	}
}

// TestVaultFieldsOfOneAnswer: a user's name and password are of one lease.
func TestVaultFieldsOfOneAnswer(t *testing.T) {
	v := standardVault()
	set := newFakeVault(t, v)
	user, err := set.Open(envelope.Credential{Source: "vault:database/creds/ro#username"})
	if err != nil {
		t.Fatal(err)
	}
	pass, err := set.Open(envelope.Credential{Source: "vault:database/creds/ro#password"})
	if err != nil || user.Group() != pass.Group() || user.Field() == pass.Field() {
		t.Fatalf("%v, %s, %s", err, user.Group(), pass.Group())
	}
	g, err := user.Fetch(t.Context(), Request{Fields: []string{"username", "password"}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Destroy()
	if got := clear1(g); got["username"] != "v-ro" || got["password"] != "pw-1" {
		t.Errorf("%q", got)
	}
	if want := []string{"GET sys/internal/ui/mounts/database/creds/ro", "GET database/creds/ro"}; !slices.Equal(v.asked, want) {
		t.Errorf("asked %q", v.asked)
	}
}

func TestVaultRevoke(t *testing.T) {
	leak.Check(t)
	v := standardVault()
	set := newFakeVault(t, v)
	_, g, err := fetch(t, set, "vault:database/creds/ro#username")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Revoke(t.Context()); err != nil || !slices.Equal(v.revoked, []string{"database/creds/ro/l1"}) || len(v.faults) > 0 {
		t.Errorf("%v, revoked %q, %q", err, v.revoked, v.faults)
	}
	v.revoke = 500
	wantFault(t, "a server that will not", g.Revoke(t.Context()), Vault, Unavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantFault(t, "no time", g.Revoke(ctx), Vault, Timeout)
}

func TestVaultToken(t *testing.T) {
	address, roots := server(t, standardVault().ServeHTTP)
	for _, c := range []struct {
		name, token string
		reason      Reason
	}{
		{"another's", "file:" + write(t, "another-t0ken", 0o600), Denied},
		{"none", "file:/no/such/file", Absent},
		{"two lines", "file:" + write(t, "t0ken\r\nX-Vault-Wrap-TTL: 1", 0o600), Invalid},
		{"of a program that fails", "command:/bin/false", Failed},
		{"of a variable", "env:NONE", Absent},
	} {
		set := newSet(t, Settings{Roots: roots, Vault: VaultSettings{Address: address, Namespace: "team", Token: c.token}}, Host{})
		_, _, err := fetch(t, set, "vault:kv/agents/gh")
		wantFault(t, c.name, err, Vault, c.reason)
		if err != nil && strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: the error has it: %v", c.name, err)
		}
	}
}

// FuzzVaultAnswer: whatever a server answers, there is a secret or a fault,
// and the fault says nothing of the answer.
func FuzzVaultAnswer(f *testing.F) {
	for _, answer := range standardVault().secrets {
		if len(answer) < 1000 {
			f.Add([]byte(answer), "token", true)
			f.Add([]byte(answer), "", false)
		}
	}
	f.Add([]byte(`{"data":{"data":{"token":"\ud800"}}}`), "token", true)
	f.Add([]byte(`{"data":{"data":{"token":"x"},"data":null}}`), "token", true)
	f.Fuzz(func(t *testing.T, body []byte, field string, inner bool) {
		v := &vaultSource{vault: &vault{}}
		if strings.Contains(string(body), "lease_id") {
			return // it would be revoked, which is another test
		}
		canary := strings.Contains(string(body), "ghp_0123456789")
		g, err := v.grant(t.Context(), Request{Fields: []string{field}}, body, inner)
		if (g == nil) != (err != nil) {
			t.Fatalf("%v, %v", g, err)
		}
		if err != nil {
			if FaultOf(Vault, err).Msg == "it failed" || canary && strings.Contains(err.Error(), "ghp_") {
				t.Fatalf("%v", err)
			}
			return
		}
		defer g.Destroy()
		if s := g.Secrets[field]; len(g.Secrets) != 1 || s.Len() == 0 || g.TTL < 0 || g.Revoke != nil {
			t.Fatalf("%v, %d bytes, %s", keys(g.Secrets), s.Len(), g.TTL)
		}
	})
}
