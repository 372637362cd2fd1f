package source

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/leak"
)

// servers installs the servers of others, once, and returns where.
var servers = sync.OnceValues(func() (string, error) {
	return helpers.Fetched("locked", "internal/credential/source/testdata/servers")
})

// installed is the directory that they are in.
func installed(t testing.TB) string {
	t.Helper()
	dir, err := servers()
	if errors.Is(err, helpers.ErrUnreachable) {
		t.Skipf("the servers of others are not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// startOIDC starts a real OAuth2 server on loopback and returns its address
// and a file with its certificate.
func startOIDC(t testing.TB) (address, roots string) {
	t.Helper()
	modules := filepath.Join(installed(t), "node_modules")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	key, cert := selfSigned(t)
	cmd := exec.Command(node, "testdata/oidc-provider.mjs", modules, key, cert)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "https://") {
			return lines.Text(), cert
		}
	}
	_ = cmd.Wait()
	t.Fatalf("the server does not start:\n%s", log.String())
	return "", ""
}

// selfSigned makes a key and a certificate for loopback, in files.
func selfSigned(t testing.TB) (key, cert string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), 0o600),
		write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
}

// TestRealOAuth2 holds the source to a real server.
func TestRealOAuth2(t *testing.T) {
	leak.Check(t)
	address, roots := startOIDC(t)
	client := OAuth2Settings{TokenURL: address + "/token", RevokeURL: address + "/token/revocation", ClientID: "id:1", Secret: "env:SECRET"}
	post, wrong := client, client
	post.ClientID, post.Auth = "id:2", "body"
	wrong.Secret = "env:WRONG"
	set := newSet(t, Settings{Roots: roots, OAuth2: map[string]OAuth2Settings{"basic": client, "body": post, "wrong": wrong}}, Host{LookupEnv: func(name string) (string, bool) {
		if name == "SECRET" {
			return "cl1ent s3cr3t+%", true
		}
		return "another", true
	}})
	for _, name := range []string{"basic", "body"} {
		got, g, err := fetch(t, set, "oauth2:"+name, "read")
		if err != nil || g.TTL != 10*time.Minute || g.Revoke == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !active(t, set, got[""]) {
			t.Errorf("%s: the token is not good", name)
		}
		if err := g.Revoke(t.Context()); err != nil || active(t, set, got[""]) {
			t.Errorf("%s: revoked: %v; good still: %v", name, err, active(t, set, got[""]))
		}
	}
	_, _, err := fetch(t, set, "oauth2:basic", "admin")
	wantFault(t, "a scope that the client may not have", err, OAuth2, Denied)
	_, _, err = fetch(t, set, "oauth2:wrong", "read")
	wantFault(t, "a wrong secret", err, OAuth2, Denied)
}

// active asks the server whether a token is good: RFC 7662.
func active(t testing.TB, set *Set, token string) bool {
	t.Helper()
	c := set.clients["basic"]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := c.post(ctx, "", c.TokenURL+"/introspection", url.Values{"token": {token}})
	var says struct {
		Active bool `json:"active"`
	}
	if err != nil || json.Unmarshal(a.body, &says) != nil {
		t.Fatalf("introspection: %v", err)
	}
	return says.Active
}
