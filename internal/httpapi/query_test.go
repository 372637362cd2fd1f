package httpapi

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzAsked: what is taken of an address is all that it says, each parameter
// once and with a value.
func FuzzAsked(f *testing.F) {
	for _, seed := range []string{"", "version=3", "upTo=", "upTo=1;x", "name=a&version=2", "name=a&name=b", "%zz", "name=%00", "&&&", "=", "version=1&x=2"} {
		f.Add(seed)
	}
	e := endpoint{query: []parameter{{"name", ""}, {"version", ""}}}
	f.Fuzz(func(t *testing.T, query string) {
		if e.asked(query) != nil {
			return
		}
		got := url.Values{}
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			name, odd := url.QueryUnescape(name)
			value, err := url.QueryUnescape(value)
			switch {
			case pair == "":
			case odd != nil || err != nil || value == "" || got.Has(name) || name != "name" && name != "version":
				t.Fatalf("%q is taken with %q", query, pair)
			default:
				got.Set(name, value)
			}
		}
		if read := (&url.URL{RawQuery: query}).Query(); read.Encode() != got.Encode() {
			t.Fatalf("%q is read as %v and says %v", query, read, got)
		}
	})
}
