package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
)

func TestFileContent(t *testing.T) {
	set := newSet(t, Settings{}, Host{})
	for _, c := range []struct {
		name, content, want string
		reason              Reason
	}{
		{"as it is", "s3cr3t", "s3cr3t", ""},
		{"a line end", "s3cr3t\n", "s3cr3t", ""},
		{"a line end of another system", "s3cr3t\r\n", "s3cr3t", ""},
		{"one line end of two", "s3cr3t\n\n", "s3cr3t\n", ""},
		{"a carriage return", "s3cr3t\r", "s3cr3t\r", ""},
		{"several lines", "a\nb\nc\n", "a\nb\nc", ""},
		{"not text", "\x00\xff\xfe", "\x00\xff\xfe", ""},
		{"as long as goes", strings.Repeat("x", secret.MaxBytes), strings.Repeat("x", secret.MaxBytes), ""},
		{"as long as goes, and a line end", strings.Repeat("x", secret.MaxBytes) + "\r\n", strings.Repeat("x", secret.MaxBytes), ""},
		{"too long", strings.Repeat("x", secret.MaxBytes+1), "", Invalid},
		{"far too long", strings.Repeat("x", 10*secret.MaxBytes), "", Invalid},
		{"empty", "", "", Invalid},
		{"a line end alone", "\n", "", Invalid},
	} {
		got, g, err := fetch(t, set, "file:"+write(t, c.content, 0o600))
		if c.reason != "" {
			wantFault(t, c.name, err, File, c.reason)
		} else if err != nil || got[""] != c.want || g.TTL != 0 || g.Revoke != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestFileGuard(t *testing.T) {
	set := newSet(t, Settings{}, Host{})
	open := write(t, "s3cr3t", 0o600)
	if err := os.Chmod(filepath.Dir(open), 0o777); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(write(t, "s3cr3t", 0o600), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		reason     Reason
	}{
		{"private", write(t, "s3cr3t", 0o600), ""}, {"for a group to read", write(t, "s3cr3t", 0o640), ""}, {"a link to it", link, ""},
		{"for everybody to read", write(t, "s3cr3t", 0o604), Unsafe}, {"for a group to write", write(t, "s3cr3t", 0o620), Unsafe},
		{"in a directory that all can write", open, Unsafe}, {"a pipe", fifo, Invalid}, {"a directory", t.TempDir(), Invalid},
		{"a device", "/dev/null", Invalid}, {"nothing", filepath.Join(t.TempDir(), "no-such-file"), Absent}, {"not from / on", "secret", Invalid},
	} {
		got, _, err := fetch(t, set, "file:"+c.path)
		if c.reason != "" {
			wantFault(t, c.name, err, File, c.reason)
			if strings.Contains(err.Error(), c.path) || FaultOf(File, err).Hint == "" {
				t.Errorf("%s: the error has the path, or no hint: %v", c.name, err)
			}
		} else if err != nil || got[""] != "s3cr3t" {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestEnv(t *testing.T) {
	set := newSet(t, Settings{}, Host{LookupEnv: func(name string) (string, bool) {
		value, found := map[string]string{"TOKEN": "s3cr3t\n", "EMPTY": "", "LONG": strings.Repeat("x", secret.MaxBytes+1)}[name]
		return value, found
	}})
	if got, _, err := fetch(t, set, "env:TOKEN"); err != nil || got[""] != "s3cr3t\n" {
		t.Errorf("%q, %v", got, err)
	}
	for name, reason := range map[string]Reason{"NONE": Absent, "EMPTY": Invalid, "LONG": Invalid} {
		_, _, err := fetch(t, set, "env:"+name)
		wantFault(t, name, err, Env, reason)
	}
}

func TestUnknownSources(t *testing.T) {
	set := newSet(t, Settings{}, Host{})
	for words, want := range map[string]Fault{
		"vault:kv/x": {Kind: Vault, Reason: Unconfigured}, "oauth2:x": {Kind: OAuth2, Reason: Unconfigured}, "ghp_0123456789": {Reason: Unconfigured}, "": {Reason: Unconfigured},
	} {
		_, err := set.Open(envelope.Credential{Source: words})
		wantFault(t, words, err, want.Kind, want.Reason)
		if words != "" && strings.Contains(err.Error(), words) {
			t.Errorf("the error has the words: %v", err)
		}
	}
}

func TestSettings(t *testing.T) {
	good := OAuth2Settings{TokenURL: "https://a.test/token", ClientID: "id", Secret: "env:X"}
	with := func(change func(*OAuth2Settings)) Settings {
		c := good
		change(&c)
		return Settings{OAuth2: map[string]OAuth2Settings{"x": c}}
	}
	vaultAt := func(address, token string) Settings {
		return Settings{Vault: VaultSettings{Address: address, Token: token}}
	}
	for _, c := range []struct {
		field string // "" is good
		s     Settings
	}{
		{"", Settings{}},
		{"", with(func(*OAuth2Settings) {})},
		{"", vaultAt("https://v.test:8200/prefix", "file:/etc/token")},
		{"vault.address", vaultAt("http://127.0.0.1:8200", "file:/etc/token")},
		{"vault.address", vaultAt("https://user:pass@v.test", "file:/etc/token")},
		{"vault.address", vaultAt("https://v.test/?x", "file:/etc/token")},
		{"vault.address", vaultAt("v.test:8200", "file:/etc/token")},
		{"vault.address", vaultAt("%", "file:/etc/token")},
		{"vault.token", vaultAt("https://v.test", "")},
		{"vault.token", vaultAt("https://v.test", "hvs.0123456789")},
		{"vault.token", vaultAt("https://v.test", "vault:kv/x")},
		{"vault.token", vaultAt("https://v.test", "command:relative")},
		{"vault.token", vaultAt("https://v.test", "command:/bin/echo 'open")},
		{"vault.namespace", Settings{Vault: VaultSettings{Address: "https://v.test", Token: "env:X", Namespace: "a\nb"}}},
		{"oauth2.x.tokenURL", with(func(c *OAuth2Settings) { c.TokenURL = "http://a.test" })},
		{"oauth2.x.revokeURL", with(func(c *OAuth2Settings) { c.RevokeURL = "http://a.test" })},
		{"oauth2.x.clientID", with(func(c *OAuth2Settings) { c.ClientID = "" })},
		{"oauth2.x.auth", with(func(c *OAuth2Settings) { c.Auth = "jwt" })},
		{"oauth2.x.secret", with(func(c *OAuth2Settings) { c.Secret = "s3cr3t" })},
		{"roots", Settings{Roots: "/no/such/file"}},
		{"roots", Settings{Roots: write(t, "no certificate", 0o644)}},
	} {
		set, err := NewSet(c.s, Host{})
		var fault *SettingError
		if c.field == "" != (err == nil) || err != nil && (!errors.As(err, &fault) || fault.Field != c.field || fault.Hint == "") {
			t.Errorf("%+v: %v, want a fault of %q", c.s, err, c.field)
		}
		if err != nil && (strings.Contains(err.Error(), "hvs.") || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "pass@")) {
			t.Errorf("the error has the secret: %v", err)
		}
		if set != nil {
			set.Close()
		}
	}
}

func TestFaults(t *testing.T) {
	fault := FaultOf(Vault, context.DeadlineExceeded)
	if !errors.Is(fault, context.DeadlineExceeded) || !fault.Retry() || fault.Error() != "vault: it took too long" {
		t.Errorf("%v", fault)
	}
	if other := FaultOf(File, errors.New("with s3cr3t in it")); other.Error() != "file: it failed" || errors.Is(other, context.DeadlineExceeded) {
		t.Errorf("%v", other)
	}
}
