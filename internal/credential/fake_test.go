package credential

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
)

// fakes are sources by what an envelope says of them.
type fakes map[string]*fake

func (f fakes) Open(c envelope.Credential) (source.Source, error) {
	if one := f[c.Source]; one != nil {
		return one, nil
	}
	return nil, &source.Fault{Kind: source.OAuth2, Reason: source.Unconfigured, Msg: "there is no such client", Hint: "configure it"}
}

// fake is a source that does as it is told.
type fake struct {
	kind         source.Kind // File if empty
	group, field string
	value        string
	values       map[string]string // by field, instead of value
	ttl          time.Duration
	fetch        func(ctx context.Context, r source.Request) error // before it answers
	revoke       func(ctx context.Context) error                   // nil: cannot

	mu       sync.Mutex
	requests []source.Request
	revoked  int
	issued   []secret.Secret
}

func (f *fake) Kind() source.Kind {
	if f.kind == "" {
		return source.File
	}
	return f.kind
}
func (f *fake) Group() string { return f.group }
func (f *fake) Field() string { return f.field }

func (f *fake) Fetch(ctx context.Context, r source.Request) (*source.Grant, error) {
	if f.fetch != nil {
		if err := f.fetch(ctx, r); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	g := &source.Grant{Secrets: map[string]secret.Secret{}, TTL: f.ttl}
	for _, field := range r.Fields {
		text := f.value
		if f.values != nil {
			text = f.values[field]
		}
		s, _ := secret.New([]byte(text)) // an empty one is one of the cases
		g.Secrets[field] = s
		f.issued = append(f.issued, s)
	}
	if f.revoke != nil {
		g.Revoke = func(ctx context.Context) error {
			err := f.revoke(ctx)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.revoked++
			return err
		}
	}
	return g, nil
}

// left is how many of the secrets that it issued are still there.
func (f *fake) left() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.issued {
		if s.Len() > 0 {
			n++
		}
	}
	return n
}

func willing(context.Context) error { return nil }

// stuck waits for the end of ctx, as a source does that nobody answers.
func stuck(ctx context.Context) error {
	<-ctx.Done()
	return &source.Fault{Kind: source.Vault, Reason: source.Timeout, Msg: "it took too long"}
}

// creds are credentials that go into files, from sources of the names given:
// name, source, name, source.
func creds(words ...string) map[string]envelope.Credential {
	all := map[string]envelope.Credential{}
	for i := 0; i < len(words); i += 2 {
		all[words[i]] = envelope.Credential{Source: words[i+1], Use: envelope.CredentialUse{File: true}}
	}
	return all
}

func text(t testing.TB, l *Lease, name string) string {
	t.Helper()
	s, err := l.Secret(name)
	if err != nil {
		return err.Error()
	}
	var out string
	s.Reveal(func(value []byte) { out = string(value) })
	return out
}
