package source

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/credential/secret"
)

// vault is one Vault or OpenBao.
type vault struct {
	client    *http.Client
	base      *url.URL
	namespace string
	token     Source
}

func (s *Set) newVault(settings VaultSettings) (*vault, error) {
	base, err := checkURL("vault.address", settings.Address)
	if err != nil {
		return nil, err
	}
	if base.RawQuery != "" {
		return nil, &SettingError{"vault.address", "has a query in it", "leave it out"}
	}
	token, err := s.inner("vault.token", settings.Token)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(settings.Namespace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &SettingError{"vault.namespace", "is not a namespace", "write it as the server does: team-a/project"}
	}
	return &vault{client: s.client, base: base, namespace: settings.Namespace, token: token}, nil
}

// vaultSource is one field of a secret there.
type vaultSource struct {
	*vault
	path, field string
}

func (*vaultSource) Kind() Kind      { return Vault }
func (v *vaultSource) Group() string { return "vault:" + v.path }
func (v *vaultSource) Field() string { return v.field }

func (s *Set) openVault(rest string) (Source, error) {
	if s.vault == nil {
		return nil, &Fault{Vault, Unconfigured, "there is no Vault", "configure credentials.vault"}
	}
	path, field := rest, ""
	if at := strings.LastIndexByte(rest, '#'); at >= 0 {
		path, field = rest[:at], rest[at+1:]
		if field == "" {
			return nil, &Fault{Vault, Invalid, "it names no field behind #", "write vault:MOUNT/PATH#FIELD"}
		}
	}
	mount, below, _ := strings.Cut(path, "/")
	if mount == "" || below == "" {
		return nil, &Fault{Vault, Invalid, "it is not a path", "write vault:MOUNT/PATH#FIELD"}
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return nil, &Fault{Vault, Invalid, "its path has a part that is empty or dots", "write vault:MOUNT/PATH#FIELD"}
		}
	}
	return &vaultSource{s.vault, path, field}, nil
}

// request makes one request. An error is a *Fault, also where the server does
// not answer with a success.
func (v *vault) request(ctx context.Context, token secret.Secret, method, path string, body []byte) (*answer, error) {
	u := *v.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/" + path
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	u.RawPath = strings.TrimSuffix(v.base.EscapedPath(), "/") + "/v1/" + strings.Join(parts, "/")
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, &Fault{Vault, Invalid, "its path cannot be asked for", "check the path"}
	}
	r.Header.Set("X-Vault-Token", whole(token))
	r.Header.Set("X-Vault-Request", "true")
	if v.namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.namespace)
	}
	a, err := ask(v.client, Vault, r)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK && a.status != http.StatusNoContent {
		clear(a.body)
		return nil, statusFault(Vault, a.status)
	}
	return a, nil
}

// withToken runs do with the token of this host.
func (v *vault) withToken(ctx context.Context, call string, do func(token secret.Secret) error) error {
	g, err := v.token.Fetch(ctx, Request{Call: call, Fields: []string{""}})
	if err != nil {
		fault := FaultOf(v.token.Kind(), err)
		return &Fault{Vault, fault.Reason, "the token for it: " + fault.Error(), fault.Hint}
	}
	defer g.Destroy()
	token := g.Secrets[""]
	if !visible(token) {
		return &Fault{Vault, Invalid, "the token for it is not one line of printable text", "put the token there, and nothing else"}
	}
	return do(token)
}

// Fetch reads the secret and takes the fields that are asked for.
func (v *vaultSource) Fetch(ctx context.Context, r Request) (*Grant, error) {
	var g *Grant
	err := v.withToken(ctx, r.Call, func(token secret.Secret) error {
		path, inner, err := v.locate(ctx, token)
		if err != nil {
			return err
		}
		a, err := v.request(ctx, token, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		defer clear(a.body)
		g, err = v.grant(ctx, r, a.body, inner)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// mount is the part of the server's answer on a mount that is looked at.
type mount struct {
	Data struct {
		Path    string            `json:"path"`
		Type    string            `json:"type"`
		Options map[string]string `json:"options"`
	} `json:"data"`
}

// locate returns the path of the API at which the secret is read, and whether
// it is one of a version 2 KV engine: its values are then one level further in.
func (v *vaultSource) locate(ctx context.Context, token secret.Secret) (path string, inner bool, err error) {
	first, below, _ := strings.Cut(v.path, "/")
	a, err := v.request(ctx, token, http.MethodGet, "sys/internal/ui/mounts/"+v.path, nil)
	if err != nil {
		if fault := FaultOf(Vault, err); fault.Retry() {
			return "", false, fault
		}
		return first + "/data/" + below, true, nil // it will not tell
	}
	var m mount
	if json.Unmarshal(a.body, &m) != nil || m.Data.Path == "" || !strings.HasPrefix(v.path, m.Data.Path) {
		return "", false, &Fault{Vault, Invalid, "the server does not answer as a Vault does", "check the address"}
	}
	if m.Data.Type == "kv" && m.Data.Options["version"] == "2" {
		return m.Data.Path + "data/" + v.path[len(m.Data.Path):], true, nil
	}
	return v.path, false, nil
}

// grant makes a grant of an answer. Where that fails a lease is revoked.
func (v *vaultSource) grant(ctx context.Context, r Request, body []byte, inner bool) (*Grant, error) {
	bad := &Fault{Vault, Invalid, "the server does not answer as a Vault does", "check the address"}
	var a struct {
		Lease   string          `json:"lease_id"`
		Seconds int64           `json:"lease_duration"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &a) != nil || a.Seconds < 0 || a.Seconds > int64(maxTTL/time.Second) {
		return nil, bad
	}
	defer func() { clear(a.Data) }()
	g := &Grant{Secrets: map[string]secret.Secret{}, TTL: time.Duration(a.Seconds) * time.Second}
	if a.Lease != "" {
		g.Revoke = func(ctx context.Context) error { return v.revoke(ctx, a.Lease) }
	}
	fields, err := fieldsOf(a.Data, inner)
	if err != nil {
		undo(ctx, g)
		return nil, err
	}
	for _, name := range r.Fields {
		s, err := pick(fields, name)
		if err != nil {
			undo(ctx, g)
			return nil, err
		}
		g.Secrets[name] = s
	}
	return g, nil
}

// maxTTL is the longest time that is believed.
const maxTTL = 100 * 365 * 24 * time.Hour

// fieldsOf returns the fields of a secret.
func fieldsOf(data json.RawMessage, inner bool) (map[string]json.RawMessage, error) {
	if inner {
		var outer struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(data, &outer) != nil {
			return nil, &Fault{Vault, Invalid, "the server does not answer as a KV engine does", "check the path"}
		}
		data = outer.Data
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || len(fields) == 0 {
		return nil, &Fault{Vault, Absent, "the secret has no fields", "write it, or check the path"}
	}
	return fields, nil
}

// pick returns a field; the only one for "".
func pick(fields map[string]json.RawMessage, name string) (secret.Secret, error) {
	if name == "" {
		if len(fields) > 1 {
			return secret.Secret{}, &Fault{Vault, Invalid, "the secret has several fields", "write vault:MOUNT/PATH#FIELD"}
		}
		for only := range fields {
			name = only
		}
	}
	raw, found := fields[name]
	if !found {
		return secret.Secret{}, &Fault{Vault, Absent, "the secret has no such field", "check what stands behind #"}
	}
	return secretOf(Vault, raw)
}

// revoke ends a lease, and waits until it is over.
func (v *vault) revoke(ctx context.Context, lease string) error {
	return v.withToken(ctx, "", func(token secret.Secret) error {
		body, err := json.Marshal(map[string]any{"lease_id": lease, "sync": true})
		if err != nil {
			return FaultOf(Vault, err)
		}
		_, err = v.request(ctx, token, http.MethodPut, "sys/leases/revoke", body)
		return err
	})
}
