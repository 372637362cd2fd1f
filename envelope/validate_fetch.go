package envelope

import (
	"net/url"
	"strings"
)

// MaxURL is the longest address of a Fetch, in bytes.
const MaxURL = 8 << 10

// checkFetchCall holds a fetch to its shape. Whether the host in it may be
// reached is decided where it is dialled.
func checkFetchCall(c *Call) *FieldError {
	if c.Fetch == nil {
		return nil
	}
	if err := checkFetchURL("fetch.url", c.Fetch.URL); err != nil {
		return err
	}
	if c.Fetch.Bytes < 0 {
		return fault("fetch.bytes", "is negative", "leave it out for the operator's cap")
	}
	for _, beside := range []struct {
		field string
		given bool
	}{
		{"stdin", len(c.Stdin) > 0}, {"env", len(c.Env) > 0}, {"inputs", len(c.Inputs) > 0}, {"outputs", len(c.Outputs) > 0}, {"needs", len(c.Needs) > 0},
		{"tree", c.Tree != nil}, {"workspace", c.Workspace != nil},
	} {
		if beside.given {
			return fault(beside.field, "is there beside fetch, which runs no program", "leave it out")
		}
	}
	return nil
}

func checkFetchURL(field, text string) *FieldError {
	if text == "" {
		return fault(field, "is empty", "write the address: https://example.com/page")
	}
	if len(text) > MaxURL {
		return fault(field, "has more than 8 KiB", "write a shorter address")
	}
	if err := checkPlain(field, text); err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil {
		return fault(field, "is not an address", "write it in full: https://example.com/page")
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme == "" || strings.Contains(scheme, "."): // example.com:8080/page
		return fault(field, quote(short(text))+" has no scheme", "write it in full: https://example.com/page")
	case scheme != "http" && scheme != "https":
		return fault(field, "has the scheme "+quote(short(u.Scheme))+", which is not fetched", "http and https alone are fetched")
	case u.Host == "" || u.Opaque != "":
		return fault(field, "has no host", "write it in full: https://example.com/page")
	case u.User != nil:
		return fault(field, "has user information", "leave out what is before the @: no password goes into an address")
	}
	return nil
}

// short cuts a text for a message.
func short(text string) string {
	if len(text) > 64 {
		return strings.ToValidUTF8(text[:64], "") + "..."
	}
	return text
}
