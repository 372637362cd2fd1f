package source

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
)

// Request is what a source is asked for.
type Request struct {
	Call   string   // the call's id
	Scopes []string // what the secret is to be good for; nil says nothing
	Fields []string // which fields of it: of a source without fields, one ""
}

// Grant is what a source handed out. Its secrets are the receiver's to
// destroy.
type Grant struct {
	Secrets map[string]secret.Secret // by field
	TTL     time.Duration            // how long the source lets them live from the request on; 0 is not said
	Revoke  func(context.Context) error
	// Revoke ends them at the source, before TTL is over and before they are
	// destroyed. Nil where there is nothing to be ended. Its error is a *Fault.
}

// Destroy overwrites the secrets.
func (g *Grant) Destroy() {
	for _, s := range g.Secrets {
		s.Destroy()
	}
}

// Source is one place to get a secret from. It may be used by many goroutines.
type Source interface {
	// Kind is the kind of source.
	Kind() Kind
	// Group is the same for sources that are to be asked once for all their
	// fields; "" for one that is asked by itself. It is not for printing.
	Group() string
	// Field is which field of the group the source stands for.
	Field() string
	// Fetch asks. It returns soon after ctx ends, but for a file system that
	// hangs. An error is a *Fault.
	Fetch(ctx context.Context, r Request) (*Grant, error)
}

// Open returns the source that the words name. An error is a *Fault.
func (s *Set) Open(c envelope.Credential) (Source, error) {
	kind, rest, _ := strings.Cut(c.Source, ":")
	switch Kind(kind) {
	case Vault:
		return s.openVault(rest)
	case OAuth2:
		client := s.clients[rest]
		if client == nil {
			return nil, &Fault{OAuth2, Unconfigured, "there is no such client", "name it under credentials.oauth2 in the configuration"}
		}
		return client, nil
	}
	return s.openLocal(c.Source)
}

// openLocal returns a source that needs no network.
func (s *Set) openLocal(words string) (Source, error) {
	kind, rest, _ := strings.Cut(words, ":")
	switch Kind(kind) {
	case File:
		return &fileSource{path: rest}, nil
	case Env:
		return &envSource{name: rest, lookup: s.host.LookupEnv}, nil
	case Command:
		return openCommand(rest, s.host.Home)
	}
	return nil, &Fault{"", Unconfigured, "it is not a source", "write file:PATH, command:WORDS or env:NAME"}
}

// single is the grant of one secret that has no fields, and no end.
func single(s secret.Secret) *Grant { return &Grant{Secrets: map[string]secret.Secret{"": s}} }

// read makes a secret of what fill reads into a room of MaxBytes and a bit,
// without a line end behind it.
func read(kind Kind, fill func(room []byte) (int, error)) (secret.Secret, error) {
	s, err := secret.Make(secret.MaxBytes+3, func(room []byte) (int, error) {
		n, err := fill(room)
		if err != nil {
			return 0, err
		}
		n = cutLine(room[:n])
		if n > secret.MaxBytes {
			return 0, secret.ErrSize
		}
		return n, nil
	})
	return s, unfit(kind, err)
}

// cutLine returns how long text is without a line end behind it.
func cutLine(text []byte) int {
	n := len(text)
	if n > 0 && text[n-1] == '\n' {
		if n--; n > 0 && text[n-1] == '\r' {
			n--
		}
	}
	return n
}

// unfit returns what keeps bytes from being a secret as a fault.
func unfit(kind Kind, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, secret.ErrEmpty):
		return &Fault{kind, Invalid, "it is empty", "put the secret there"}
	case errors.Is(err, secret.ErrSize):
		return &Fault{kind, Invalid, "it is longer than 64 KiB", "is it the secret alone?"}
	}
	return FaultOf(kind, err)
}
