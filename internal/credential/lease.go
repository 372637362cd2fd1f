package credential

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/credential/source"
)

// Lease are the credentials of one call. It may be used by many goroutines.
// Whoever has one calls Revoke at the end.
type Lease struct {
	call     string
	options  Options
	items    map[string]*item // by name; does not change once the lease is issued
	grants   []*granted
	redactor *redact.Redactor

	mu      sync.Mutex // guards what follows
	revoked bool
	ended   chan struct{} // closed when report is there
	report  Report
}

// item is one credential.
type item struct {
	kind    source.Kind
	secret  secret.Secret
	expires time.Time // zero: not before the lease is revoked
	grant   *granted
}

// granted is what a source handed out, for one credential or more.
type granted struct {
	*source.Grant
	names []string
	ends  time.Time // at the source; zero: it does not say
}

func newLease(call string, o Options) *Lease {
	return &Lease{call: call, options: o, items: map[string]*item{}, ended: make(chan struct{})}
}

// take takes an answer in. What was handed out is the lease's, whatever else
// is wrong with it.
func (l *Lease) take(a answered) *Error {
	if a.err != nil {
		return failure(a.first(), a.source.Kind(), a.err)
	}
	g := &granted{Grant: a.grant, names: sortedKeys(a.creds)}
	if g.TTL > 0 {
		g.ends = a.at.Add(g.TTL)
	}
	l.grants = append(l.grants, g)
	for _, name := range g.names {
		c := a.creds[name]
		it := &item{kind: a.source.Kind(), secret: g.Secrets[a.fields[name]], grant: g, expires: g.ends}
		if own := a.at.Add(time.Duration(c.TTL)); c.TTL > 0 && (it.expires.IsZero() || own.Before(it.expires)) {
			it.expires = own
		}
		l.items[name] = it
		if it.secret.Len() == 0 {
			return failure(name, it.kind, &source.Fault{Kind: it.kind, Reason: source.Invalid, Msg: "it is empty", Hint: "put the secret there"})
		}
		if msg := fit(c.Use, it.secret); msg != "" {
			return failure(name, it.kind, &source.Fault{Kind: it.kind, Reason: source.Invalid, Msg: msg, Hint: "is it the secret alone?"})
		}
	}
	return nil
}

// finish makes the lease's redactor.
func (l *Lease) finish() *Error {
	r, err := redact.New(l.Values())
	if err != nil {
		return l.unmaskable(err)
	}
	l.redactor = r
	return nil
}

// Secret returns the secret of a name. It is the lease's: it ends with it. An
// error is ErrUnknown, ErrExpired or ErrRevoked.
func (l *Lease) Secret(name string) (secret.Secret, error) {
	it := l.items[name]
	if it == nil {
		return secret.Secret{}, ErrUnknown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.revoked:
		return secret.Secret{}, ErrRevoked
	case !it.expires.IsZero() && !l.options.Now().Before(it.expires):
		return secret.Secret{}, ErrExpired
	}
	return it.secret, nil
}

// Expires returns when the secret of a name is not handed out any more, and
// whether there is such a time. Whoever keeps a copy (the way out) is to be
// told of it.
func (l *Lease) Expires(name string) (time.Time, bool) {
	it := l.items[name]
	if it == nil || it.expires.IsZero() {
		return time.Time{}, false
	}
	return it.expires, true
}

// Names are the names of the credentials, sorted.
func (l *Lease) Names() []string { return sortedKeys(l.items) }

// Values are all secrets with their names, expired ones too, for a Redactor of
// another process: they are masked as long as the call lasts.
func (l *Lease) Values() []redact.Value {
	var values []redact.Value
	for _, name := range l.Names() {
		values = append(values, redact.Value{Name: name, Secret: l.items[name].secret})
	}
	return values
}

// Redactor masks the secrets of the lease, until it is revoked. What comes out
// of the call has to be through it by then: after that nothing comes out of
// the Redactor at all.
func (l *Lease) Redactor() *redact.Redactor { return l.redactor }

// Warnings name the credentials whose masking may mask ordinary text.
func (l *Lease) Warnings() (out []string) {
	for _, name := range l.Names() {
		l.items[name].secret.Reveal(func(value []byte) {
			if redact.Ordinary(value) {
				out = append(out, "credentials."+name+": it is a word or a number, which is masked wherever it stands")
			}
		})
	}
	return out
}

// String names the call and the credentials.
func (l *Lease) String() string {
	return fmt.Sprintf("lease of call %s: %s", l.call, strings.Join(l.Names(), ", "))
}

// LogValue is the text of String.
func (l *Lease) LogValue() slog.Value { return slog.StringValue(l.String()) }

// kindOf is the kind of source that c names, "" for none that there is.
func kindOf(c envelope.Credential) source.Kind {
	word, _, _ := strings.Cut(c.Source, ":")
	for _, kind := range []source.Kind{source.File, source.Command, source.Env, source.Vault, source.OAuth2} {
		if word == string(kind) {
			return kind
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// compact sorts and takes out what comes twice. Nil stays nil.
func compact(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
