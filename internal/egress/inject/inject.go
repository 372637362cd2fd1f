package inject

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/wire"
)

var (
	// ErrGrant is a credential that cannot be one of a header.
	ErrGrant = errors.New("is no credential of a header")
	// ErrValue is a secret that no header can have.
	ErrValue = errors.New("has bytes that no header can have")
)

// Place is a host and a port.
type Place struct {
	Host string // canonical
	Port int
}

// Set is what one call may use. It may be used by many goroutines. A nil Set is
// one of no credentials.
type Set struct {
	edges   map[Place]*Edge
	mask    mask
	tallies map[string]*tally
	secrets []secret.Secret
}

// tally is what is counted of one credential.
type tally struct{ used, masked atomic.Int64 }

// New returns a Set of credentials, at most wire.MaxCredentials. It takes over
// their secrets: Destroy ends them, and so does an error, which names the
// credential and wraps ErrGrant, ErrValue, or an error of package redact.
func New(list []wire.Credential) (*Set, error) {
	s := &Set{edges: map[Place]*Edge{}, tallies: map[string]*tally{}}
	for _, c := range list {
		s.secrets = append(s.secrets, c.Secret)
	}
	if err := s.build(list); err != nil {
		s.Destroy()
		return nil, err
	}
	return s, nil
}

func (s *Set) build(list []wire.Credential) error {
	if len(list) > wire.MaxCredentials {
		return fmt.Errorf("%w: %d of them", ErrGrant, len(list))
	}
	for _, c := range list {
		if err := check(c); err != nil {
			return fmt.Errorf("credential %q: %w", c.Name, err)
		}
		if s.tallies[c.Name] != nil {
			return fmt.Errorf("credential %q: %w: it comes twice", c.Name, ErrGrant)
		}
		s.tallies[c.Name] = &tally{}
		if err := s.edge(Place{c.Host, c.Port}).add(c, s.tallies[c.Name]); err != nil {
			return err
		}
	}
	return s.mask.build(list, s.tallies)
}

// check holds a credential to what the envelope of its call may say.
func check(c wire.Credential) error {
	host, err := policy.Canonical(c.Host)
	switch {
	case !token(c.Header):
		return fmt.Errorf("%w: its header", ErrGrant)
	case strings.Count(c.Format, "{}") != 1 || !headerValue([]byte(c.Format)):
		return fmt.Errorf("%w: its format", ErrGrant)
	case err != nil || host != c.Host || c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("%w: its host or port", ErrGrant)
	case len(c.Methods) == 0 || slices.ContainsFunc(c.Methods, func(m string) bool { return !token(m) }):
		return fmt.Errorf("%w: its methods", ErrGrant)
	case !strings.HasPrefix(c.Path, "/") || Path(c.Path) != "" || strings.ContainsAny(c.Path, "%?#"):
		return fmt.Errorf("%w: its path", ErrGrant)
	}
	fits := false
	if !c.Secret.Reveal(func(value []byte) { fits = headerValue(value) }) {
		return fmt.Errorf("%w: its secret is missing", ErrGrant)
	}
	if !fits {
		return ErrValue
	}
	return nil
}

// token reports whether text can be the name of a header, or a method.
func token(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue reports whether a header can have these bytes.
func headerValue(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// edge returns the Edge of a place, a new one where there is none.
func (s *Set) edge(at Place) *Edge {
	e := s.edges[at]
	if e == nil {
		e = &Edge{set: s, own: map[string]bool{}}
		s.edges[at] = e
	}
	return e
}

// At returns the Edge of a canonical host and a port, nil where no credential
// is for it.
func (s *Set) At(host string, port int) *Edge {
	if s == nil {
		return nil
	}
	return s.edges[Place{host, port}]
}

// Places returns where there is an Edge, sorted.
func (s *Set) Places() []Place {
	if s == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.edges), func(a, b Place) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
}

// Counts returns how many requests each credential was added to, and how often
// its values were masked; names with neither are left out.
func (s *Set) Counts() (used, masked map[string]int64) {
	used, masked = map[string]int64{}, map[string]int64{}
	if s == nil {
		return used, masked
	}
	for name, t := range s.tallies {
		if n := t.used.Load(); n > 0 {
			used[name] = n
		}
		if n := t.masked.Load(); n > 0 {
			masked[name] = n
		}
	}
	return used, masked
}

// Destroy overwrites what the Set knows of secrets. From then on no credential
// is added and nothing passes a mask. It may be called often.
func (s *Set) Destroy() {
	if s == nil {
		return
	}
	s.mask.destroy()
	for _, one := range s.secrets {
		one.Destroy()
	}
}

// fold is a header's name as the most lenient of servers compares it.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// An Edge is one host and port that credentials are for. It may be used by
// many goroutines.
type Edge struct {
	set  *Set
	uses []use           // the longest path first
	own  map[string]bool // folded names of their headers
}

// use is one credential.
type use struct {
	header        string // canonical
	before, after string // the secret
	methods       []string
	path          string
	secret        secret.Secret
	tally         *tally
}

// add adds a credential that was checked.
func (e *Edge) add(c wire.Credential, t *tally) error {
	u := use{header: http.CanonicalHeaderKey(c.Header), methods: slices.Clone(c.Methods), path: c.Path, secret: c.Secret, tally: t}
	u.before, u.after, _ = strings.Cut(c.Format, "{}")
	for _, other := range e.uses {
		if fold(other.header) == fold(u.header) && other.path == u.path && slices.ContainsFunc(u.methods, func(m string) bool { return slices.Contains(other.methods, m) }) {
			return fmt.Errorf("credential %q: %w: another has the same header and path", c.Name, ErrGrant)
		}
	}
	e.own[fold(u.header)] = true
	e.uses = append(e.uses, u)
	slices.SortStableFunc(e.uses, func(a, b use) int { return cmp.Compare(len(b.path), len(a.path)) })
	return nil
}
