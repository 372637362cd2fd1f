package inject

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/egress/wire"
)

func TestTheHeaderIsAddedWhereMethodAndPathMatch(t *testing.T) {
	s := set(t, credential(t, func(c *wire.Credential) { c.Methods = []string{"GET", "HEAD"} }))
	e := s.At("api.test", 443)
	for _, row := range []struct {
		method, target string
		want           bool
	}{
		{"GET", "/repos/", true}, {"GET", "/repos/a/b?x=/../", true}, {"HEAD", "/repos/a", true}, {"GET", "/repos/%C3%A9", true}, {"GET", "/repos/a%2520b", true},
		{"POST", "/repos/", false}, {"get", "/repos/", false}, {"DELETE", "/repos/a", false}, {"OPTIONS", "*", false},
		{"GET", "/repos", false}, {"GET", "/repository/", false}, {"GET", "/REPOS/a", false}, {"GET", "/%72epos/a", false}, {"GET", "/", false},
		{"GET", "/x/repos/", false}, {"GET", "/admin?/repos/", false},
	} {
		r := request(t, row.method, row.target, "Authorization", "Bearer mine", "Accept", "a")
		n, err := e.Request(r)
		want := http.Header{"Accept": {"a"}, "Accept-Encoding": {"identity"}}
		if row.want {
			want["Authorization"] = []string{"Bearer " + value}
		}
		if err != nil || (n == 1) != row.want || !maps.EqualFunc(r.Header, want, slices.Equal[[]string]) {
			t.Errorf("%s %s: %d, %v, %v", row.method, row.target, n, err, r.Header)
		}
	}
	if used, _ := s.Counts(); used["gh"] != 5 {
		t.Errorf("%v", used)
	}
}

func TestWhatIsRefusedOnAHostWithACredential(t *testing.T) {
	e := set(t, credential(t, nil)).At("api.test", 443)
	for name, r := range map[string]*http.Request{
		"dots":             request(t, "GET", "/repos/../admin"),
		"encoded dots":     request(t, "GET", "/repos/%2e%2e/admin"),
		"dots outside":     request(t, "GET", "/x/../admin"),
		"empty components": request(t, "GET", "//repos/"),
		"backslash":        request(t, "GET", `/repos/..\admin`),
		"CONNECT":          request(t, "CONNECT", "/repos/"),
		"trace":            request(t, "trace", "/repos/"),
		"an upgrade":       request(t, "GET", "/repos/", "Upgrade", "h2c"),
	} {
		n, err := e.Request(r)
		if err == nil || n > 0 || !strings.HasSuffix(err.Error(), onHost) || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: %d, %v, %v", name, n, err, r.Header)
		}
	}
}

func TestWhatTheProgramSaysOfItselfIsDropped(t *testing.T) {
	s := set(t, credential(t, nil), credentialOf(t, "another-s3cr3t", func(c *wire.Credential) { c.Name, c.Header, c.Format = "key", "x-api-key", "{}" }))
	e := s.At("api.test", 443)
	dropped := []string{
		"Authorization", "X-Api-Key", "X_Api_Key", "X-Api_Key", "Range", "If-Range", "X-Ms-Range", "Request-Range", "A-Im", "Accept_Encoding",
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X_http_method_override", "X-Original-Url", "X-Original-Host", "X-Rewrite-Url",
		"X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded-Host", "Forwarded", "X-Host",
	}
	kept := []string{"Cookie", "X-Api-Key-Id", "Authorization-Info", "X-Authorization", "If-Match", "User-Agent", "Content-Type", "Te"}
	for _, target := range []string{"/repos/x", "/admin"} {
		r := request(t, "GET", target)
		for _, name := range append(slices.Clone(dropped), kept...) {
			r.Header[name] = []string{"mine", "mine too"}
		}
		r.Trailer = http.Header{"Authorization": {"mine"}}
		if _, err := e.Request(r); err != nil {
			t.Fatal(err)
		}
		for name, values := range r.Header {
			if slices.Contains(values, "mine") != slices.Contains(kept, name) {
				t.Errorf("%s: %s: %q", target, name, values)
			}
		}
		if r.Trailer != nil {
			t.Errorf("%v", r.Trailer)
		}
		if got := r.Header.Get("X-Api-Key"); (got == "another-s3cr3t") != (target == "/repos/x") {
			t.Errorf("%s: %q", target, got)
		}
	}
}

func TestTheLongestPathWins(t *testing.T) {
	var list []wire.Credential
	for _, c := range []struct{ name, header, path string }{
		{"all", "X-Key", "/"}, {"deep", "x-key", "/a/b/"}, {"mid", "X-KEY", "/a/"}, {"other", "X-Other", "/a/"}, {"longer", "X-Key", "/a/b/c"},
	} {
		list = append(list, credentialOf(t, "s3cr3t-"+c.name, func(w *wire.Credential) { w.Name, w.Header, w.Format, w.Path = c.name, c.header, "{}", c.path }))
	}
	list[4].Methods = []string{"POST"}
	e := set(t, list...).At("api.test", 443)
	for target, want := range map[string][2]string{
		"/": {"all", ""}, "/x": {"all", ""}, "/a": {"all", ""}, "/a/": {"mid", "other"}, "/a/x": {"mid", "other"}, "/a/b": {"mid", "other"}, "/a/b/c/d": {"deep", "other"},
	} {
		r := request(t, "GET", target)
		n, err := e.Request(r)
		got := [2]string{strings.TrimPrefix(r.Header.Get("X-Key"), "s3cr3t-"), strings.TrimPrefix(r.Header.Get("X-Other"), "s3cr3t-")}
		if err != nil || got != want || (n == 2) != (want[1] != "") {
			t.Errorf("%s: %d, %v, %q", target, n, err, got)
		}
	}
}
