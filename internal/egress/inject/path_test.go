package inject

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/egress/wire"
)

func TestPathsThatAreReadInTwoWaysAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"": "slash", "repos/": "slash", "?x": "slash",
		"/repos/../admin": "dots", "/repos/..": "dots", "/..": "dots", "/.": "dots", "/repos/./x": "dots", "/repos/.../x": "dots",
		"/repos/..;/admin": "dots", "/repos/..;a=b/admin": "dots", "/repos/.;/x": "dots", "/repos/%20../x": "dots", "/repos/..%20/x": "dots",
		"/repos/%EF%BC%8E%EF%BC%8E/x": "another script", "/repos/\u2025/x": "another script", "/repos/\u2026/x": "another script",
		"/repos/a\uff0fb": "another script", "/repos/%e2%88%95..": "another script", "/repos/a\uff3cb": "another script",
		"/repos/..%3b/admin": "dots", "/repos/..%3B/admin": "dots",
		"/repos/%2e%2e/admin": "encoded dot", "/repos/%2E%2e/admin": "encoded dot", "/repos/.%2e/admin": "encoded dot", "/repos/a%2Eb": "encoded dot",
		"/repos%2fx": "encoded separator", "/repos%2Fx": "encoded separator", "/repos/%5c..": "encoded separator", "/repos/a%5Cb": "encoded separator",
		"/repos/%252e%252e/admin": "encoded dot", "/repos/%252fadmin": "encoded separator", "/repos/%25252e": "encoded dot", "/repos/%25%32%65": "encoded dot",
		"/repos/%%32%65%%32%65/x": "encoded dot",
		"//repos/":                "empty", "/repos//x": "empty", "/repos/x//": "empty",
		"/repos/\\x": "backslash", "/repos/..\\admin": "backslash",
		"/repos/%00": "control", "/repos/%0a": "control", "/repos/%1F": "control", "/repos/%7f": "control", "/repos/\x00": "control", "/repos/\x7f": "control",
		"/repos/%2500":   "control",
		"/repos/%c0%ae/": "UTF-8", "/repos/%ff": "UTF-8", "/repos/%c0%af": "UTF-8", "/repos/\xff": "UTF-8",
		"/repos/%25252525252525": "escapes within",
	} {
		if got := Path(text); !strings.Contains(got, why) || got == "" {
			t.Errorf("%q: %q, want %q", text, got, why)
		}
	}
	for _, text := range []string{
		"/", "*", "/repos/", "/repos/a/b", "/repos/a/", "/repos/.git", "/repos/..a", "/repos/a..b/c.d", "/repos/a%20b", "/repos/%C3%A9", "/repos/é", "/repos/a;b=c",
		"/repos/100%25", "/repos/a%3Fb", "/repos/a:b@c", "/repos/a%", "/repos/%zz", "/~x/", "/repos/%25zz", "/repos/a%3b",
	} {
		if got := Path(text); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestALongPathOfEscapesIsJudgedSoon(t *testing.T) {
	if got := Path("/" + strings.Repeat("%25", 300_000)); got != "" {
		t.Errorf("%q", got) // it ends after two rounds
	}
	if got := Path("/%" + strings.Repeat("25", 500_000)); !strings.Contains(got, "escapes within") {
		t.Errorf("%q", got)
	}
}

// readers are ways in which servers make a path of what they are sent.
func readers() map[string]func(string) string {
	decode := func(s string) string { return unescaped(s) }
	parameters := func(s string) string {
		parts := strings.Split(s, "/")
		for i := range parts {
			parts[i], _, _ = strings.Cut(parts[i], ";")
		}
		return strings.Join(parts, "/")
	}
	slashes := func(s string) string { return strings.ReplaceAll(s, "\\", "/") }
	trimmed := func(s string) string {
		parts := strings.Split(s, "/")
		for i := range parts {
			if dots := strings.TrimRight(parts[i], ". "); dots == "" && len(parts[i]) > 1 {
				parts[i] = ".."
			}
		}
		return strings.Join(parts, "/")
	}
	strict := func(s string) string {
		out, err := url.PathUnescape(s)
		if err != nil {
			return s
		}
		return out
	}
	cut := func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s }
	return map[string]func(string) string{
		"as it is":         func(s string) string { return s },
		"decoded":          decode,
		"strictly decoded": strict,
		"decoded twice":    func(s string) string { return decode(decode(s)) },
		"parameters":       func(s string) string { return parameters(decode(s)) },
		"parameters first": func(s string) string { return decode(parameters(s)) },
		"backslashes":      func(s string) string { return slashes(decode(s)) },
		"windows":          func(s string) string { return trimmed(slashes(decode(s))) },
		"dots alone":       func(s string) string { return strings.NewReplacer("%2e", ".", "%2E", ".").Replace(s) },
		"slashes alone":    func(s string) string { return strings.NewReplacer("%2f", "/", "%2F", "/").Replace(s) },
		"C":                func(s string) string { return cut(decode(s)) },
	}
}

// FuzzRequest: whatever a program asks for, a request that goes on with the
// header is for a path below the credential's, however an origin reads it.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/repos/x", "/repos/../admin", "/repos/%2e%2e/admin", "/repos/%252e%252e/admin", "/repos//admin", "/repos/\\..\\admin", "/REPOS/x", "/repository",
		"/repos", "/repos/..;/admin", "/repos/%2f..%2fadmin", "/%72epos/x", "https://api.test/repos/x", "*", "/repos/a?/../..", "/repos/%00/../x", "/repos/…/x",
		"/repos/%c0%ae%c0%ae/", "/./repos/x", "/a/../repos/x", "//api.test/repos/x", "/repos/.. /x", "/repos/%3f/x", "/repos/a%2520b",
	} {
		f.Add("GET", target, "Authorization", "Bearer mine")
	}
	f.Add("get", "/repos/x", "authorization", "x")
	f.Add("POST", "/repos/x", "X_Key", "x")
	f.Add("TRACE", "/repos/x", "Range", "bytes=0-1")
	f.Add("CONNECT", "api.test:443", "Upgrade", "h2c")
	s := set(f, credential(f, nil), credentialOf(f, "another-s3cr3t", func(c *wire.Credential) { c.Name, c.Header, c.Format, c.Path = "key", "X-Key", "{}", "/repos/deep/" }))
	e := s.At("api.test", 443)
	f.Fuzz(func(t *testing.T, method, target, name, text string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Header: http.Header{http.CanonicalHeaderKey(name): {text, text}}, Trailer: http.Header{"Authorization": {"x"}}}
		added, err := e.Request(r)
		if (err != nil) && added > 0 {
			t.Fatalf("%v and %d headers", err, added)
		}
		for name, values := range r.Header {
			switch fold(name) {
			case "authorization", "x-key":
				ours := len(values) == 1 && (values[0] == "Bearer "+value || values[0] == "another-s3cr3t")
				if err == nil && (added == 0 || !ours) {
					t.Fatalf("%s %q goes on with %s: %q", method, target, name, values)
				}
			}
		}
		if err != nil || added == 0 {
			return
		}
		sent, _, _ := strings.Cut(r.URL.RequestURI(), "?")
		if method != "GET" || r.Trailer != nil || !strings.HasPrefix(sent, "/repos/") || r.Header.Get("Accept-Encoding") != "identity" {
			t.Fatalf("%s %q goes on with the header", method, sent)
		}
		for how, read := range readers() {
			if got := path.Clean(read(sent)); got != "/repos" && !strings.HasPrefix(got, "/repos/") {
				t.Fatalf("%q goes on with the header, and is %q where it is read: %s", sent, got, how)
			}
		}
	})
}
