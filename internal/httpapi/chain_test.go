package httpapi

import (
	"slices"
	"testing"
)

// TestChainOrder: each step holds for what comes after it. Nothing of a body is
// read before the key is known to be good.
func TestChainOrder(t *testing.T) {
	var names []string
	for _, l := range new(API).links() {
		names = append(names, l.name)
	}
	if want := []string{"recover", "log", "headers", "host", "origin", "body", "key"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestCodesAreOneTable: no word twice, and each refusal has its own.
func TestCodesAreOneTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Codes() {
		if seen[c.Word] || c.Title == "" || c.Status < 400 || c.Status > 599 {
			t.Errorf("%+v", c)
		}
		seen[c.Word] = true
		if p := problem(c.Word, "x", "y"); p.Code != c.Word || p.Status != c.Status {
			t.Errorf("%+v", p)
		}
	}
	for _, word := range set("refusal").Enum {
		if !seen[word.(string)] {
			t.Errorf("%s has no status", word)
		}
	}
}

// FuzzMatchPath: a pattern matches exactly the addresses that it makes.
func FuzzMatchPath(f *testing.F) {
	for _, seed := range []string{"/v1/calls/x", "/v1/calls/", "/v1/calls//events", "/v1/keys/a/rotate", "", "/", "/v1/calls/x/events/y", "v1/calls/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, e := range endpoints() {
			values, ok := matchPath(e.path, path)
			if !ok {
				continue
			}
			made := e.path
			for name, value := range values {
				if value == "" {
					t.Errorf("%s matches %q with no %s", e.path, path, name)
				}
				made = replaceOnce(made, "{"+name+"}", value)
			}
			if made != path {
				t.Errorf("%s matches %q, which it makes %q of", e.path, path, made)
			}
		}
	})
}

func replaceOnce(s, old, with string) string {
	for i := range s {
		if len(s)-i >= len(old) && s[i:i+len(old)] == old {
			return s[:i] + with + s[i+len(old):]
		}
	}
	return s
}
