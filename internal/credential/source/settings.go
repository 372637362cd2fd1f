package source

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/callcell/callcell/internal/config/guarded"
)

// Settings are what an operator says of the sources of a host.
type Settings struct {
	// Roots is a PEM file of certificate authorities that are trusted beside
	// this host's; "" is none.
	Roots  string
	Vault  VaultSettings
	OAuth2 map[string]OAuth2Settings // clients, by the name that a source says
}

// VaultSettings are those of one Vault or OpenBao.
type VaultSettings struct {
	Address   string // https://vault.internal:8200; "" is none
	Namespace string // "" is none
	Token     string // file:PATH, command:WORDS or env:NAME
}

// OAuth2Settings are those of one client.
type OAuth2Settings struct {
	TokenURL  string
	RevokeURL string // "" where tokens cannot be revoked
	ClientID  string
	Secret    string // file:PATH, command:WORDS or env:NAME
	Auth      string // how the client says who it is: "basic" (or ""), in the header, or "body"
	Audience  string // a parameter that some servers want; "" is none
}

// Host is what of this host the sources use.
type Host struct {
	Home      string                           // HOME of commands
	LookupEnv func(name string) (string, bool) // of this process
}

// SettingError says which setting cannot be used, and how to mend it.
type SettingError struct {
	Field string // vault.token, oauth2.NAME.tokenURL
	Msg   string
	Hint  string
}

// Error names the field and the fault.
func (e *SettingError) Error() string { return e.Field + ": " + e.Msg }

// Set are the sources of a host. It may be used by many goroutines.
type Set struct {
	host    Host
	client  *http.Client
	vault   *vault // nil: none
	clients map[string]*oauth2Client
}

// NewSet returns the sources of a host. It reads the file of roots, and asks
// no source. An error is a *SettingError. Close is to be called at the end.
func NewSet(s Settings, host Host) (*Set, error) {
	roots, err := readRoots(s.Roots)
	if err != nil {
		return nil, err
	}
	set := &Set{host: host, client: newClient(roots), clients: map[string]*oauth2Client{}}
	if s.Vault.Address != "" {
		if set.vault, err = set.newVault(s.Vault); err != nil {
			return nil, err
		}
	}
	for name, one := range s.OAuth2 {
		client, err := set.newOAuth2(name, one)
		if err != nil {
			return nil, err
		}
		set.clients[name] = client
	}
	return set, nil
}

// Close closes connections that wait for a next request.
func (s *Set) Close() { s.client.CloseIdleConnections() }

func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil // this host's
	}
	pem, err := guarded.Read(path, 4<<20)
	if err != nil {
		hint := "name a PEM file of this host"
		if fault := (*guarded.Error)(nil); errors.As(err, &fault) && fault.Hint != "" {
			hint = fault.Hint
		}
		return nil, &SettingError{"roots", err.Error(), hint}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &SettingError{"roots", "has no certificate in PEM", "put one there"}
	}
	return roots, nil
}

// checkURL returns an address that a secret may be sent to.
func checkURL(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, &SettingError{field, "is not an address", "write https://HOST/PATH"}
	case u.Scheme != "https":
		return nil, &SettingError{field, "is not https", "secrets go over https alone"}
	case u.User != nil || u.Fragment != "":
		return nil, &SettingError{field, "has a user or a fragment in it", "leave them out"}
	}
	return u, nil
}

// inner returns the source of a secret that a source needs itself.
func (s *Set) inner(field, words string) (Source, error) {
	const hint = "write file:PATH, command:WORDS or env:NAME"
	kind, rest, _ := strings.Cut(words, ":")
	if rest == "" {
		return nil, &SettingError{field, "is missing or no source", hint}
	}
	source, err := s.openLocal(words)
	if err != nil {
		return nil, &SettingError{field, FaultOf(Kind(kind), err).Msg, hint}
	}
	return source, nil
}
