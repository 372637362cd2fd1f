package inject

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/wire"
)

func TestWhatIsNoCredentialIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		text   string
		change func(*wire.Credential)
		want   error
	}{
		"no header":              {value, func(c *wire.Credential) { c.Header = "" }, ErrGrant},
		"a header with a space":  {value, func(c *wire.Credential) { c.Header = "X Key" }, ErrGrant},
		"a header with a line":   {value, func(c *wire.Credential) { c.Header = "X\r\nKey" }, ErrGrant},
		"no place for it":        {value, func(c *wire.Credential) { c.Format = "Bearer" }, ErrGrant},
		"two places for it":      {value, func(c *wire.Credential) { c.Format = "{}{}" }, ErrGrant},
		"a line in the format":   {value, func(c *wire.Credential) { c.Format = "{}\r\nX: y" }, ErrGrant},
		"no host":                {value, func(c *wire.Credential) { c.Host = "" }, ErrGrant},
		"a wildcard":             {value, func(c *wire.Credential) { c.Host = "*.test" }, ErrGrant},
		"upper case":             {value, func(c *wire.Credential) { c.Host = "API.test" }, ErrGrant},
		"no port":                {value, func(c *wire.Credential) { c.Port = 0 }, ErrGrant},
		"a port too high":        {value, func(c *wire.Credential) { c.Port = 65536 }, ErrGrant},
		"no methods":             {value, func(c *wire.Credential) { c.Methods = nil }, ErrGrant},
		"an empty method":        {value, func(c *wire.Credential) { c.Methods = []string{"GET", ""} }, ErrGrant},
		"no path":                {value, func(c *wire.Credential) { c.Path = "" }, ErrGrant},
		"a relative path":        {value, func(c *wire.Credential) { c.Path = "repos/" }, ErrGrant},
		"dots in the path":       {value, func(c *wire.Credential) { c.Path = "/repos/../" }, ErrGrant},
		"an escape in the path":  {value, func(c *wire.Credential) { c.Path = "/re%70os/" }, ErrGrant},
		"a query in the path":    {value, func(c *wire.Credential) { c.Path = "/repos?" }, ErrGrant},
		"no secret":              {value, func(c *wire.Credential) { c.Secret = secret.Secret{} }, ErrGrant},
		"a line in the secret":   {"s3cr3t\r\nX: y", nil, ErrValue},
		"a secret with its line": {"s3cr3t-value\n", nil, ErrValue},
		"NUL in the secret":      {"s3cr3t\x00value", nil, ErrValue},
		"a short secret":         {"s3cr", nil, redact.ErrShort},
		"a secret that repeats":  {strings.Repeat("a", 100), nil, redact.ErrRepeats},
		"a name that is none":    {value, func(c *wire.Credential) { c.Name = "a b" }, redact.ErrName},
	} {
		c := credentialOf(t, row.text, row.change)
		_, err := New([]wire.Credential{c})
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Secret.Len() > 0 {
			t.Errorf("%s: the secret is still there", name)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), row.text) {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
}

func TestAmbiguousCredentialsAreRefused(t *testing.T) {
	other := func(change func(*wire.Credential)) []wire.Credential {
		return []wire.Credential{credential(t, nil), credentialOf(t, "another-s3cr3t", func(c *wire.Credential) {
			c.Name = "other"
			change(c)
		})}
	}
	for name, list := range map[string][]wire.Credential{
		"same name":               other(func(c *wire.Credential) { c.Name, c.Path = "gh", "/x/" }),
		"same header and path":    other(func(c *wire.Credential) { c.Header = "AUTHORIZATION" }),
		"same header to a server": {credential(t, func(c *wire.Credential) { c.Header = "X-Key" }), credential(t, func(c *wire.Credential) { c.Name, c.Header = "b", "X_Key" })},
	} {
		if _, err := New(list); !errors.Is(err, ErrGrant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := make([]wire.Credential, wire.MaxCredentials+1)
	for i := range many {
		many[i] = credential(t, func(c *wire.Credential) { c.Name, c.Port = fmt.Sprint("c", i), i+1 })
	}
	if _, err := New(many); !errors.Is(err, ErrGrant) {
		t.Errorf("too many: %v", err)
	}
	set(t, other(func(c *wire.Credential) { c.Methods = []string{"POST"} })...)
	set(t, other(func(c *wire.Credential) { c.Path = "/" })...)
	set(t, other(func(c *wire.Credential) { c.Port = 444 })...)
}

// TestTheMostThatThereCanBe: as many credentials as there can be, as long as
// they can be, are all added and all masked.
func TestTheMostThatThereCanBe(t *testing.T) {
	var list []wire.Credential
	texts := map[string]string{}
	for i := range wire.MaxCredentials {
		name := fmt.Sprint("c", i)
		texts[name] = fmt.Sprintf("%03d-", i) + strings.Repeat("0123456789abcdef", wire.MaxSecret/16)[:wire.MaxSecret-4]
		list = append(list, credentialOf(t, texts[name], func(c *wire.Credential) { c.Name, c.Path, c.Format = name, fmt.Sprintf("/%s/", name), "Key {} key" }))
	}
	s := set(t, list...)
	for name, text := range texts {
		r := request(t, "GET", "/"+name+"/x")
		if n, err := s.At("api.test", 443).Request(r); n != 1 || err != nil || r.Header.Get("Authorization") != "Key "+text+" key" {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if got := s.Text("a " + text + " b"); got != "a [redacted:"+name+"] b" {
			t.Errorf("%s: %.40q", name, got)
		}
	}
	used, masked := s.Counts()
	if len(used) != len(texts) || len(masked) != len(texts) || used["c7"] != 1 || masked["c7"] != 1 {
		t.Errorf("%v %v", used, masked)
	}
}

func TestPlaces(t *testing.T) {
	s := set(t, credential(t, func(c *wire.Credential) { c.Name, c.Host = "b", "b.test" }), credential(t, func(c *wire.Credential) { c.Name, c.Port = "c", 8443 }), credential(t, nil))
	if got := s.Places(); !reflect.DeepEqual(got, []Place{{"api.test", 443}, {"api.test", 8443}, {"b.test", 443}}) {
		t.Errorf("%v", got)
	}
	for _, none := range []Place{{"api.test", 444}, {"b.test", 8443}, {"x.api.test", 443}, {"API.test", 443}, {"", 0}} {
		if s.At(none.Host, none.Port) != nil {
			t.Errorf("%v is one", none)
		}
	}
}

func TestNothingIsAddedAfterDestroy(t *testing.T) {
	c := credential(t, nil)
	s := set(t, c)
	s.Destroy()
	s.Destroy()
	if c.Secret.Len() > 0 {
		t.Error("the secret is still there")
	}
	r := request(t, "GET", "/repos/x")
	if n, err := s.At("api.test", 443).Request(r); n != 0 || err == nil || r.Header.Get("Authorization") != "" {
		t.Errorf("%d %v %v", n, err, r.Header)
	}
	if got := s.Text("text"); got != "" {
		t.Errorf("%q passes", got)
	}
	var out strings.Builder
	w := s.Writer(&out)
	if _, err := w.Write([]byte("text")); !errors.Is(err, redact.ErrGone) || out.Len() > 0 {
		t.Errorf("%v %q", err, out.String())
	}
}

func TestNoSetMasksNothing(t *testing.T) {
	var s *Set
	s.Destroy()
	s.Header(nil)
	if s.At("api.test", 443) != nil || s.Places() != nil || s.Text(value) != value || s.Start(value) != value {
		t.Error("nil is something")
	}
	if used, masked := s.Counts(); len(used)+len(masked) > 0 {
		t.Error(used, masked)
	}
	empty := set(t)
	if got := empty.Text(value); got != value {
		t.Errorf("%q", got)
	}
	var out strings.Builder
	w := empty.Writer(&out)
	if _, err := w.Write([]byte(value)); err != nil || w.Close() != nil || out.String() != value {
		t.Errorf("%q %v", out.String(), err)
	}
}

func TestASetPrintsNoSecret(t *testing.T) {
	s := set(t, credential(t, nil))
	e := s.At("api.test", 443)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", s, s, s), fmt.Sprintf("%v %+v %#v", *e, *e, *e)} {
		for _, form := range []string{value, "s3cr3t", "czNjcjN0"} {
			if strings.Contains(text, form) {
				t.Errorf("%q in %q", form, text)
			}
		}
	}
}

// TestHammer uses a Set from many goroutines, and destroys it under them.
func TestHammer(t *testing.T) {
	s := set(t, credential(t, nil))
	e := s.At("api.test", 443)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := e.Request(request(t, "GET", "/repos/x")); err != nil && !errors.Is(err, errGone) {
					t.Error(err)
				}
				if got := s.Text("x " + value); strings.Contains(got, value) {
					t.Errorf("%q", got)
				}
				s.Counts()
			}
			if i == 7 {
				s.Destroy()
			}
		})
	}
	all.Wait()
}
